// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfigsecret

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/tokens"
)

const host = "ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com"

// fixture has what the kubeconfigs of a control plane are made from, with all that is needed.
type fixture struct {
	*testing.T
	Plan
	Contract, User Kubeconfig
	tokens         kubeconfig.Tokens
	requeueAfter   time.Duration
}

func newFixture(t *testing.T, options ...builder.Option) *fixture {
	t.Helper()
	return &fixture{T: t, Plan: Plan{Mode: Publish, Now: builder.Created, Cluster: Cluster{
		ControlPlane: builder.CAPTControlPlane("demo", options...), Name: "demo", EKSName: "demo", Region: builder.Region,
		Outputs: Outputs{Published: outputs(), Connection: connection(map[string]string{"cluster_certificate_authority_data": builder.CA()})},
	}}}
}

func outputs() map[string]string {
	return map[string]string{"cluster_endpoint": "https://" + host, "cluster_name": "demo"}
}

func connection(data map[string]string) *corev1.Secret {
	return builder.SecretWith("demo-eks-connection", data)
}

// publish determines the kubeconfigs without writing them.
func (s *fixture) publish() {
	s.Helper()
	after, err := Publisher{Tokens: s.tokens}.Publish(s.Context(), s.Plan, &s.Contract, &s.User)
	require.NoError(s, err)
	s.requeueAfter = after
}

const fromTerraform = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://from-terraform.example.com"}}], users: [{name: u, user: {token: t}}]}`

func TestTheNameOfTheEKSClusterIsTheOutputElseTheVariable(t *testing.T) {
	for name, outputs := range map[string]map[string]string{
		"from-terraform": {"cluster_endpoint": host, "cluster_name": "from-terraform"},
		"from-variable":  {"cluster_endpoint": host},
	} {
		s := newFixture(t)
		s.Cluster.Published, s.Cluster.EKSName = outputs, "from-variable"
		s.publish()
		config, err := clientcmd.RESTConfigFromKubeConfig(s.User.Data)
		require.NoError(t, err)
		assert.Subset(t, config.ExecProvider.Args, []string{name, builder.Region})
	}
}

// liveSecret is a kubeconfig Secret that is there already.
func liveSecret(data []byte, owner *metav1.OwnerReference) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-kubeconfig"}, Data: map[string][]byte{"value": data}}
	if owner != nil {
		secret.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return secret
}

