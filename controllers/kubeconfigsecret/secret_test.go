// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfigsecret

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
)

const host = "ABCDEF.gr7.ap-northeast-1.eks.amazonaws.com"

// scene has what the kubeconfigs of a control plane are made from, with all that is needed.
type scene struct {
	*testing.T
	Plan
	Contract, User Kubeconfig
	tokens         kubeconfig.Tokens
	requeueAfter   time.Duration
}

func newScene(t *testing.T, options ...builder.Option) *scene {
	t.Helper()
	return &scene{T: t, Plan: Plan{Mode: Publish, Now: builder.Created, Cluster: Cluster{
		ControlPlane: builder.CAPTControlPlane("demo", options...), Name: "demo", EKSName: "demo", Region: builder.Region,
		Outputs: Outputs{Published: outputs(), Connection: connection(map[string]string{"cluster_certificate_authority_data": builder.CA()})},
	}}}
}

func outputs() map[string]string {
	return map[string]string{"cluster_endpoint": "https://" + host, "cluster_name": "demo"}
}

func connection(data map[string]string) *corev1.Secret {
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		secret.Data[key] = []byte(value)
	}
	return secret
}

// publish determines the kubeconfigs without writing them.
func (s *scene) publish() {
	s.Helper()
	after, err := Publisher{Tokens: s.tokens}.Publish(s.Context(), s.Plan, &s.Contract, &s.User)
	require.NoError(s, err)
	s.requeueAfter = after
}

