// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// kubectlRefused waits until kubectl is refused to delete a namespace, and returns what it prints. It asks for a dry run until
// the API server knows the object that was created a moment ago.
func kubectlRefused(t *testing.T, namespace string) string {
	t.Helper()
	refused(t, probe{shared.API, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}.delete)
	output, err := kubectl(t, "delete", "namespace", namespace)
	require.Error(t, err, output)
	require.Contains(t, output, "(Forbidden)")
	return output
}

func TestNamespaceWithClustersIsNotDeleted(t *testing.T) {
	t.Parallel()
	env := build(t, terraform.ScopeNamespaced)
	output := kubectlRefused(t, env.Namespace)
	require.Contains(t, output, "Namespace "+env.Namespace+" still contains ")
	require.Contains(t, output, "Delete its Clusters")
	require.Contains(t, output, naming.AllowDeleteAnnotation+` to "true"`)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	require.NoError(t, shared.API.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	require.Nil(t, namespace.DeletionTimestamp)

	output, err := kubectl(t, "delete", "namespace", fixture.NewNamespace(t, shared.API))
	require.NoError(t, err, "a namespace without objects of CAPT: %s", output)

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	fixture.EventuallyAccepted(t, probe{shared.API, namespace}.delete)
	output, err = kubectl(t, "delete", "namespace", env.Namespace)
	require.NoError(t, err, "nothing of CAPT is left in it: %s", output)
	env.RequireNothingLeft()
}

// Each kind keeps the namespace by itself.
func TestEachKindKeepsItsNamespace(t *testing.T) {
	t.Parallel()
	for kind, document := range map[string]string{
		"CAPTCluster":            fixture.CAPTCluster("alone"),
		"CAPTControlPlane":       fixture.CAPTControlPlane("alone"),
		"WorkspaceTemplateApply": `{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: WorkspaceTemplateApply, metadata: {name: alone}, spec: {templateRef: {name: absent}}}`,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
			env.User(document)
			require.Contains(t, kubectlRefused(t, env.Namespace), "still contains "+kind+" alone")
		})
	}
}

// The templates of a platform team are often in a namespace without clusters. Deleting it would delete them with their stored revisions.
func TestANamespaceWithATemplateInUseIsNotDeleted(t *testing.T) {
	t.Parallel()
	platform, tenant := shared.NewEnvironment(t, terraform.ScopeNamespaced), shared.NewEnvironment(t, terraform.ScopeNamespaced)
	platform.User(platform.VPCTemplate(fixture.VPCModule))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: platform.Namespace}}
	require.NoError(t, shared.API.Delete(t.Context(), namespace.DeepCopy(), client.DryRunAll), "nothing uses the template")

	platform.Edit(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, `{"spec":{"allowedNamespaces":{"names":["`+tenant.Namespace+`"]}}}`)
	waits := []string{"variables: {vpc_name: any}", "waitForSecrets: [{name: missing}]"} // So nothing is created.
	tenant.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate+", namespace: "+platform.Namespace, "user", waits...))
	output := kubectlRefused(t, platform.Namespace)
	for _, part := range []string{"still contains WorkspaceTemplate " + fixture.VPCTemplate, "used by 1 WorkspaceTemplateApply", naming.AllowDeleteAnnotation + ` to "true"`} {
		require.Contains(t, output, part)
	}
	allow(t, namespace, "true")
	require.NoError(t, shared.API.Delete(t.Context(), namespace.DeepCopy(), client.DryRunAll))

	tenant.Remove(&infrav1.WorkspaceTemplateApply{}, "user")
	allow(t, namespace, "false")
	fixture.EventuallyAccepted(t, probe{shared.API, namespace}.delete)
}

// A retained Workspace outlives its WorkspaceTemplateApply. One of others is none of CAPT's business.
func TestAWorkspaceWithAClaimKeepsItsNamespace(t *testing.T) {
	t.Parallel()
	const workspace = `{apiVersion: tf.m.upbound.io/v1beta1, kind: Workspace, metadata: {name: %s, annotations: {crossplane.io/paused: "true"%s}}, ` +
		`spec: {providerConfigRef: {kind: ClusterProviderConfig, name: absent}, forProvider: {source: Inline, module: "# nothing"}}}`
	retained, other := shared.NewEnvironment(t, terraform.ScopeNamespaced), shared.NewEnvironment(t, terraform.ScopeNamespaced)
	other.User(fmt.Sprintf(workspace, "other", ""))
	retained.User(fmt.Sprintf(workspace, "retained", ", "+naming.ClaimAnnotation+": a/b"))
	require.Contains(t, kubectlRefused(t, retained.Namespace), "still contains Workspace retained")
	output, err := kubectl(t, "delete", "namespace", "--wait=false", other.Namespace)
	require.NoError(t, err, output)
}

func TestWorkspaceWithAClaimIsNotDeletedByHand(t *testing.T) {
	t.Parallel()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			env := build(t, scope)
			workspace := env.Workspace(fixture.ControlPlane)
			message := refused(t, func(ctx context.Context) error { return shared.API.Delete(ctx, workspace.DeepCopy(), client.DryRunAll) })
			for _, part := range []string{"Workspace " + workspace.GetName(), env.Namespace + "/" + fixture.ControlPlane, "delete the Cluster", naming.AllowDeleteAnnotation + ` to "true"`} {
				require.Contains(t, message, part)
			}
			err := shared.API.DeleteAllOf(t.Context(), workspace.DeepCopy(), client.InNamespace(workspace.GetNamespace()), client.DryRunAll)
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, "belongs to WorkspaceTemplateApply")
			output, err := kubectl(t, "delete", "--namespace="+env.Namespace, "--wait=false", "workspaces."+scope.GroupVersionKind().Group, workspace.GetName())
			require.Error(t, err, output)
			require.Contains(t, output, "(Forbidden)")

			for _, user := range []string{"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager"} {
				require.NoError(t, as(t, user, "system:masters").Delete(t.Context(), workspace.DeepCopy(), client.DryRunAll), user)
			}
			allow(t, workspace, "false")
			require.True(t, apierrors.IsForbidden(shared.API.Delete(t.Context(), workspace.DeepCopy(), client.DryRunAll)), "only true allows it")
			allow(t, workspace, "true")
			require.NoError(t, shared.API.Delete(t.Context(), workspace.DeepCopy(), client.DryRunAll))
			require.NotNil(t, env.Workspace(fixture.ControlPlane))

			other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"forProvider": map[string]any{"source": "Inline", "module": "# nothing"}, "providerConfigRef": map[string]any{"name": env.Namespace, "kind": "ClusterProviderConfig"},
			}}}
			other.SetGroupVersionKind(scope.GroupVersionKind())
			other.SetNamespace(workspace.GetNamespace())
			other.SetName(env.Namespace + "-other")
			if scope == terraform.ScopeCluster {
				unstructured.RemoveNestedField(other.Object, "spec", "providerConfigRef", "kind")
			}
			require.NoError(t, shared.API.Create(t.Context(), other))
			require.NoError(t, shared.API.Delete(t.Context(), other), "a Workspace without a claim is deleted freely")
		})
	}
}