// One tenant never receives what is another's.
func TestTheSecretOfAnotherOwnerIsNotOverwritten(t *testing.T) {
	identity := tokens.With(clocktesting.NewFakePassiveClock(builder.Created))
	theirs := metav1.NewControllerRef(builder.CAPTControlPlane("other"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	equal := newFixture(t)
	equal.publish()
	for _, data := range [][]byte{[]byte("theirs"), equal.Contract.Data} {
		s := newFixture(t, withSource("Token")).withTokens(identity)
		s.Contract.Live, s.User.Live = liveSecret(data, theirs), liveSecret(data, theirs)
		s.publish()
		for _, published := range []Kubeconfig{s.Contract, s.User} {
			assert.Nil(t, published.Data)
			assert.False(t, published.Written)
			assert.Equal(t, controlplanev1.KubeconfigConflictReason, published.Reason)
			assert.Contains(t, published.Problem, "Secret demo-kubeconfig belongs to CAPTControlPlane other")
		}
	}
	assert.Zero(t, identity.Made, "no token is created for it")
}

func TestASecretWithoutOwnerIsUsedOnlyIfItHasTheContractType(t *testing.T) {
	for secretType, taken := range map[corev1.SecretType]bool{clusterv1.ClusterSecretType: true, corev1.SecretTypeOpaque: false, "": false} {
		s := newFixture(t)
		s.Contract.Live = liveSecret([]byte("of-before"), nil)
		s.Contract.Live.Type = secretType
		s.publish()
		assert.Equal(t, taken, s.Contract.Data != nil, secretType)
		assert.Equal(t, taken, s.Contract.Reason == "", secretType)
	}
}

func TestOurOwnSecretIsWrittenOnlyWhenItDiffers(t *testing.T) {
	s := newFixture(t)
	s.publish()
	want := s.Contract.Data
	ours := metav1.NewControllerRef(s.Cluster.ControlPlane, controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))

	s.Contract.Live = liveSecret([]byte("of-before"), ours)
	s.publish()
	assert.Equal(t, want, s.Contract.Data)
	assert.False(t, s.Contract.Written)

	s.Contract.Live = liveSecret(want, ours)
	s.publish()
	assert.False(t, s.Contract.Written, "it lacks the label of the contract")

	s.Contract.Live.Labels = map[string]string{clusterv1.ClusterNameLabel: s.Cluster.Name}
	s.publish()
	assert.False(t, s.Contract.Written, "its managedFields were lost")

	builder.AppliedBy(fieldManager)(s.Contract.Live)
	s.publish()
	assert.True(t, s.Contract.Written)
}

func TestTheSecretHasTheFormOfTheContract(t *testing.T) {
	s := newFixture(t)
	secret := contractSecret(Cluster{ControlPlane: s.Cluster.ControlPlane, Name: "demo-cluster"}, "demo-cluster-kubeconfig", []byte("x"))
	assert.Equal(t, clusterv1.ClusterSecretType, secret.Type)
	assert.Equal(t, map[string]string{clusterv1.ClusterNameLabel: "demo-cluster"}, secret.Labels)
	assert.Equal(t, map[string][]byte{"value": []byte("x")}, secret.Data)
	assert.Equal(t, s.Cluster.ControlPlane.UID, metav1.GetControllerOf(secret).UID)
	assert.Equal(t, "default", secret.Namespace, "the namespace of the control plane and the Cluster")
}

// signedFor reports whether a kubeconfig holds a token of a second for an EKS cluster.
func signedFor(t *testing.T, data []byte, cluster string, at time.Time) bool {
	t.Helper()
	made, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	return made.BearerToken == tokens.At(t, cluster, at)
}

// kind is where a kubeconfig comes from: "output", "token" or "exec"; else it is the reason why there is none.
func (k *Kubeconfig) kind(t *testing.T, output string) string {
	t.Helper()
	switch {
	case k.Data == nil:
		assert.NotEmpty(t, k.Problem)
		return k.Reason
	case string(k.Data) == output:
		return "output"
	case holdsToken(k.Data):
		assert.True(t, signedFor(t, k.Data, "demo", builder.Created))
		return "token"
	}
	made, err := clientcmd.RESTConfigFromKubeConfig(k.Data)
	require.NoError(t, err)
	require.NotNil(t, made.ExecProvider)
	return "exec"
}

// withTokens lets a fixture make tokens with an identity, at the time at which the objects were created.
func (s *fixture) withTokens(tokens kubeconfig.Tokens) *fixture {
	s.tokens = tokens
	return s
}

func TestEachSourceWithEachOutputAndEachIdentity(t *testing.T) {
	exec, err := kubeconfig.ForExec("from-terraform", "eu-west-1", "https://"+host, builder.CA())
	require.NoError(t, err)
	outputs := map[string]string{
		"none":      "",
		"lasting":   fromTerraform,
		"get-token": string(exec),
		"running":   tokens.Kubeconfig(t, host, builder.Created.Add(-14*time.Minute)),
		"ended":     tokens.Kubeconfig(t, host, builder.Created.Add(-15*time.Minute)),
		"unsafe":    strings.Replace(fromTerraform, "token: t", "tokenFile: /hunter2", 1),
		"garbage":   "hunter2",
	}
	now := clocktesting.NewFakePassiveClock(builder.Created)
	identities := map[string]kubeconfig.Tokens{
		"off": nil, "on": tokens.With(now),
		"absent": &tokens.Identity{Problem: kubeconfig.ErrNoCredentials}, "failing": &tokens.Identity{Problem: errors.New("AWS answered AccessDenied")},
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
				s := newFixture(t, withSource(controlplanev1.KubeconfigSource(source))).withTokens(identities[who])
				s.Cluster.Connection = connection(map[string]string{"kubeconfig": outputs[column], "cluster_certificate_authority_data": builder.CA()})
				s.publish()
				assert.Equal(t, want[i], s.Contract.kind(t, outputs[column]))
				assert.NotContains(t, s.Contract.Problem+s.Contract.Warning, "hunter2")
				assert.Equal(t, "exec", s.User.kind(t, outputs[column]), "users have identities of their own")
			})
		}
	}
}

func withSource(source controlplanev1.KubeconfigSource) builder.Option {
	return builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Kubeconfig.Source = source })
}

