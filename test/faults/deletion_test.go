// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
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

// end proves that each of the WorkspaceTemplateApplies had one Workspace in all its life, and that there was no other; then it
// deletes everything, and proves that nothing is left.
func (w *world) end(names ...string) {
	w.Helper()
	w.requireWorkspaces(1, names...)
	w.leave(names...)
	w.requireWorkspaces(1, names...)
}

// requireWorkspaces proves how many Workspaces each of the WorkspaceTemplateApplies ever had, one after the other and all
// under its own name, and that there was no other.
func (w *world) requireWorkspaces(each int, names ...string) {
	w.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, name := range names {
		key := w.workspaceKey(name)
		want[workspaceID(w.scope.GroupVersionKind().Group, key.Namespace, key.Name)] = each
	}
	w.insist(tick, func() string {
		clear(got)
		for id, uids := range w.history.workspaceUIDs(w.namespace) {
			got[id] = len(uids)
		}
		if maps.Equal(want, got) {
			return ""
		}
		return fmt.Sprintf("Workspaces that there ever were: %v, not %v", got, want)
	})
}

// leave deletes the WorkspaceTemplateApplies and the template, and proves that nothing of them is left, in the API server, in
// Terraform's states and in the cloud, and that no secret was reported.
func (w *world) leave(names ...string) {
	w.Helper()
	for _, name := range names {
		w.clearScript(name)
		w.removeApply(name)
	}
	for _, name := range names {
		w.awaitGone(name)
		require.Nil(w, w.workspace(name), "the Workspace of %s is left behind", name)
	}
	w.remove(&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: templateName}})
	w.insist(slowTick, func() string {
		template := &infrav1.WorkspaceTemplate{}
		if engine.Absent(w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: templateName}, template)) {
			return ""
		}
		return fmt.Sprintf("the template has no user and is still there: %+v", template.Status)
	})
	require.Empty(w, w.resources())
	states, err := w.scripts.States()
	require.NoError(w, err)
	for name := range states {
		require.NotContains(w, name, w.namespace, "a state is left behind")
	}
	for _, name := range names {
		w.requireNoSecretReported(name)
	}
}

// clearScript removes the script of a Workspace, so that Terraform succeeds again.
func (w *world) clearScript(name string) {
	w.Helper()
	w.play(name, scripted.Script{})
}

// resources are those of the world in the cloud.
func (w *world) resources() []scripted.Resource {
	w.Helper()
	cloud, err := w.scripts.Cloud()
	require.NoError(w, err)
	return w.ofWorld(cloud)
}

// ofWorld are those of the resources that are the world's.
func (w *world) ofWorld(resources []scripted.Resource) []scripted.Resource {
	return slices.DeleteFunc(resources, func(r scripted.Resource) bool { return !strings.Contains(r.ExternalName, w.namespace) })
}

// secretWords are in nothing that is reported: how Terraform's compressed output begins and ends, and a value of a Secret.
var secretWords = []string{"H4sI", "gunzip", "base64 -d", canary}

// canary is the value of a Secret that a Workspace reads.
const canary = "canary-4711-secret"

// requireNoSecretReported looks at every version of a WorkspaceTemplateApply, and at the events about it.
func (w *world) requireNoSecretReported(name string) {
	w.Helper()
	for _, version := range w.history.applyVersions(w.applyKey(name)) {
		reported, err := json.Marshal(version.Status)
		require.NoError(w, err)
		for _, word := range secretWords {
			require.NotContains(w, string(reported), word)
		}
		for _, condition := range version.Status.Conditions {
			require.LessOrEqual(w, len(condition.Message), 1200, "%s: %s", condition.Type, condition.Message)
		}
	}
	for _, event := range w.events(name) {
		for _, word := range secretWords {
			require.NotContains(w, event.Note, word)
		}
	}
}

// secretsLogged returns an error when a manager has logged a secret.
func secretsLogged(controls ...*control) error {
	for _, c := range controls {
		log, err := os.ReadFile(filepath.Join(c.Dir(), "logs", sandbox.Manager+".log"))
		if err != nil {
			return err
		}
		for _, word := range secretWords {
			if i := strings.Index(string(log), word); i >= 0 {
				return fmt.Errorf("the manager has logged %q: …%s", word, log[max(0, i-200):i])
			}
		}
	}
	return nil
}

// events are those about a WorkspaceTemplateApply.
func (w *world) events(name string) []eventsv1.Event {
	w.Helper()
	list := &eventsv1.EventList{}
	require.NoError(w, w.List(w.Context(), list, client.InNamespace(w.namespace)))
	return slices.DeleteFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.Name != name })
}

// write is a request of CAPT's manager to change something.
type write struct {
	verb string
	code int32
	at   time.Time
}

func (w write) String() string {
	return fmt.Sprintf("%s %s %d", w.at.Format("15:04:05.000"), w.verb, w.code)
}

// writes are what CAPT's manager has written to the Workspace of a WorkspaceTemplateApply, its creation included.
func (w *world) writes(name string) []write {
	w.Helper()
	events, err := w.AuditEvents(audit.Filter{
		User: sandbox.ManagerUser, Verbs: audit.Writes, Group: w.scope.GroupVersionKind().Group, Resource: "workspaces",
		Name: w.workspaceKey(name).Name, Namespace: w.workspaceKey(name).Namespace,
	})
	require.NoError(w, err)
	writes := make([]write, len(events))
	for i, event := range events {
		writes[i] = write{event.Verb, event.ResponseStatus.Code, event.RequestReceivedTimestamp.Time}
	}
	return writes
}

// allWrites are what CAPT's manager has written to anything of the world since a time.
func (w *world) allWrites(since time.Time) []string {
	w.Helper()
	events, err := w.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Since: since})
	require.NoError(w, err)
	var writes []string
	for _, event := range events {
		if strings.Contains(event.RequestURI, w.namespace) {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

// uid is that of the Workspace of a WorkspaceTemplateApply, as its status reports it.
func uid(apply *infrav1.WorkspaceTemplateApply) types.UID {
	if apply.Status.WorkspaceRef == nil {
		return ""
	}
	return apply.Status.WorkspaceRef.UID
}