const fromTerraform = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}],
clusters: [{name: k, cluster: {server: "https://from-terraform.example.com"}}], users: [{name: u, user: {token: t}}]}`

// kubeconfigsOf works the kubeconfigs out for a source and the keys of the connection Secret.
func kubeconfigsOf(t *testing.T, source controlplanev1.KubeconfigSource, data map[string]string) *scene {
	t.Helper()
	s := newScene(t, builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Kubeconfig.Source = source }))
	s.Cluster.Connection = connection(data)
	s.publish()
	return s
}

func server(t *testing.T, data []byte) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	require.NoError(t, err)
	return config.Host
}

func TestSources(t *testing.T) {
	const terraforms, exec = "https://from-terraform.example.com", "https://" + host + ":443"
	ca := builder.CA()
	for name, row := range map[string]struct {
		source controlplanev1.KubeconfigSource
		data   map[string]string
		server string // Empty when there is none, for a reason.
		reason string
	}{
		"Auto takes the output":                          {"", map[string]string{"kubeconfig": fromTerraform, "cluster_certificate_authority_data": ca}, terraforms, ""},
		"Auto makes one when there is no output":         {"Auto", map[string]string{"cluster_certificate_authority_data": ca}, exec, ""},
		"Auto makes one when the output is empty":        {"Auto", map[string]string{"kubeconfig": "", "cluster_certificate_authority_data": ca}, exec, ""},
		"Auto makes one when the output does not parse":  {"Auto", map[string]string{"kubeconfig": "apiVersion: v1\nkind: Config\n", "cluster_certificate_authority_data": ca}, exec, ""},
		"Auto, and there is nothing to make it from":     {"Auto", nil, "", "KubeconfigMissing"},
		"Output takes the output":                        {"Output", map[string]string{"kubeconfig": fromTerraform, "cluster_certificate_authority_data": ca}, terraforms, ""},
		"Output, and there is none":                      {"Output", map[string]string{"cluster_certificate_authority_data": ca}, "", "KubeconfigMissing"},
		"Output, and it does not parse":                  {"Output", map[string]string{"kubeconfig": "hunter2", "cluster_certificate_authority_data": ca}, "", "KubeconfigInvalid"},
		"Exec makes one whatever the output says":        {"Exec", map[string]string{"kubeconfig": fromTerraform, "cluster_certificate_authority_data": ca}, exec, ""},
		"Exec, and the certificate authority is missing": {"Exec", map[string]string{"kubeconfig": fromTerraform}, "", "KubeconfigMissing"},
		"Exec, and the certificate authority is none":    {"Exec", map[string]string{"cluster_certificate_authority_data": "hunter2"}, "", "KubeconfigInvalid"},
		"Token, without credentials":                     {"Token", map[string]string{"kubeconfig": fromTerraform, "cluster_certificate_authority_data": ca}, "", "KubeconfigMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := kubeconfigsOf(t, row.source, row.data).Contract
			if row.server == "" {
				assert.Nil(t, got.Data)
				assert.Equal(t, row.reason, got.Reason)
				assert.NotEmpty(t, got.Problem)
				assert.NotContains(t, got.Problem, "hunter2")
				return
			}
			assert.Empty(t, got.Problem)
			assert.Equal(t, row.server, server(t, got.Data))
		})
	}
}

func TestTheKubeconfigForUsersRunsTheAWSCLI(t *testing.T) {
	s := kubeconfigsOf(t, "Output", map[string]string{"kubeconfig": fromTerraform, "cluster_certificate_authority_data": builder.CA()})
	config, err := clientcmd.RESTConfigFromKubeConfig(s.User.Data)
	require.NoError(t, err)
	require.NotNil(t, config.ExecProvider)
	assert.Contains(t, config.ExecProvider.Args, builder.Region)
}

func TestAKubeconfigNeedsAnEndpoint(t *testing.T) {
	s := newScene(t)
	s.Cluster.Published = nil
	s.publish()
	assert.Equal(t, "KubeconfigMissing", s.Contract.Reason)
	assert.Contains(t, s.Contract.Problem, "endpoint")
}

func TestTheNameOfTheEKSClusterIsTheOutputElseTheVariable(t *testing.T) {
	for name, outputs := range map[string]map[string]string{
		"from-terraform": {"cluster_endpoint": host, "cluster_name": "from-terraform"},
		"from-variable":  {"cluster_endpoint": host},
	} {
		s := newScene(t)
		s.Cluster.Published, s.Cluster.EKSName = outputs, "from-variable"
		s.publish()
		config, err := clientcmd.RESTConfigFromKubeConfig(s.User.Data)
		require.NoError(t, err)
		assert.Contains(t, config.ExecProvider.Args, name)
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

// Defect 18: one tenant never receives what is another's.
func TestTheSecretOfAnotherOwnerIsNotOverwritten(t *testing.T) {
	other := builder.CAPTControlPlane("other")
	s := newScene(t)
	theirs := metav1.NewControllerRef(other, controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	s.Contract.Live, s.User.Live = liveSecret([]byte("theirs"), theirs), liveSecret([]byte("theirs"), theirs)
	s.publish()
	for _, published := range []Kubeconfig{s.Contract, s.User} {
		assert.Nil(t, published.Data)
		assert.False(t, published.Written)
		assert.Equal(t, controlplanev1.KubeconfigConflictReason, published.Reason)
		assert.Contains(t, published.Problem, "Secret demo-kubeconfig belongs to CAPTControlPlane other")
	}
}

func TestASecretWithoutOwnerIsUsedOnlyIfItHasTheContractType(t *testing.T) {
	for secretType, taken := range map[corev1.SecretType]bool{clusterv1.ClusterSecretType: true, corev1.SecretTypeOpaque: false, "": false} {
		s := newScene(t)
		s.Contract.Live = liveSecret([]byte("of-before"), nil)
		s.Contract.Live.Type = secretType
		s.publish()
		assert.Equal(t, taken, s.Contract.Data != nil, secretType)
		assert.Equal(t, taken, s.Contract.Reason == "", secretType)
	}
}

func TestAnEqualSecretOfAnotherOwnerIsNotWritten(t *testing.T) {
	s := newScene(t)
	s.publish()
	other := metav1.NewControllerRef(builder.CAPTControlPlane("other"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	s.Contract.Live = liveSecret(s.Contract.Data, other)
	s.publish()
	assert.False(t, s.Contract.Written)
}

func TestOurOwnSecretIsWrittenOnlyWhenItDiffers(t *testing.T) {
	s := newScene(t)
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

	builder.AppliedBy(manager)(s.Contract.Live)
	s.publish()
	assert.True(t, s.Contract.Written)
}

func TestTheSecretHasTheFormOfTheContract(t *testing.T) {
	s := newScene(t)
	secret := contractSecret(Cluster{ControlPlane: s.Cluster.ControlPlane, Name: "demo-cluster"}, "demo-cluster-kubeconfig", []byte("x"))
	assert.Equal(t, clusterv1.ClusterSecretType, secret.Type)
	assert.Equal(t, map[string]string{clusterv1.ClusterNameLabel: "demo-cluster"}, secret.Labels)
	assert.Equal(t, map[string][]byte{"value": []byte("x")}, secret.Data)
	assert.Equal(t, s.Cluster.ControlPlane.UID, metav1.GetControllerOf(secret).UID)
	assert.Equal(t, "default", secret.Namespace, "the namespace of the control plane and the Cluster")
}
