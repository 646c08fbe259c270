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
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

func TestAWorkspaceThatWasDeletedByHandIsRecreatedOnce(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)
		env.setScript("demo", scripted.Script{Destroy: scripted.Step{Hang: true}})

		env.removeAllowed(env.newWorkspace("demo"))
		env.awaitOperation("demo", scripted.Destroy, 1)
		dying := env.awaitNotReady("demo", infrav1.WorkspaceDeletingReason, "Workspace "+env.Workspace("demo").GetName()+" is being deleted: Terraform destroys its resources")
		require.Equal(env, uid(first), uid(dying))
		env.user(workspaceTemplateApply("demo", after))
		env.awaitNotReady("demo", infrav1.WorkspaceDeletingReason)
		require.Len(env, env.writes("demo"), 1, "nothing is written to what is dying")

		env.clearScript("demo")
		second := env.awaitReady("demo", after)
		require.NotEqual(env, uid(first), uid(second))
		require.Len(env, env.writes("demo"), 2, "made twice")
		env.requireWorkspaces(2, "demo")
		require.Len(env, env.Cloud(), 2, "the first ones were destroyed")
		env.leave("demo")
		env.requireWorkspaces(2, "demo")
	})
}

// Who wants to keep what exists does not want another one in its place.
func TestARetainedWorkspaceThatWasDeletedByHandIsNotRecreated(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before, "deletionPolicy: Retain"))
		env.awaitReady("demo", before)
		env.removeAllowed(env.newWorkspace("demo"))
		env.awaitNotReady("demo", infrav1.WorkspaceNotFoundReason, "is not recreated because spec.deletionPolicy is Retain. To recreate it, set spec.deletionPolicy to Delete")
		require.Len(env, env.writes("demo"), 1)
		env.requireWorkspaces(1, "demo")

		env.user(workspaceTemplateApply("demo", before, "deletionPolicy: Delete"))
		env.awaitReady("demo", before)
		env.requireWorkspaces(2, "demo")
		env.leave("demo")
	})
}

// foreign creates a Workspace under the name of one of ours, as another client.
func (env *environment) foreign(name string, annotations map[string]string) *unstructured.Unstructured {
	env.Helper()
	workspace := env.newWorkspace(name)
	workspace.SetAnnotations(annotations)
	workspace.Object["spec"] = map[string]any{
		"providerConfigRef": map[string]any{"name": "sandbox"},
		"forProvider":       map[string]any{"source": "Inline", "module": "# theirs\n"},
	}
	if workspace.GetNamespace() != "" {
		require.NoError(env, unstructured.SetNestedField(workspace.Object, "ClusterProviderConfig", "spec", "providerConfigRef", "kind"))
	}
	require.NoError(env, env.Create(env.Context(), workspace))
	return workspace
}

// replace replaces our Workspace by another one between two reconciles.
func (env *environment) replace(name string, annotations map[string]string) *unstructured.Unstructured {
	env.Helper()
	env.editApply(name, pauseApply)
	env.await(name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	env.removeAllowed(env.newWorkspace(name))
	env.eventually(slowTick, func() string { return fixture.Unless(env.Workspace(name) == nil, "the Workspace is still there") })
	other := env.foreign(name, annotations)
	env.editApply(name, resumeApply)
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
			inEitherScope(t, func(env *environment) {
				env.user(env.template(), workspaceTemplateApply("demo", before))
				first := env.awaitReady("demo", before)
				var annotations map[string]string
				if row.claim != "" {
					annotations = map[string]string{naming.ClaimAnnotation: row.claim}
				}
				other := env.replace("demo", annotations)

				env.await("demo", infrav1.WorkspaceConflictCondition, metav1.ConditionTrue, row.reason, row.message)
				reported := env.awaitNotReady("demo", row.reason, row.message)
				require.Equal(env, uid(first), uid(reported), "status keeps the UID of our Workspace")
				env.user(workspaceTemplateApply("demo", after))
				env.awaitNotReady("demo", row.reason)
				env.removeApply("demo")
				env.awaitGone("demo")
				require.Len(env, env.writes("demo"), 1, "only to make ours")
				is := env.Workspace("demo")
				require.NotNil(env, is, "theirs is not ours to delete")
				require.Equal(env, other.GetUID(), is.GetUID())
				require.EqualValues(env, 1, is.GetGeneration())
				env.requireWorkspaces(2, "demo")
				env.requireNoSecretReported("demo")
			})
		})
	}
}

