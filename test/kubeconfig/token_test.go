// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfig_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const name = "demo-kubeconfig"

// TestTheLifeOfAKubeconfigWithAToken: it is made once, kept by the next manager, renewed with one write when it is due,
// whatever another namespace claims, and no other control plane gets one for the same EKS cluster.
func TestTheLifeOfAKubeconfigWithAToken(t *testing.T) {
	first, second, attacker := newEnvironment(t), newEnvironment(t), newEnvironment(t)
	attacker.User(controlPlane("Token")) // It has no Cluster, and is older than all others.
	first.User(first.documents()...)
	first.awaitCondition(controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)
	made := first.secret(name)
	first.requireContract(made)
	requireToken(t, made)
	reported := &controlplanev1.CAPTControlPlane{}
	first.Eventually(func() string {
		require.True(t, first.Exists(reported, fixture.Demo))
		return fixture.ClusterPending(reported)
	})
	require.Equal(t, 1, first.writes("secrets", name))

	// Another manager goes on with it. The kubeconfig for users is deleted, to see when it has reconciled.
	require.NoError(t, shared.StopComponent(t.Context(), sandbox.Manager))
	first.Remove(&corev1.Secret{}, "demo-user-kubeconfig")
	statuses := first.writes("captcontrolplanes", fixture.Demo)
	require.NoError(t, shared.StartComponent(t.Context(), sandbox.Manager))
	first.Eventually(func() string {
		if first.secret("demo-user-kubeconfig") == nil {
			return "the new manager has not reconciled yet"
		}
		return ""
	})
	require.Equal(t, made.ResourceVersion, first.secret(name).ResourceVersion)
	require.Equal(t, 1, first.writes("secrets", name), "a token that is still valid is not renewed")

	attacker.claimsTheName()
	// Time has passed: the token is ten minutes old.
	due := made.DeepCopy()
	due.Data["value"] = madeAt(t, time.Now().Add(-10*time.Minute))
	require.NoError(t, first.Update(t.Context(), due))
	var renewed *corev1.Secret
	first.Eventually(func() string {
		renewed = first.secret(name)
		if ends, _ := kubeconfig.Expiry(renewed.Data["value"]); time.Until(ends) < 10*time.Minute {
			return "the token is not renewed"
		}
		return ""
	})
	requireToken(t, renewed)
	first.requireContract(renewed)

	// A control plane in another namespace gets no token for the same cluster.
	second.User(second.documents()...)
	refused := second.awaitCondition(controlplanev1.KubeconfigReadyCondition, metav1.ConditionFalse, controlplanev1.KubeconfigConflictReason)
	assert.NotContains(t, refused, first.Namespace)
	require.Nil(t, second.secret(name))
	require.Equal(t, 2, first.writes("secrets", name), "one write for the renewal")
	second.User(controlPlane("Auto"))
	second.awaitCondition(controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)
	require.Contains(t, string(second.secret(name).Data["value"]), "get-token")
	require.Equal(t, statuses, first.writes("captcontrolplanes", fixture.Demo), "neither the restart nor the renewal is worth a write of status")

	// It gets one when the other cluster is gone.
	first.Remove(&clusterv1.Cluster{}, fixture.Demo)
	second.Eventually(func() string {
		if _, holds := kubeconfig.Expiry(second.secret(name).Data["value"]); !holds {
			return "there is no token yet"
		}
		return ""
	})
	first.requireNoSecretReported(made, renewed, second.secret(name))
}

// claimsTheName creates a WorkspaceTemplateApply for an EKS cluster of the same name, which the control plane of the
// namespace controls and does not refer to.
func (env environment) claimsTheName() {
	env.Helper()
	owner := &controlplanev1.CAPTControlPlane{}
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: env.Namespace, Name: fixture.Demo}, owner))
	env.User(env.Template("eks", "\nvariable \"cluster_name\" { type = string }", "cluster_name"))
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "extra", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(owner, controlplanev1.GroupVersion.WithKind("CAPTControlPlane")),
	}}}
	apply.Spec.TemplateRef.Name = "eks"
	apply.Spec.Variables = infrav1.TextVariables(map[string]string{"cluster_name": "demo"})
	require.NoError(env, env.Create(env.Context(), apply))
	env.Eventually(func() string {
		if err := env.Get(env.Context(), client.ObjectKeyFromObject(apply), apply); err != nil || apply.Status.WorkspaceRef == nil {
			return "the claim has no Workspace"
		}
		return ""
	})
}

// requireContract holds a Secret to Cluster API's contract.
func (env environment) requireContract(secret *corev1.Secret) {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(env, env.Get(env.Context(), client.ObjectKey{Namespace: secret.Namespace, Name: "demo"}, controlPlane))
	require.Equal(env, clusterv1.ClusterSecretType, secret.Type)
	require.Equal(env, "demo", secret.Labels[clusterv1.ClusterNameLabel])
	require.True(env, metav1.IsControlledBy(secret, controlPlane))
}

// requireToken holds a token to the form that EKS takes.
func requireToken(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	require.NoError(t, err)
	require.Equal(t, endpoint, config.Host)
	require.NotEmpty(t, config.CAData)
	encoded, ok := strings.CutPrefix(config.BearerToken, "k8s-aws-v1.")
	require.True(t, ok)
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	address, err := url.Parse(string(text))
	require.NoError(t, err)
	require.Equal(t, "sts."+region+".amazonaws.com", address.Host)
	require.Equal(t, "host;x-k8s-aws-id", address.Query().Get("X-Amz-SignedHeaders"))

	signed, err := time.Parse("20060102T150405Z", address.Query().Get("X-Amz-Date"))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), signed, fixture.Timeout)
	require.Equal(t, string(madeAt(t, signed)), string(secret.Data["value"]), "signed for demo with the keys of the manager")
}

// requireNoSecretReported looks for tokens and keys in logs, events and status.
func (env environment) requireNoSecretReported(secrets ...*corev1.Secret) {
	env.Helper()
	output := &strings.Builder{}
	log, err := os.ReadFile(filepath.Join(env.Dir(), "logs", sandbox.Manager+".log"))
	require.NoError(env, err)
	output.Write(log)
	for _, list := range []client.ObjectList{
		&corev1.EventList{}, &controlplanev1.CAPTControlPlaneList{}, &infrav1.WorkspaceTemplateApplyList{}, &clusterv1.ClusterList{},
	} {
		require.NoError(env, env.List(env.Context(), list))
		require.NoError(env, json.NewEncoder(output).Encode(list))
	}
	require.Contains(env, output.String(), "Writing kubeconfig")
	found := []string{secretKey, "k8s-aws-v1", "X-Amz-Signature"}
	for _, secret := range secrets {
		config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
		require.NoError(env, err)
		found = append(found, config.BearerToken, base64.StdEncoding.EncodeToString(secret.Data["value"]))
	}
	for _, text := range found {
		require.NotContains(env, output.String(), text)
	}
}
