// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

const (
	accessKey = "AKIDEXAMPLE"
	secretKey = "hunter2/+key"
)

// identity makes tokens with fixed keys, or fails as the manager's identity does.
type identity struct {
	kubeconfig.Tokens
	problem error
	made    int
}

func identityAt(now clock.PassiveClock) *identity {
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
	})
	return &identity{Tokens: kubeconfig.NewAWS(now, false, config.WithCredentialsProvider(keys))}
}

func (i *identity) Token(ctx context.Context, cluster, region string) (string, time.Time, error) {
	if i.problem != nil {
		return "", time.Time{}, i.problem
	}
	i.made++
	return i.Tokens.Token(ctx, cluster, region)
}

// signedFor tells whether a kubeconfig holds a token of the present second for an EKS cluster.
func signedFor(t *testing.T, data []byte, cluster string, at time.Time) bool {
	t.Helper()
	made, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	token, _, err := identityAt(clocktesting.NewFakePassiveClock(at)).Token(t.Context(), cluster, builder.Region)
	require.NoError(t, err)
	return made.BearerToken == token // The same name, region, keys and second make the same token.
}

// tokenOf makes a kubeconfig as Terraform does, with a token of its own.
func tokenOf(t *testing.T, at time.Time) string {
	t.Helper()
	token, _, err := identityAt(clocktesting.NewFakePassiveClock(at)).Token(t.Context(), "demo", builder.Region)
	require.NoError(t, err)
	data, err := kubeconfig.ForToken("from-terraform", "https://"+host, builder.CA(), token)
	require.NoError(t, err)
	return string(data)
}

// kind tells where a kubeconfig comes from: "output", "token" or "exec"; else it is the reason why there is none.
func (p *Published) kind(t *testing.T, output string) string {
	t.Helper()
	switch {
	case p.Data == nil:
		assert.NotEmpty(t, p.Problem)
		return p.Reason
	case string(p.Data) == output:
		return "output"
	case holdsToken(p.Data):
		assert.True(t, signedFor(t, p.Data, "demo", builder.Created))
		return "token"
	}
	made, err := clientcmd.RESTConfigFromKubeConfig(p.Data)
	require.NoError(t, err)
	require.NotNil(t, made.ExecProvider)
	return "exec"
}

// withTokens lets a scene make tokens with an identity, at the time at which the objects were created.
func (s *scene) withTokens(tokens kubeconfig.Tokens) *scene {
	s.Now, s.tokens = builder.Created, tokenFacts{}
	if tokens != nil {
		s.tokens.kubeconfig = func(from kubeconfig.Source, published []byte) ([]byte, time.Time, error) {
			return from.Kubeconfig(s.Context(), tokens, published, s.Now)
		}
	}
	return s
}

