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
	"github.com/capt-provider/capt/test/fixture"
)

// clusterWide reads the cluster-wide Workspaces of the Cluster demo.
func (env *environment) clusterWide() []*unstructured.Unstructured {
	env.Helper()
	var workspaces []*unstructured.Unstructured
	for _, name := range []string{vpc, eks} {
		apply := &infrav1.WorkspaceTemplateApply{}
		env.read(source, apply, name)
		workspaces = append(workspaces, fixture.WorkspaceOf(env, source, apply))
	}
	return workspaces
}

// The way of docs/move.md for cluster-wide Workspaces, step by step.
func TestClusterWideWorkspacesAreMovedByHand(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.apply(source, everything(terraform.ScopeCluster)...)
	env.awaitReady(source, "v1.34.0")
	statuses := env.statuses(source)
	began := time.Now()

	require.NoError(t, target.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}))
	move := env.startMove()
	apply := &infrav1.WorkspaceTemplateApply{}
	for _, name := range []string{vpc, eks} {
		env.awaitCondition(source, apply, name, clusterv1.PausedCondition, "is cluster-wide, and clusterctl cannot move it")
		env.awaitBlock(name, "by-hand")
	}
	workspaces := env.clusterWide()
	output := env.follow(copyWide)
	require.Equal(t, 2, strings.Count(output, " patched\n"), output)
	env.follow(releaseMove)
	move.wait()
	output = env.follow(removeWide)
	require.Equal(t, 2, strings.Count(output, " deleted\n"), output)
	for _, workspace := range workspaces {
		require.True(t, engine.Absent(source.Get(t.Context(), client.ObjectKeyFromObject(workspace), workspace)))
	}

	env.awaitReady(target, "v1.34.0")
	require.Equal(t, statuses, env.statuses(target))
	env.requireUnnoticed(began)
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
	env, workspace := alonePaused(t, terraform.ScopeNamespaced)
	require.NoError(t, target.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.namespace}}))
	blind := &unstructured.Unstructured{Object: map[string]any{"spec": workspace.DeepCopy().Object["spec"]}}
	blind.SetGroupVersionKind(workspaceKind)
	blind.SetNamespace(env.namespace)
	blind.SetName("blind")
	blind.SetAnnotations(map[string]string{"crossplane.io/external-name": "unknown"})
	require.NoError(t, unstructured.SetNestedSlice(blind.Object, []any{"Observe"}, "spec", "managementPolicies"))
	require.NoError(t, source.Create(t.Context(), blind))

	began := time.Now()
	env.follow(lookBefore)
	for name, row := range map[string]struct{ condition, want string }{
		"alone-look": {"Ready", "True"},
		"blind-look": {"Synced", "external resource does not exist"},
	} {
		look := env.workspace(target, name)
		env.await(target, look, name, func() string {
			env.follow(lookAgain)
			return missingCondition(look, row.condition, row.want)
		})
	}
	env.follow(reportAtOnce)
	env.follow(lookNoMore)
	require.Empty(t, env.names(target, workspaceKind))
	require.Empty(t, env.done(began))
	require.NotZero(t, env.cloud())
}

// missingCondition says what a Workspace reports instead, when a condition has neither that status nor a message with that text.
func missingCondition(workspace *unstructured.Unstructured, conditionType, want string) string {
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
