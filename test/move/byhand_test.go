// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
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
	w.apply(source, everything(terraform.ScopeCluster)...)
	w.awaitReady(source, "v1.34.0")
	statuses := w.statuses(source)
	began := time.Now()

	move := w.startMove()
	apply := &infrav1.WorkspaceTemplateApply{}
	for _, name := range []string{vpc, eks} {
		w.awaitCondition(source, apply, name, clusterv1.PausedCondition, "is cluster-wide, and clusterctl cannot move it")
		w.awaitBlock(name, "by-hand")
	}
	workspaces := w.clusterWide()
	output := w.follow(copyWide)
	require.Equal(t, 2, strings.Count(output, " patched\n"), output)
	w.follow(releaseMove)
	move.wait()
	output = w.follow(removeWide)
	require.Equal(t, 2, strings.Count(output, " deleted\n"), output)
	for _, workspace := range workspaces {
		require.True(t, engine.Absent(source.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace)))
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
		}), "managedFields are as before")
	}
}

// A Workspace on the other side that may only look finds the state, or reports that there is none, and destroys nothing when it goes.
func TestAnObserveOnlyWorkspaceReportsWhetherTheStateExists(t *testing.T) {
	t.Parallel()
	w, workspace := alonePaused(t, terraform.ScopeNamespaced)
	require.NoError(t, target.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	blind := &unstructured.Unstructured{Object: map[string]any{"spec": workspace.DeepCopy().Object["spec"]}}
	blind.SetGroupVersionKind(workspaceKind)
	blind.SetNamespace(w.namespace)
	blind.SetName("blind")
	blind.SetAnnotations(map[string]string{"crossplane.io/external-name": "unknown"})
	require.NoError(t, unstructured.SetNestedSlice(blind.Object, []any{"Observe"}, "spec", "managementPolicies"))
	require.NoError(t, source.Create(t.Context(), blind))

	began := time.Now()
	w.follow(lookBefore)
	for name, row := range map[string]struct{ condition, want string }{
		"alone-look": {"Ready", "True"},
		"blind-look": {"Synced", "external resource does not exist"},
	} {
		look := w.workspace(target, name)
		w.await(target, look, name, func() string {
			w.follow(lookAgain)
			return lacks(look, row.condition, row.want)
		})
	}
	w.follow(reportAtOnce)
	w.follow(lookNoMore)
	require.Empty(t, w.names(target, workspaceKind))
	require.Empty(t, w.done(began))
	require.NotZero(t, w.cloud())
}

// lacks says what a Workspace reports instead, when a condition has neither that status nor a message with that text.
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
