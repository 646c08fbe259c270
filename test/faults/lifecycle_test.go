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
