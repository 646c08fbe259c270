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
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

const dependencyViolation = "\nError: deleting EC2 VPC (vpc-0123456789abcdef0): DependencyViolation: The vpc has dependencies and cannot be deleted.\n"

// Neither a destroy that hangs nor one that fails lets a WorkspaceTemplateApply go.
func TestADestroyIsWaitedForUntilItSucceeds(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Destroy: scripted.Step{Hang: true}})

		env.removeApply("demo")
		env.awaitOperation("demo", scripted.Destroy, 1)
		deletedAt := env.Workspace("demo").GetDeletionTimestamp().UTC().Format(time.RFC3339)
		reported := env.awaitDeleting("demo", infrav1.WaitingForWorkspaceDeletionReason,
			"waiting for Terraform to destroy the resources of Workspace "+env.WorkspaceKey("demo").Name+" since "+deletedAt)
		require.Contains(env, reported.Finalizers, infrav1.WorkspaceTemplateApplyFinalizer)
		env.awaitNotReady("demo", infrav1.DeletingReason, "since "+deletedAt)
		require.Never(env, func() bool { return env.get("demo") == nil || env.Workspace("demo") == nil }, time.Second, slowTick, "gone before it was destroyed")
		require.Equal(env, 1, env.count("demo", scripted.Destroy))

		env.setScript("demo", scripted.Script{Destroy: scripted.Step{Stderr: dependencyViolation}})
		env.awaitDeleting("demo", infrav1.DestroyFailedReason, "Terraform destroy failed", "provider-terraform retries", "DependencyViolation")
		env.awaitNotReady("demo", infrav1.DeletingReason, "DependencyViolation")
		require.NotEmpty(env, env.Cloud())
		env.clearScript("demo")
		env.awaitGone("demo")
		require.Nil(env, env.Workspace("demo"), "the Workspace goes first")
		require.GreaterOrEqual(env, env.count("demo", scripted.Destroy), 2)
		require.Len(env, env.writes("demo"), 2, "one to make it, and one to delete it")
		env.end("demo")
	})
}

// The user corrects what prevents the destruction, for example prevent_destroy in the module.
func TestACorrectionReachesAWorkspaceWhoseDestructionFails(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Destroy: scripted.Step{Hang: true}})
		env.removeApply("demo")
		env.awaitOperation("demo", scripted.Destroy, 1)
		env.editApply("demo", `{"spec":{"variables":{"cidr":"`+after+`"}}}`)
		env.awaitDeleting("demo", infrav1.WaitingForWorkspaceDeletionReason)
		env.setScript("demo", scripted.Script{Destroy: scripted.Step{Stderr: dependencyViolation}})
		env.awaitDeleting("demo", infrav1.DestroyFailedReason)
		env.awaitWorkspace("demo", varIs(after))
		runs := env.count("demo", scripted.Destroy)
		env.awaitOperation("demo", scripted.Destroy, runs+1)
		require.Len(env, env.writes("demo"), 3, "one to make it, one to delete it, and one to correct it")
		env.clearScript("demo")
		env.awaitGone("demo")
		env.end("demo")
	})
}

// The error of an apply stays on the Workspace until destroy returns. It says nothing about the deletion.
func TestAFailedApplyIsNotReportedDuringADeletion(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.setScript("demo", scripted.Script{
			Apply:   scripted.Step{Stderr: throttled, Partial: true},
			Destroy: scripted.Step{Hang: true},
		})
		env.user(env.template(), workspaceTemplateApply("demo", before))
		env.awaitNotReady("demo", infrav1.ApplyFailedReason, "RequestLimitExceeded")
		require.NotEmpty(env, env.Cloud(), "half of it was made")

		env.removeApply("demo")
		env.awaitOperation("demo", scripted.Destroy, 1)
		env.awaitDeleting("demo", infrav1.WaitingForWorkspaceDeletionReason, "waiting for Terraform to destroy the resources of Workspace")
		env.requireWorkspaceCondition("demo", "Synced", metav1.ConditionFalse)
		env.clearScript("demo")
		env.awaitGone("demo")
		env.end("demo")
	})
}

// A retained Workspace is not modified, and the condition reports it.
func TestARetainedWorkspaceIsNotTouched(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before, "deletionPolicy: Retain"))
		first := env.awaitReady("demo", before)
		was := env.Workspace("demo")

		env.removeApply("demo")
		env.awaitGone("demo")
		env.awaitEvent("demo", "WorkspaceRetained")
		is := env.Workspace("demo")
		require.NotNil(env, is)
		require.Equal(env, uid(first), is.GetUID())
		require.Equal(env, was.GetResourceVersion(), is.GetResourceVersion())
		require.Len(env, env.writes("demo"), 1, "only to make it")
		require.Len(env, env.Cloud(), 2)
		require.Zero(env, env.count("demo", scripted.Destroy))

		env.eventually(tick, func() string { // The API server records whole seconds.
			return fixture.Unless(time.Since(was.GetCreationTimestamp().Time) >= 2*time.Second, "the Workspace is not older by a whole second yet")
		})
		// Under the same name, it is taken over as it is, when a user says so.
		env.user(workspaceTemplateApply("demo", before))
		decision := naming.AdoptWorkspaceAnnotation + "=" + string(uid(first))
		require.Nil(env, env.awaitNotReady("demo", infrav1.WorkspaceConflictReason, decision).Status.WorkspaceRef)
		env.editApply("demo", fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, naming.AdoptWorkspaceAnnotation, uid(first)))
		require.Equal(env, uid(first), uid(env.awaitReady("demo", before)))
		require.Len(env, env.writes("demo"), 1)
		env.end("demo")
	})
}

