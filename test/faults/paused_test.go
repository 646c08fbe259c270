// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// The two ways to pause a Workspace, and back.
var pauses = map[string]struct{ pause, resume string }{
	"annotated": {
		`{"metadata":{"annotations":{"crossplane.io/paused":"true"}}}`,
		`{"metadata":{"annotations":{"crossplane.io/paused":null}}}`,
	},
	"nothing-managed": {`{"spec":{"managementPolicies":[]}}`, `{"spec":{"managementPolicies":["*"]}}`},
}

func TestAPausedWorkspaceIsReportedUntilItIsResumed(t *testing.T) {
	withEachProvider(t, func(w *world) {
		w.user(w.template())
		for name := range pauses {
			w.user(workspaceTemplateApply(name, before))
		}
		for name, p := range pauses {
			w.awaitReady(name, before)
			w.edit(name, p.pause)
			w.awaitNotReady(name, infrav1.WorkspacePausedReason, "Remove its annotation crossplane.io/paused, or its empty spec.managementPolicies")
			w.await(name, infrav1.SyncedCondition, metav1.ConditionUnknown, infrav1.WorkspacePausedReason)
			w.user(workspaceTemplateApply(name, after))
			w.awaitWorkspace(name, varIs(after))
			w.awaitNotReady(name, infrav1.WorkspacePausedReason)
		}
		for name, p := range pauses {
			require.Equal(w, 1, w.count(name, scripted.Apply))
			w.edit(name, p.resume)
			w.awaitReady(name, after)
			require.Len(w, w.writes(name), 2, "one to make it, and one to change it")
		}
		w.end("annotated", "nothing-managed")
	})
}

// varIs waits until a Workspace has a value for its variable.
func varIs(cidr string) func(workspace *unstructured.Unstructured) string {
	return func(workspace *unstructured.Unstructured) string {
		vars, _, _ := unstructured.NestedSlice(workspace.Object, "spec", "forProvider", "vars")
		if len(vars) == 1 && vars[0].(map[string]any)["value"] == cidr {
			return ""
		}
		return "the change was not written"
	}
}

func TestTheDeletionOfAPausedWorkspaceWaitsUntilItIsResumed(t *testing.T) {
	withEachProvider(t, func(w *world) {
		w.user(w.template())
		for name := range pauses {
			w.user(workspaceTemplateApply(name, before))
		}
		for name, p := range pauses {
			w.awaitReady(name, before)
			w.edit(name, p.pause)
			w.awaitNotReady(name, infrav1.WorkspacePausedReason)
			w.removeApply(name)
			w.awaitDeleting(name, infrav1.WorkspacePausedReason, "the Workspace is paused, so Terraform does not run")
		}
		for name, p := range pauses {
			require.Zero(w, w.count(name, scripted.Destroy))
			w.edit(name, p.resume)
			w.awaitGone(name)
			require.Equal(w, 1, w.count(name, scripted.Destroy))
			require.Len(w, w.writes(name), 2, "one to make it, and one to delete it")
		}
		w.end("annotated", "nothing-managed")
	})
}

const (
	pauseApply  = `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`
	resumeApply = `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`
)

// A paused WorkspaceTemplateApply leaves its Workspace alone, whatever is asked of it.
func TestAPausedWorkspaceTemplateApplyWritesNothing(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("edited", before), workspaceTemplateApply("deleted", before))
		for _, name := range []string{"edited", "deleted"} {
			w.awaitReady(name, before)
			w.editApply(name, pauseApply)
			w.await(name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "cluster.x-k8s.io/paused")
			require.True(w, w.ready(name), "a paused object is not a failure")
		}
		w.user(workspaceTemplateApply("edited", after))
		w.removeApply("deleted")
		w.awaitNotReady("edited", infrav1.ProvisioningReason, "has not been updated to the current template and variables yet")
		w.awaitDeleting("deleted", infrav1.DeletingReason, "nothing is deleted while the object is paused")
		require.Never(w, func() bool { return len(w.writes("edited"))+len(w.writes("deleted")) > 2 }, 2*time.Second, time.Second, "written although paused")

		w.editApply("edited", resumeApply)
		w.editApply("deleted", resumeApply)
		w.awaitReady("edited", after)
		w.await("edited", clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
		w.awaitGone("deleted")
		w.end("edited", "deleted")
	})
}