func TestRemedies(t *testing.T) {
	for name, row := range map[string]struct {
		source controlplanev1.KubeconfigSource
		output string
		tokens kubeconfig.Tokens
		want   string
	}{
		"no flag":         {"Token", "", nil, "this manager creates no tokens: it had no AWS credentials when it started"},
		"no credentials":  {"Token", "", &tokens.Identity{Problem: kubeconfig.ErrNoCredentials}, "no token can be created: the manager has no AWS credentials; see docs/install-reference.md (Tokens for kubeconfigs)"},
		"a token's end":   {"Output", tokens.Kubeconfig(t, host, builder.Created.Add(-time.Hour)), nil, "set spec.kubeconfig.source to Token or Exec"},
		"nothing to take": {"Output", "", nil, `output "kubeconfig" has no value, or the text of one that does not exist, such as null or None; correct it in the module of WorkspaceTemplate default/eks, or set spec.kubeconfig.source to Exec`},
		"no output":       {"Output", "-", nil, `no output "kubeconfig". If the module has it, its value is null, or another client has edited Secret demo-eks-connection, and captctl run lets Terraform write it again. Otherwise add it to the module of WorkspaceTemplate default/eks, or set`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, withSource(row.source)).withTokens(row.tokens)
			if row.output != "-" {
				s.Cluster.Connection.Data["kubeconfig"] = []byte(row.output)
			}
			s.publish()
			assert.Contains(t, s.Contract.Problem, row.want)
		})
	}
}

// A user who edits the module of a template because its Secret was deleted would let Terraform change all its clusters.
func TestADeletedConnectionSecretIsNotBlamedOnTheModule(t *testing.T) {
	for _, source := range []controlplanev1.KubeconfigSource{"Output", "Exec", "Auto"} {
		s := newFixture(t, withSource(source)).withTokens(nil)
		s.Cluster.Connection = nil
		s.publish()
		for _, problem := range []string{s.Contract.Problem, s.User.Problem} {
			assert.Contains(t, problem, "does not exist; provider-terraform writes it again at its next poll", source)
			assert.NotContains(t, problem, "add it to the module", source)
		}
		assert.Equal(t, controlplanev1.KubeconfigMissingReason, s.Contract.Reason)
	}
}

func TestAnExpiringOutputIsReconciledThen(t *testing.T) {
	for _, source := range []controlplanev1.KubeconfigSource{"Output", "Auto"} {
		s := newFixture(t, withSource(source)).withTokens(nil)
		s.Cluster.Connection.Data["kubeconfig"] = []byte(tokens.Kubeconfig(t, host, builder.Created.Add(-12*time.Minute)))
		s.publish()
		assert.Equal(t, 3*time.Minute, s.requeueAfter)
	}
}

func TestNoRequeueWithoutTokens(t *testing.T) {
	for _, source := range []controlplanev1.KubeconfigSource{"Output", "Exec", "Auto", "Token"} {
		s := newFixture(t, withSource(source)).withTokens(nil)
		s.publish()
		assert.Zero(t, s.requeueAfter, source)
	}
}

func TestMissingCredentialsAreRetriedLessOften(t *testing.T) {
	for problem, again := range map[error]time.Duration{kubeconfig.ErrNoCredentials: 5 * time.Minute, errors.New("AWS is down"): 30 * time.Second} {
		s := newFixture(t, withSource("Token")).withTokens(&tokens.Identity{Problem: problem})
		s.publish()
		assert.Equal(t, again, s.requeueAfter)
	}
}

// The author of a template decides what it returns, and a token for another cluster would grant access to that one.
func TestATokenIsForTheClusterThatCAPTAskedFor(t *testing.T) {
	s := newFixture(t, withSource("Token")).withTokens(tokens.With(clocktesting.NewFakePassiveClock(builder.Created)))
	s.Cluster.Published, s.Cluster.EKSName = map[string]string{"cluster_endpoint": host}, "given"
	s.publish()
	assert.True(t, signedFor(t, s.Contract.Data, "given", builder.Created), "no output says otherwise")

	s.Cluster.Published["cluster_name"] = "prod"
	s.publish()
	assert.Nil(t, s.Contract.Data)
	assert.Equal(t, controlplanev1.KubeconfigInvalidReason, s.Contract.Reason)
	assert.Contains(t, s.Contract.Problem, `output "cluster_name" is "prod"`)

	delete(s.Cluster.Published, "cluster_name")
	s.Cluster.Connection.Data["cluster_name"] = []byte("hunter2")
	s.publish()
	assert.Nil(t, s.Contract.Data)
	assert.NotContains(t, s.Contract.Problem, "hunter2", "it is sensitive")

	s.Cluster.ControlPlane.Spec.Kubeconfig.Source = controlplanev1.KubeconfigAuto
	s.publish()
	assert.Equal(t, "exec", s.Contract.kind(t, ""))
	assert.Contains(t, s.Contract.Warning, "a token is created only for EKS cluster")
	assert.NotContains(t, s.Contract.Warning, "hunter2")
}