// The finalizer of CAPT v0.3 stays beside that of this version: after a rollback it shows that the object has a Workspace.
func TestTheLegacyFinalizerStays(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		adopted := workspaceTemplateApply("demo", before, "workspaceName: "+env.WorkspaceKey("demo").Name)
		env.user(env.template(), adopted)
		env.awaitReady("demo", before)
		env.editApply("demo", `{"metadata":{"finalizers":["`+infrav1.LegacyWorkspaceTemplateApplyFinalizer+`"]}}`)
		env.eventually(tick, func() string {
			apply := env.get("demo")
			return fixture.Unless(apply != nil && len(apply.Finalizers) == 2, "the finalizer of this version is missing")
		})
		held := false
		for _, version := range env.control.history.applyVersions(env.applyKey("demo")) {
			held = held || len(version.Finalizers) > 0
			require.True(env, !held || len(version.Finalizers) > 0, "held at any time")
		}
		require.Len(env, env.writes("demo"), 1, "only to make it")
		env.end("demo")
	})
}

// end proves that each of the WorkspaceTemplateApplies had one Workspace in all its life, and that there was no other; then it
// deletes everything, and proves that nothing is left.
func (env *environment) end(names ...string) {
	env.Helper()
	env.requireWorkspaces(1, names...)
	env.leave(names...)
	env.requireWorkspaces(1, names...)
}

// requireWorkspaces proves how many Workspaces each of the WorkspaceTemplateApplies ever had, one after the other and all
// under its own name, and that there was no other.
func (env *environment) requireWorkspaces(each int, names ...string) {
	env.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, name := range names {
		key := env.WorkspaceKey(name)
		want[workspaceID(env.Scope.GroupVersionKind().Group, key.Namespace, key.Name)] = each
	}
	env.eventually(tick, func() string {
		clear(got)
		for id, uids := range env.control.history.workspaceUIDs(env.Namespace) {
			got[id] = len(uids)
		}
		return fixture.Unless(maps.Equal(want, got), "Workspaces that there ever were: %v, not %v", got, want)
	})
}

// leave deletes the WorkspaceTemplateApplies and the template, and proves that nothing of them is left, in the API server, in
// Terraform's states and in the cloud, and that no secret was reported.
func (env *environment) leave(names ...string) {
	env.Helper()
	env.clearScript(names...)
	env.removeApply(names...)
	env.awaitGone(names...)
	for _, name := range names {
		require.Nil(env, env.Workspace(name), "the Workspace of %s is left behind", name)
	}
	env.remove(&infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: templateName}})
	env.eventually(slowTick, func() string {
		template := &infrav1.WorkspaceTemplate{}
		return fixture.Unless(engine.Absent(env.Get(env.Context(), client.ObjectKey{Namespace: env.Namespace, Name: templateName}, template)),
			"the template has no user and is still there: %+v", template.Status)
	})
	env.RequireNothingLeft()
	for _, name := range names {
		env.requireNoSecretReported(name)
	}
}

// clearScript removes the scripts of Workspaces, so that Terraform succeeds again.
func (env *environment) clearScript(names ...string) {
	env.Helper()
	for _, name := range names {
		env.setScript(name, scripted.Script{})
	}
}

// secretWords are in nothing that is reported: how Terraform's compressed output begins and ends, and a value of a Secret.
var secretWords = []string{"H4sI", "gunzip", "base64 -d", canary}

// canary is the value of a Secret that a Workspace reads.
const canary = "canary-4711-secret"

// requireNoSecretReported looks at every version of a WorkspaceTemplateApply, and at the events about it.
func (env *environment) requireNoSecretReported(name string) {
	env.Helper()
	for _, version := range env.control.history.applyVersions(env.applyKey(name)) {
		reported, err := json.Marshal(version.Status)
		require.NoError(env, err)
		for _, word := range secretWords {
			require.NotContains(env, string(reported), word)
		}
		for _, condition := range version.Status.Conditions {
			require.LessOrEqual(env, len(condition.Message), 1200, "%s: %s", condition.Type, condition.Message)
		}
	}
	for _, event := range env.events(name) {
		for _, word := range secretWords {
			require.NotContains(env, event.Note, word)
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
func (env *environment) events(name string) []eventsv1.Event {
	env.Helper()
	return slices.DeleteFunc(env.Events(), func(e eventsv1.Event) bool { return e.Regarding.Name != name })
}

// awaitEvent waits until an event about a WorkspaceTemplateApply has a reason, and returns those that have it.
func (env *environment) awaitEvent(name, reason string) (reported []eventsv1.Event) {
	env.Helper()
	env.eventually(slowTick, func() string {
		reported = slices.DeleteFunc(env.events(name), func(e eventsv1.Event) bool { return e.Reason != reason })
		return fixture.Unless(len(reported) > 0, "no event reports %s", reason)
	})
	return reported
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
func (env *environment) writes(name string) []write {
	env.Helper()
	events := fixture.AuditEvents(env, env.Sandbox, audit.Filter{
		User: sandbox.ManagerUser, Verbs: audit.Writes, Group: env.Scope.GroupVersionKind().Group, Resource: "workspaces",
		Name: env.WorkspaceKey(name).Name, Namespace: env.WorkspaceKey(name).Namespace,
	})
	writes := make([]write, len(events))
	for i, event := range events {
		writes[i] = write{event.Verb, event.ResponseStatus.Code, event.RequestReceivedTimestamp.Time}
	}
	return writes
}

// allWrites are what CAPT's manager has written to anything of the environment since a time.
func (env *environment) allWrites(since time.Time) []string {
	env.Helper()
	var writes []string
	for _, event := range fixture.AuditEvents(env, env.Sandbox, audit.Filter{User: sandbox.ManagerUser, Verbs: audit.Writes, Since: since}) {
		if strings.Contains(event.RequestURI, env.Namespace) {
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
