// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

func TestSafety08WorkspaceWithAClaimIsNotDeletedByHand(t *testing.T) {
	t.Parallel()
	for _, scope := range terraform.Scopes() {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			w := build(t, scope)
			workspace := w.Workspace(fixture.ControlPlane)
			message := refused(t, func(ctx context.Context) error { return shared.API.Delete(ctx, workspace.DeepCopy(), client.DryRunAll) })
			for _, part := range []string{"Workspace " + workspace.GetName(), w.Namespace + "/" + fixture.ControlPlane, "delete the Cluster", naming.AllowDeleteAnnotation + ` to "true"`} {
				require.Contains(t, message, part)
			}
			err := shared.API.DeleteAllOf(t.Context(), workspace.DeepCopy(), client.InNamespace(workspace.GetNamespace()), client.DryRunAll)
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, "belongs to WorkspaceTemplateApply")
			output, err := kubectl(t, "delete", "--namespace="+w.Namespace, "--wait=false", "workspaces."+scope.GroupVersionKind().Group, workspace.GetName())
			require.Error(t, err, output)
			require.Contains(t, output, "(Forbidden)")

			for _, user := range []string{"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller", "system:kube-controller-manager"} {
				require.NoError(t, as(t, user, "system:masters").Delete(t.Context(), workspace.DeepCopy(), client.DryRunAll), user)
			}
			allow(t, workspace, "false")
			require.True(t, apierrors.IsForbidden(shared.API.Delete(t.Context(), workspace.DeepCopy(), client.DryRunAll)), "only true allows it")
			allow(t, workspace, "true")
			require.NoError(t, shared.API.Delete(t.Context(), workspace.DeepCopy(), client.DryRunAll))
			require.NotNil(t, w.Workspace(fixture.ControlPlane))

			other := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"forProvider": map[string]any{"source": "Inline", "module": "# nothing"}, "providerConfigRef": map[string]any{"name": w.Namespace, "kind": "ClusterProviderConfig"},
			}}}
			other.SetGroupVersionKind(scope.GroupVersionKind())
			other.SetNamespace(workspace.GetNamespace())
			other.SetName(w.Namespace + "-other")
			if scope == terraform.ScopeCluster {
				unstructured.RemoveNestedField(other.Object, "spec", "providerConfigRef", "kind")
			}
			require.NoError(t, shared.API.Create(t.Context(), other))
			require.NoError(t, shared.API.Delete(t.Context(), other), "a Workspace without a claim is deleted freely")
		})
	}
}