func TestNothingIsCreatedWithoutEndpointAndCertificateAuthority(t *testing.T) {
	for name, row := range map[string]struct {
		outputs map[string]string
		ca      string
		reason  string
	}{
		"no endpoint":  {nil, builder.CA(), controlplanev1.KubeconfigMissingReason},
		"no authority": {outputs(), "", controlplanev1.KubeconfigMissingReason},
		"no base64":    {outputs(), "hunter2", controlplanev1.KubeconfigInvalidReason},
		"null":         {outputs(), "null", controlplanev1.KubeconfigMissingReason},
		"no PEM":       {outputs(), base64.StdEncoding.EncodeToString([]byte("hunter2")), controlplanev1.KubeconfigInvalidReason},
	} {
		for _, source := range []controlplanev1.KubeconfigSource{"Token", "Exec", "Auto"} {
			t.Run(name+", source "+string(source), func(t *testing.T) {
				identity := tokens.With(clocktesting.NewFakePassiveClock(builder.Created))
				s := newFixture(t, withSource(source)).withTokens(identity)
				s.Cluster.Published = row.outputs
				s.Cluster.Connection = connection(map[string]string{"cluster_certificate_authority_data": row.ca})
				s.publish()
				assert.Nil(t, s.Contract.Data)
				assert.Equal(t, row.reason, s.Contract.Reason)
				assert.Zero(t, identity.Made, "no token is created for nothing")
				assert.NotContains(t, s.Contract.Problem, "hunter2")
			})
		}
	}
}

// What is encoded twice, or not at all, is refused.
func TestCAIsDecodedOnce(t *testing.T) {
	authority, err := base64.StdEncoding.DecodeString(builder.CA())
	require.NoError(t, err)
	for _, ca := range []string{base64.StdEncoding.EncodeToString([]byte(builder.CA())), string(authority)} {
		for _, source := range []controlplanev1.KubeconfigSource{"Token", "Exec", "Auto"} {
			s := newFixture(t, withSource(source)).withTokens(tokens.With(clocktesting.NewFakePassiveClock(builder.Created)))
			s.Cluster.Connection = connection(map[string]string{"cluster_certificate_authority_data": ca})
			s.publish()
			assert.Nil(t, s.Contract.Data, source)
			assert.Equal(t, controlplanev1.KubeconfigInvalidReason, s.Contract.Reason)
		}
	}
}

// The user would not learn that a role or a profile of the module's kubeconfig has no effect.
func TestAnOutputThatIsReplacedIsReported(t *testing.T) {
	exec := func(args, env string) string {
		return strings.Replace(fromTerraform, "token: t", `exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws, args: [eks, get-token, --cluster-name, demo`+args+`], env: [`+env+`]}`, 1)
	}
	const notPublished, noWay = `output "kubeconfig" of WorkspaceTemplate default/eks is not published: `, "Cluster API's controllers have neither the AWS CLI nor AWS credentials"
	for name, row := range map[string]struct{ output, want string }{
		"a role":            {exec(", --role-arn, hunter2", ""), "it has exec: use a token or a client certificate. Instead of it, the kubeconfig runs \"aws eks get-token\" without other options. " + noWay},
		"a profile":         {exec("", "{name: AWS_PROFILE, value: hunter2}"), "it has exec"},
		"no YAML":           {"hunter2: {", "the value is not a kubeconfig"},
		"a file":            {strings.Replace(fromTerraform, "token: t", "tokenFile: /hunter2", 1), "it has tokenFile"},
		"without a context": {strings.Replace(fromTerraform, "current-context: c", "current-context: d", 1), "current-context of the kubeconfig does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t)
			s.Cluster.Connection.Data["kubeconfig"] = []byte(row.output)
			s.publish()
			assert.Equal(t, "exec", s.Contract.kind(t, row.output))
			assert.Contains(t, s.Contract.Warning, notPublished)
			assert.Contains(t, s.Contract.Warning, row.want)
			assert.NotContains(t, s.Contract.Warning, "hunter2")

			s.withTokens(tokens.With(clocktesting.NewFakePassiveClock(builder.Created))).publish()
			assert.Equal(t, "token", s.Contract.kind(t, row.output))
			assert.Contains(t, s.Contract.Warning, notPublished)
			assert.Contains(t, s.Contract.Warning, "Instead of it, the kubeconfig has a token of the manager")

			s.Cluster.Connection.Data["cluster_certificate_authority_data"] = []byte("not-base64!")
			s.publish()
			assert.Contains(t, s.Contract.Problem, notPublished)
			assert.Contains(t, s.Contract.Problem, `output "cluster_certificate_authority_data" is invalid: the certificate authority is not valid base64. Correct it in the module of WorkspaceTemplate default/eks`)
		})
	}
}

