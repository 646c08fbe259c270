/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package move_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// clusterWide reads the cluster-wide Workspaces of the Cluster demo.
func (w *world) clusterWide() []*unstructured.Unstructured {
	w.Helper()
	var workspaces []*unstructured.Unstructured
	for _, name := range []string{vpc, eks} {
		apply := &infrav1.WorkspaceTemplateApply{}
		w.read(source, apply, name)
		workspace := &unstructured.Unstructured{}
		workspace.SetAPIVersion(apply.Status.WorkspaceRef.APIVersion)
		workspace.SetKind(apply.Status.WorkspaceRef.Kind)
		require.NoError(w, source.Get(w.Context(), client.ObjectKey{Name: apply.Status.WorkspaceRef.Name}, workspace))
		workspaces = append(workspaces, workspace)
	}
	return workspaces
}

// The way of docs/move.md for cluster-wide Workspaces, step by step.
func TestClusterWideWorkspacesAreMovedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(source, everything("Cluster")...)
	w.awaitReady(source, "v1.34.0")
	statuses := w.statuses(source)
	began := time.Now()

	move := w.startMove()
	apply := &infrav1.WorkspaceTemplateApply{}
	for _, name := range []string{vpc, eks} {
		w.awaitCondition(source, apply, name, clusterv1.PausedCondition, "is cluster-wide, and clusterctl can not move it")
		w.awaitBlock(name, "by-hand")
	}
	workspaces := w.clusterWide()
	for _, workspace := range workspaces {
		moved, written := workspace.DeepCopy(), map[string]any{"metadata": map[string]any{"managedFields": workspace.GetManagedFields()}}
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			unstructured.RemoveNestedField(moved.Object, "metadata", field)
		}
		unstructured.RemoveNestedField(moved.Object, "status")
		require.NoError(t, target.Create(t.Context(), moved))
		fields, err := json.Marshal(written)
		require.NoError(t, err)
		require.NoError(t, target.Patch(t.Context(), moved, client.RawPatch(types.MergePatchType, fields)))
	}
	w.kubectl(source, "annotate", "workspacetemplateapplies", "--all", "-n", w.namespace, "clusterctl.cluster.x-k8s.io/block-move-")
	move.wait()
	for _, workspace := range workspaces {
		require.NoError(t, source.Patch(t.Context(), workspace, mark))
		require.NoError(t, source.Delete(t.Context(), workspace))
		require.NoError(t, source.Patch(t.Context(), workspace, letGo))
	}

	w.awaitReady(target, "v1.34.0")
	require.Equal(t, statuses, w.statuses(target))
	require.Empty(t, w.done(began), "Terraform changed nothing")
	for _, on := range []*side{source, target} {
		w.requireUntouched(on, began)
	}
	for _, workspace := range workspaces {
		require.NoError(t, target.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace))
		require.True(t, slices.ContainsFunc(workspace.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == naming.WorkspaceTemplateApplyFieldManager
		}), "who wrote what is known as before")
	}
}

// The look of docs/move.md before a move: a Workspace on the other side that may only look finds the state, or tells that there is
// none, and destroys nothing when it goes.
func TestALookBeforehandTellsWhetherTheStateIsThere(t *testing.T) {
	t.Parallel()
	w, workspace := alonePaused(t, terraform.ScopeNamespaced)
	require.NoError(t, target.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	began := time.Now()
	for name, row := range map[string]struct{ externalName, condition, want string }{
		"alone-look": {workspace.GetAnnotations()["crossplane.io/external-name"], "Ready", "True"},
		"blind-look": {"unknown", "Synced", "external resource does not exist"},
	} {
		look := &unstructured.Unstructured{Object: map[string]any{"spec": workspace.DeepCopy().Object["spec"]}}
		look.SetGroupVersionKind(workspaceKind)
		look.SetNamespace(w.namespace)
		look.SetName(name)
		look.SetAnnotations(map[string]string{"crossplane.io/external-name": row.externalName})
		unstructured.RemoveNestedField(look.Object, "spec", "writeConnectionSecretToRef")
		require.NoError(t, unstructured.SetNestedSlice(look.Object, []any{"Observe"}, "spec", "managementPolicies"))
		require.NoError(t, target.Create(t.Context(), look))
		w.await(target, look, name, func() string { return lacks(look, row.condition, row.want) })
		require.NoError(t, target.Delete(t.Context(), look))
		w.awaitGone(target, look, name)
	}
	require.Empty(t, w.done(began))
	require.NotZero(t, w.cloud())
}

// lacks says what a Workspace tells instead, when a condition has neither that status nor a message with that text.
func lacks(workspace *unstructured.Unstructured, conditionType, want string) string {
	conditions, _, _ := unstructured.NestedSlice(workspace.Object, "status", "conditions")
	for _, condition := range conditions {
		fields := condition.(map[string]any)
		message, _ := fields["message"].(string)
		if fields["type"] == conditionType && (fields["status"] == want || strings.Contains(message, want)) {
			return ""
		}
	}
	return fmt.Sprintf("it shows %v", conditions)
}
