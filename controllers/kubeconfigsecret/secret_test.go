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
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/builder/tokens"
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
	return builder.SecretWith("demo-eks-connection", data)
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

// Defect 18: one tenant never receives what is another's.
func TestTheSecretOfAnotherOwnerIsNotOverwritten(t *testing.T) {
	identity := tokens.With(clocktesting.NewFakePassiveClock(builder.Created))
	theirs := metav1.NewControllerRef(builder.CAPTControlPlane("other"), controlplanev1.GroupVersion.WithKind("CAPTControlPlane"))
	equal := newScene(t)
	equal.publish()
	for _, data := range [][]byte{[]byte("theirs"), equal.Contract.Data} {
		s := newScene(t, withSource("Token")).withTokens(identity)
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
		s := newScene(t)
		s.Contract.Live = liveSecret([]byte("of-before"), nil)
		s.Contract.Live.Type = secretType
		s.publish()
		assert.Equal(t, taken, s.Contract.Data != nil, secretType)
		assert.Equal(t, taken, s.Contract.Reason == "", secretType)
	}
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