func TestEachSourceWithEachOutputAndEachIdentity(t *testing.T) {
	exec, err := kubeconfig.ForExec("from-terraform", "eu-west-1", "https://"+host, builder.CA())
	require.NoError(t, err)
	outputs := map[string]string{
		"none":      "",
		"lasting":   fromTerraform,
		"get-token": string(exec),
		"running":   tokenOf(t, builder.Created.Add(-14*time.Minute)),
		"ended":     tokenOf(t, builder.Created.Add(-15*time.Minute)),
		"unsafe":    strings.Replace(fromTerraform, "token: t", "tokenFile: /hunter2", 1),
		"garbage":   "hunter2",
	}
	now := clocktesting.NewFakePassiveClock(builder.Created)
	identities := map[string]kubeconfig.Tokens{
		"off": nil, "on": identityAt(now),
		"absent": &identity{problem: kubeconfig.ErrNoCredentials}, "failing": &identity{problem: errors.New("AWS answered AccessDenied")},
	}
	const missing, invalid = controlplanev1.KubeconfigMissingReason, controlplanev1.KubeconfigInvalidReason
	columns := []string{"none", "lasting", "get-token", "running", "ended", "unsafe", "garbage"}
	for row, want := range map[string][]string{
		// source, identity:         none, lasting, get-token, running, ended, unsafe, garbage
		"Output off":     {missing, "output", "output", "output", invalid, invalid, invalid},
		"Output on":      {missing, "output", "output", "output", invalid, invalid, invalid},
		"Output failing": {missing, "output", "output", "output", invalid, invalid, invalid},
		"Exec off":       {"exec", "exec", "exec", "exec", "exec", "exec", "exec"},
		"Exec on":        {"exec", "exec", "exec", "exec", "exec", "exec", "exec"},
		"Token off":      {missing, missing, missing, missing, missing, missing, missing},
		"Token on":       {"token", "token", "token", "token", "token", "token", "token"},
		"Token absent":   {missing, missing, missing, missing, missing, missing, missing},
		"Token failing":  {missing, missing, missing, missing, missing, missing, missing},
		"Auto off":       {"exec", "output", "exec", "output", "exec", "exec", "exec"},
		"Auto on":        {"token", "output", "token", "token", "token", "token", "token"},
		"Auto absent":    {"exec", "output", "exec", "output", "exec", "exec", "exec"},
		"Auto failing":   {missing, "output", missing, missing, missing, missing, missing},
		" off":           {"exec", "output", "exec", "output", "exec", "exec", "exec"},
	} {
		source, who, _ := strings.Cut(row, " ")
		for i, column := range columns {
			t.Run(row+", output "+column, func(t *testing.T) {
				s := newScene(t, withSource(controlplanev1.KubeconfigSource(source))).withTokens(identities[who])
				s.Connection = connection(map[string]string{"kubeconfig": outputs[column], "cluster_certificate_authority_data": builder.CA()})
				s.publish(s.controlPlane)
				assert.Equal(t, want[i], s.Kubeconfig.kind(t, outputs[column]))
				assert.NotContains(t, s.Kubeconfig.Problem+s.Kubeconfig.Note, "hunter2")
				assert.Equal(t, "exec", s.UserKubeconfig.kind(t, outputs[column]), "people have identities of their own")
			})
		}
	}
}

func withSource(source controlplanev1.KubeconfigSource) builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Kubeconfig.Source = source })
}

func TestWhatIsToBeDoneIsSaid(t *testing.T) {
	for name, row := range map[string]struct {
		source controlplanev1.KubeconfigSource
		output string
		tokens kubeconfig.Tokens
		want   string
	}{
		"no flag":         {"Token", "", nil, "this manager makes no tokens: start it with --eks-tokens, or set the source to Output or Exec"},
		"no credentials":  {"Token", "", &identity{problem: kubeconfig.ErrNoCredentials}, "no token can be made: the manager has no AWS credentials"},
		"a token's end":   {"Output", tokenOf(t, builder.Created.Add(-time.Hour)), nil, "set spec.kubeconfig.source to Token or Exec"},
		"nothing to take": {"Output", "", nil, `no output "kubeconfig"; add it to the module, or set spec.kubeconfig.source to Exec`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, withSource(row.source)).withTokens(row.tokens)
			s.Connection.Data["kubeconfig"] = []byte(row.output)
			s.publish(s.controlPlane)
			assert.Contains(t, s.Kubeconfig.Problem, row.want)
		})
	}
}

func TestAnOutputThatEndsIsLookedAtAgainThen(t *testing.T) {
	for _, source := range []controlplanev1.KubeconfigSource{"Output", "Auto"} {
		s := newScene(t, withSource(source)).withTokens(nil)
		s.Connection.Data["kubeconfig"] = []byte(tokenOf(t, builder.Created.Add(-12*time.Minute)))
		s.publish(s.controlPlane)
		assert.Equal(t, 3*time.Minute, s.again)
	}
}

func TestWithoutTokensNothingIsLookedAtAgain(t *testing.T) {
	for _, source := range []controlplanev1.KubeconfigSource{"Output", "Exec", "Auto", "Token"} {
		s := newScene(t, withSource(source)).withTokens(nil)
		s.publish(s.controlPlane)
		assert.Zero(t, s.again, source)
	}
}

