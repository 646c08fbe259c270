// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

const dependencyViolation = "\nError: deleting EC2 VPC (vpc-0123456789abcdef0): DependencyViolation: The vpc has dependencies and cannot be deleted.\n"

func TestADestroyThatHangsIsWaitedFor(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Destroy: scripted.Step{Hang: true}})

		w.removeApply("demo")
		w.awaitOperation("demo", scripted.Destroy, 1)
		deletedAt := w.workspace("demo").GetDeletionTimestamp().UTC().Format(time.RFC3339)
		reported := w.awaitDeleting("demo", infrav1.WaitingForWorkspaceDeletionReason,
			"waiting for Terraform to destroy the resources of Workspace "+w.workspaceKey("demo").Name+" since "+deletedAt)
		require.Contains(w, reported.Finalizers, infrav1.WorkspaceTemplateApplyFinalizer)
		w.awaitNotReady("demo", infrav1.DeletingReason, "since "+deletedAt)
		require.Never(w, func() bool { return w.get("demo") == nil || w.workspace("demo") == nil }, time.Second, slowTick, "gone before it was destroyed")

		w.clearScript("demo")
		w.awaitGone("demo")
		require.Nil(w, w.workspace("demo"), "the Workspace goes first")
		require.Equal(w, 1, w.count("demo", scripted.Destroy))
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to delete it")
		w.end("demo")
	})
}

func TestAFailedDestroyIsReportedAndRetried(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitReady("demo", before)
		w.play("demo", scripted.Script{Destroy: scripted.Step{Stderr: dependencyViolation}})

		w.removeApply("demo")
		w.awaitDeleting("demo", infrav1.DestroyFailedReason, "Terraform destroy failed", "provider-terraform retries", "DependencyViolation")
		w.awaitNotReady("demo", infrav1.DeletingReason, "DependencyViolation")
		require.NotEmpty(w, w.resources())
		w.clearScript("demo")
		w.awaitGone("demo")
		require.GreaterOrEqual(w, w.count("demo", scripted.Destroy), 2)
		require.Len(w, w.writes("demo"), 2, "one to make it, and one to delete it")
		w.end("demo")
	})
}

// The error of an apply stays on the Workspace until destroy returns. It says nothing about the deletion.
func TestAFailedApplyIsNotReportedDuringADeletion(t *testing.T) {
	withAnyProvider(t, func(w *world) {
		w.play("demo", scripted.Script{
			Apply:   scripted.Step{Stderr: throttled, Partial: true},
			Destroy: scripted.Step{Hang: true},
		})
		w.user(w.template(), workspaceTemplateApply("demo", before))
		w.awaitNotReady("demo", infrav1.ApplyFailedReason, "RequestLimitExceeded")
		require.NotEmpty(w, w.resources(), "half of it was made")

		w.removeApply("demo")
		w.awaitOperation("demo", scripted.Destroy, 1)
		w.awaitDeleting("demo", infrav1.WaitingForWorkspaceDeletionReason, "waiting for Terraform to destroy the resources of Workspace")
		w.requireWorkspaceCondition("demo", "Synced", metav1.ConditionFalse)
		w.clearScript("demo")
		w.awaitGone("demo")
		w.end("demo")
	})
}

// A retained Workspace is not modified, and the condition reports it.
func TestARetainedWorkspaceIsNotTouched(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		w.user(w.template(), workspaceTemplateApply("demo", before, "deletionPolicy: Retain"))
		first := w.awaitReady("demo", before)
		was := w.workspace("demo")

		w.removeApply("demo")
		w.awaitGone("demo")
		w.insist(slowTick, func() string {
			if slices.ContainsFunc(w.events("demo"), func(e eventsv1.Event) bool { return e.Reason == "WorkspaceRetained" }) {
				return ""
			}
			return "there is no event WorkspaceRetained"
		})
		is := w.workspace("demo")
		require.NotNil(w, is)
		require.Equal(w, uid(first), is.GetUID())
		require.Equal(w, was.GetResourceVersion(), is.GetResourceVersion())
		require.Len(w, w.writes("demo"), 1, "only to make it")
		require.Len(w, w.resources(), 2)
		require.Zero(w, w.count("demo", scripted.Destroy))

		w.insist(tick, func() string {
			if time.Since(was.GetCreationTimestamp().Time) < 2*time.Second { // The API server records whole seconds.
				return "the Workspace is not older by a whole second yet"
			}
			return ""
		})
		// Under the same name, it is taken over as it is, when a user says so.
		w.user(workspaceTemplateApply("demo", before))
		decision := naming.AdoptWorkspaceAnnotation + "=" + string(uid(first))
		require.Nil(w, w.awaitNotReady("demo", infrav1.WorkspaceConflictReason, decision).Status.WorkspaceRef)
		w.editApply("demo", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, naming.AdoptWorkspaceAnnotation, uid(first)))
		require.Equal(w, uid(first), uid(w.awaitReady("demo", before)))
		require.Len(w, w.writes("demo"), 1)
		w.end("demo")
	})
}

// The finalizer of CAPT v0.3 stays beside that of this version: after a rollback it shows that the object has a Workspace.
func TestTheLegacyFinalizerStays(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(w *world) {
		adopted := workspaceTemplateApply("demo", before, "workspaceName: "+w.workspaceKey("demo").Name)
		w.user(w.template(), adopted)
		w.awaitReady("demo", before)
		w.editApply("demo", `{"metadata":{"finalizers":["`+infrav1.LegacyWorkspaceTemplateApplyFinalizer+`"]}}`)
		w.insist(tick, func() string {
			if apply := w.get("demo"); apply != nil && len(apply.Finalizers) == 2 {
				return ""
			}
			return "the finalizer of this version is missing"
		})
		held := false
		for _, version := range w.history.applyVersions(w.applyKey("demo")) {
			held = held || len(version.Finalizers) > 0
			require.True(w, !held || len(version.Finalizers) > 0, "held at any time")
		}
		require.Len(w, w.writes("demo"), 1, "only to make it")
		w.end("demo")
	})
}