func TestAKubeconfigThatClusterAPICannotUseNamesBothWaysOut(t *testing.T) {
	exec, err := kubeconfig.ForExec("demo", "eu-west-1", "https://"+host, builder.CA())
	require.NoError(t, err)
	for _, row := range []struct {
		source controlplanev1.KubeconfigSource
		output string
		warns  bool
	}{{"Auto", "", true}, {"Exec", "", true}, {"Output", string(exec), true}, {"Auto", string(exec), true}, {"Auto", fromTerraform, false}, {"Output", fromTerraform, false}} {
		s := newFixture(t, withSource(row.source))
		s.Cluster.Connection.Data["kubeconfig"] = []byte(row.output)
		s.publish()
		require.NotNil(t, s.Contract.Data)
		assert.Empty(t, s.User.Warning)
		if !row.warns {
			assert.Empty(t, s.Contract.Warning)
			continue
		}
		assert.Contains(t, s.Contract.Warning, "give the manager of CAPT AWS credentials and access to the cluster")
		assert.Contains(t, s.Contract.Warning, `or return a kubeconfig with a token or a client certificate in output "kubeconfig" of the module`)
	}
}

// crossplane-runtime does not report that it cannot update a connection Secret.
func TestAnImmutableSecretIsReported(t *testing.T) {
	for name, change := range map[string]func(s *fixture){
		"demo-eks-connection": func(s *fixture) { s.Cluster.Connection.Immutable = ptr.To(true) },
		"demo-kubeconfig": func(s *fixture) {
			s.Contract.Live = liveSecret([]byte("before"), metav1.NewControllerRef(s.Cluster.ControlPlane, controlplanev1.GroupVersion.WithKind("CAPTControlPlane")))
			s.Contract.Live.Immutable = ptr.To(true)
		},
	} {
		s := newFixture(t)
		change(s)
		s.publish()
		assert.Equal(t, controlplanev1.KubeconfigConflictReason, s.Contract.Reason, name)
		assert.Contains(t, s.Contract.Problem, "kubectl delete secret -n default "+name)
		assert.Nil(t, s.Contract.Data, name)
	}
}

func TestAConnectionSecretWithoutBothOutputsNamesBoth(t *testing.T) {
	s := newFixture(t)
	s.Cluster.Connection.Data = nil
	s.publish()
	assert.Contains(t, s.Contract.Problem, `no output "kubeconfig" or "cluster_certificate_authority_data"`)
	assert.Contains(t, s.Contract.Problem, "captctl run")
}

// The provider only adds keys to the connection Secret.
func TestAnOutputThatTheModuleDoesNotHaveAnyMoreIsNotUsed(t *testing.T) {
	const endpoint, kubeconfigOutput, removed = "cluster_endpoint", "kubeconfig", `has no output "kubeconfig" any more, and the value in Secret demo-eks-connection, which is of an earlier module, is not used. Add the output to the module`
	s := newFixture(t, withSource("Output"))
	s.Cluster.Connection.Data[kubeconfigOutput] = []byte(fromTerraform)
	s.publish()
	assert.Empty(t, s.Contract.Problem, "the module is not known")
	s.Cluster.Declared = map[string]bool{kubeconfigOutput: true}
	s.publish()
	assert.Empty(t, s.Contract.Problem)
	s.Cluster.Declared = map[string]bool{endpoint: false}
	s.publish()
	assert.Equal(t, controlplanev1.KubeconfigMissingReason, s.Contract.Reason)
	assert.Contains(t, s.Contract.Problem, removed)
	assert.Nil(t, s.Contract.Data)

	for name, row := range map[string]struct {
		declared map[string]bool
		want     string
	}{
		"a module that is not known": {nil, "old"}, "sensitive": {map[string]bool{endpoint: true}, "old"}, "removed": {map[string]bool{"a": false}, ""}, "null now": {map[string]bool{endpoint: false}, ""},
	} {
		of := Outputs{Connection: connection(map[string]string{endpoint: "old"}), Declared: row.declared}
		assert.Equal(t, row.want, of.Output(endpoint), name)
	}
}