func TestCredentialsThatNobodyGaveAreLookedForLessOften(t *testing.T) {
	for problem, again := range map[error]time.Duration{kubeconfig.ErrNoCredentials: 5 * time.Minute, errors.New("AWS is down"): 30 * time.Second} {
		s := newScene(t, withSource("Token")).withTokens(&identity{problem: problem})
		s.publish(s.controlPlane)
		assert.Equal(t, again, s.again)
	}
}

// The author of a template decides what it returns, and a token for another cluster would let him into that one.
func TestATokenIsForTheClusterThatTerraformWasToldToMake(t *testing.T) {
	s := newScene(t, withSource("Token")).withTokens(identityAt(clocktesting.NewFakePassiveClock(builder.Created)))
	s.apply(builder.UpToDate(map[string]string{"cluster_endpoint": host}), builder.WithVariables(map[string]string{"cluster_name": "given"}))
	s.publish(s.controlPlane)
	assert.True(t, signedFor(t, s.Kubeconfig.Data, "given", builder.Created), "no output says otherwise")

	s.Apply.Apply.Status.Outputs["cluster_name"] = "prod"
	s.publish(s.controlPlane)
	assert.Nil(t, s.Kubeconfig.Data)
	assert.Equal(t, controlplanev1.KubeconfigInvalidReason, s.Kubeconfig.Reason)
	assert.Contains(t, s.Kubeconfig.Problem, `"given", and output "cluster_name" is "prod"`)

	delete(s.Apply.Apply.Status.Outputs, "cluster_name")
	s.Connection.Data["cluster_name"] = []byte("hunter2")
	s.publish(s.controlPlane)
	assert.Nil(t, s.Kubeconfig.Data)
	assert.NotContains(t, s.Kubeconfig.Problem, "hunter2", "it is sensitive")

	s.controlPlane.Spec.Kubeconfig.Source = controlplanev1.KubeconfigAuto
	s.publish(s.controlPlane)
	assert.Equal(t, "exec", s.Kubeconfig.kind(t, ""))
	assert.Contains(t, s.Kubeconfig.Note, "a token is made only for the cluster that Terraform was told to make")
	assert.NotContains(t, s.Kubeconfig.Note, "hunter2")
}

func TestATokenNeedsAllThatAClientNeeds(t *testing.T) {
	for name, row := range map[string]struct {
		outputs map[string]string
		ca      string
		reason  string
	}{
		"no endpoint":  {nil, builder.CA(), controlplanev1.KubeconfigMissingReason},
		"no authority": {outputs(), "", controlplanev1.KubeconfigMissingReason},
		"no PEM":       {outputs(), base64.StdEncoding.EncodeToString([]byte("hunter2")), controlplanev1.KubeconfigInvalidReason},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := identityAt(clocktesting.NewFakePassiveClock(builder.Created))
			s := newScene(t, withSource("Token")).withTokens(tokens).apply(builder.UpToDate(row.outputs))
			s.Connection = connection(map[string]string{"cluster_certificate_authority_data": row.ca})
			s.publish(s.controlPlane)
			assert.Equal(t, row.reason, s.Kubeconfig.Reason)
			assert.Zero(t, tokens.made, "no token is made for nothing")
			assert.NotContains(t, s.Kubeconfig.Problem, "hunter2")
		})
	}
}

func TestNoTokenIsMadeForASecretThatIsAnothers(t *testing.T) {
	tokens := identityAt(clocktesting.NewFakePassiveClock(builder.Created))
	s := newScene(t, withSource("Token")).withTokens(tokens)
	s.Kubeconfig.Live = liveSecret([]byte("theirs"), metav1.NewControllerRef(builder.CAPTControlPlane("other"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane")))
	s.publish(s.controlPlane)
	assert.Equal(t, controlplanev1.KubeconfigConflictReason, s.Kubeconfig.Reason)
	assert.Zero(t, tokens.made)
}