// A Workspace that comes back from a backup has its claim, and its state. Its owner goes on with it, and says so.
func TestAWorkspaceThatCameBackFromABackupIsTakenOver(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("demo", before))
		first := env.awaitReady("demo", before)
		other := env.replace("demo", env.Workspace("demo").GetAnnotations())

		reported := env.awaitEvent("demo", infrav1.WorkspaceReplacedReason)
		require.Contains(env, reported[0].Note, fmt.Sprintf("UID was %s, is %s", uid(first), other.GetUID()))
		env.eventually(tick, func() string {
			apply := env.get("demo")
			return fixture.Unless(apply != nil && uid(apply) == other.GetUID(), "the other UID is not recorded")
		})
		env.awaitReady("demo", before)
		env.requireWorkspaces(2, "demo")
		env.leave("demo")
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

// pauseEach makes a WorkspaceTemplateApply for each of the pauses, and pauses its Workspace.
func (env *environment) pauseEach() {
	env.Helper()
	env.user(env.template())
	for name := range pauses {
		env.user(workspaceTemplateApply(name, before))
	}
	for name, p := range pauses {
		env.awaitReady(name, before)
		env.edit(name, p.pause)
		env.awaitNotReady(name, infrav1.WorkspacePausedReason, "Remove its annotation crossplane.io/paused, or its empty spec.managementPolicies")
	}
}

func TestAPausedWorkspaceIsReportedUntilItIsResumed(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.pauseEach()
		for name := range pauses {
			env.await(name, infrav1.SyncedCondition, metav1.ConditionUnknown, infrav1.WorkspacePausedReason)
			env.user(workspaceTemplateApply(name, after))
			env.awaitWorkspace(name, varIs(after))
			env.awaitNotReady(name, infrav1.WorkspacePausedReason)
		}
		for name, p := range pauses {
			require.Equal(env, 1, env.count(name, scripted.Apply))
			env.edit(name, p.resume)
			env.awaitReady(name, after)
			require.Len(env, env.writes(name), 2, "one to make it, and one to change it")
		}
		env.end("annotated", "nothing-managed")
	})
}

// varIs waits until a Workspace has a value for its variable.
func varIs(cidr string) func(workspace *unstructured.Unstructured) string {
	return func(workspace *unstructured.Unstructured) string {
		vars, _, _ := unstructured.NestedSlice(workspace.Object, "spec", "forProvider", "vars")
		return fixture.Unless(len(vars) == 1 && vars[0].(map[string]any)["value"] == cidr, "the change was not written")
	}
}

func TestTheDeletionOfAPausedWorkspaceWaitsUntilItIsResumed(t *testing.T) {
	withAnyProvider(t, func(env *environment) {
		env.pauseEach()
		for name := range pauses {
			env.removeApply(name)
			env.awaitDeleting(name, infrav1.WorkspacePausedReason, " is paused, so Terraform does not run")
		}
		for name, p := range pauses {
			require.Zero(env, env.count(name, scripted.Destroy))
			env.edit(name, p.resume)
			env.awaitGone(name)
			require.Equal(env, 1, env.count(name, scripted.Destroy))
			require.Len(env, env.writes(name), 2, "one to make it, and one to delete it")
		}
		env.end("annotated", "nothing-managed")
	})
}

const (
	pauseApply  = `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":""}}}`
	resumeApply = `{"metadata":{"annotations":{"cluster.x-k8s.io/paused":null}}}`
)

// A paused WorkspaceTemplateApply leaves its Workspace alone, whatever is asked of it.
func TestAPausedWorkspaceTemplateApplyWritesNothing(t *testing.T) {
	t.Parallel()
	inEitherScope(t, func(env *environment) {
		env.user(env.template(), workspaceTemplateApply("edited", before), workspaceTemplateApply("deleted", before))
		for _, name := range []string{"edited", "deleted"} {
			env.awaitReady(name, before)
			env.editApply(name, pauseApply)
			env.await(name, clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "cluster.x-k8s.io/paused")
			require.True(env, env.ready(name), "a paused object is not a failure")
		}
		env.user(workspaceTemplateApply("edited", after))
		env.removeApply("deleted")
		env.awaitNotReady("edited", infrav1.ProvisioningReason, "has not been updated to the current template and variables yet")
		env.awaitDeleting("deleted", infrav1.DeletingReason, "nothing is deleted while the object is paused")
		require.Never(env, func() bool { return len(env.writes("edited"))+len(env.writes("deleted")) > 2 }, 2*time.Second, time.Second, "written although paused")

		env.editApply("edited", resumeApply)
		env.editApply("deleted", resumeApply)
		env.awaitReady("edited", after)
		env.await("edited", clusterv1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
		env.awaitGone("deleted")
		env.end("edited", "deleted")
	})
}
