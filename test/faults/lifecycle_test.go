// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

func TestAWorkspaceThatWasDeletedByHandIsRecreatedOnce(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Destroy: scripted.Step{Hang: true}})

		w.removeAllowed(w.newWorkspace("demo"))
		w.awaitOperation("demo", scripted.Destroy, 1)
		dying := w.awaitNotReady("demo", infrav1.WorkspaceDeletingReason, "the Workspace is being deleted: Terraform destroys its resources")
		require.Equal(w, uid(first), uid(dying))
		w.user(workspaceTemplateApply("demo", after))
		w.awaitNotReady("demo", infrav1.WorkspaceDeletingReason)
		require.Len(w, w.writes("demo"), 1, "nothing is written to what is dying")

		w.clearScript("demo")
		second := w.awaitReady("demo", after)
		require.NotEqual(w, uid(first), uid(second))
		require.Len(w, w.writes("demo"), 2, "made twice")
		w.requireWorkspaces(2, "demo")
		require.Len(w, w.resources(), 2, "the first ones were destroyed")
		w.leave("demo")
		w.requireWorkspaces(2, "demo")
	})
}

// Who wants to keep what exists does not want another one in its place.
func TestARetainedWorkspaceThatWasDeletedByHandIsNotRecreated(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before, "deletionPolicy: Retain"))
		w.awaitReady("demo", before)
		w.removeAllowed(w.newWorkspace("demo"))
		w.awaitNotReady("demo", infrav1.WorkspaceNotFoundReason, "is not recreated because spec.deletionPolicy is Retain. To recreate it, set spec.deletionPolicy to Delete")
		require.Len(w, w.writes("demo"), 1)
		w.requireWorkspaces(1, "demo")

		w.user(workspaceTemplateApply("demo", before, "deletionPolicy: Delete"))
		w.awaitReady("demo", before)
		w.requireWorkspaces(2, "demo")
		w.leave("demo")
	})
}

// foreign creates a Workspace under the name of one of ours, as another client.
func (w *world) foreign(name string, annotations map[string]string) *unstructured.Unstructured {
	w.Helper()
	workspace := w.newWorkspace(name)
	workspace.SetAnnotations(annotations)
	workspace.Object["spec"] = map[string]any{
		"providerConfigRef": map[string]any{"name": "sandbox"},
		"forProvider":       map[string]any{"source": "Inline", "module": "# theirs\n"},
	}
	if workspace.GetNamespace() != "" {
		require.NoError(w, unstructured.SetNestedField(workspace.Object, "ClusterProviderConfig", "spec", "providerConfigRef", "kind"))
	}
	require.NoError(w, w.Create(w.Context(), workspace))
	return workspace
}

// replace replaces our Workspace by another one between two reconciles.
func (w *world) replace(name string, annotations map[string]string) *unstructured.Unstructured {
	w.Helper()
	w.editApply(name, pauseApply)
	w.await(name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	w.removeAllowed(w.newWorkspace(name))
	w.insist(slowTick, func() string {
		if w.workspace(name) == nil {
			return ""
		}
		return "the Workspace is still there"
	})
	other := w.foreign(name, annotations)
	w.editApply(name, resumeApply)
	return other
}

func TestAWorkspaceRecreatedByAnotherClientIsReportedAndNotModified(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, claim, reason, message string
	}{
		{"Unclaimed", "", infrav1.WorkspaceReplacedReason, "was recreated by another client; CAPT does not modify it"},
		{"Claimed", "other/demo", infrav1.WorkspaceConflictReason, "belongs to another object; CAPT does not modify it"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			inEitherScope(t, func(w *world) {
				w.user(w.template(), workspaceTemplateApply("demo", before))
				first := w.awaitReady("demo", before)
				var annotations map[string]string
				if row.claim != "" {
					annotations = map[string]string{naming.ClaimAnnotation: row.claim}
				}
				other := w.replace("demo", annotations)

				w.await("demo", infrav1.WorkspaceConflictCondition, metav1.ConditionTrue, row.reason, row.message)
				reported := w.awaitNotReady("demo", row.reason, row.message)
				require.Equal(w, uid(first), uid(reported), "status keeps the UID of our Workspace")
				w.user(workspaceTemplateApply("demo", after))
				w.awaitNotReady("demo", row.reason)
				w.removeApply("demo")
				w.awaitGone("demo")
				require.Len(w, w.writes("demo"), 1, "only to make ours")
				is := w.workspace("demo")
				require.NotNil(w, is, "theirs is not ours to delete")
				require.Equal(w, other.GetUID(), is.GetUID())
				require.EqualValues(w, 1, is.GetGeneration())
				w.requireWorkspaces(2, "demo")
				w.requireNoSecretReported("demo")
			})
		})
	}
}

// A Workspace that comes back from a backup has its claim, and its state. Its owner goes on with it, and says so.
func TestAWorkspaceThatCameBackFromABackupIsTakenOver(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		first := w.awaitReady("demo", before)
		other := w.replace("demo", w.workspace("demo").GetAnnotations())

		w.insist(slowTick, func() string {
			for _, event := range w.events("demo") {
				if event.Reason == infrav1.WorkspaceReplacedReason {
					require.Contains(w, event.Note, fmt.Sprintf("UID was %s, is %s", uid(first), other.GetUID()))
					return ""
				}
			}
			return "no event reports it"
		})
		w.insist(tick, func() string {
			if apply := w.get("demo"); apply == nil || uid(apply) != other.GetUID() {
				return "the other UID is not recorded"
			}
			return ""
		})
		w.awaitReady("demo", before)
		w.requireWorkspaces(2, "demo")
		w.leave("demo")
	})
}

// A hanging apply does not delay another WorkspaceTemplateApply.
func TestAFailureDoesNotAffectOthers(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("bad", scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(w.template(), workspaceTemplateApply("bad", before))
		w.awaitOperation("bad", scripted.Apply, 1)
		began := time.Now()
		w.user(workspaceTemplateApply("good", before))
		w.awaitReady("good", before)
		w.Logf("Ready in %s while another hangs", time.Since(began))
		require.False(w, w.ready("bad"))
		w.end("bad", "good")
	})
}

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
