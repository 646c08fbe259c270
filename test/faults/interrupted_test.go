// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// pending is the mark of a create whose end was never recorded.
const pending = "crossplane.io/external-create-pending"

// letGo takes the mark away and, as the message advises, changes another annotation with it: the provider does not look at
// what it marked itself.
const letGo = `{"metadata":{"annotations":{"` + pending + `":null,"looked-at-by":"an operator"}}}`

// A provider that dies while it creates does not know what it has made, and does nothing any more. Neither does CAPT. From
// everything else it recovers by itself.
func TestAnInterruptedOperationIsReportedOrResumed(t *testing.T) {
	environments := map[string]*environment{
		"Namespaced": newEnvironment(t, current, terraform.ScopeNamespaced),
		"Cluster":    newEnvironment(t, current, terraform.ScopeCluster),
		"ClusterV0":  newEnvironment(t, older, terraform.ScopeCluster),
	}
	for _, env := range environments {
		env.beginEverything()
	}
	for _, env := range environments {
		env.hangEverything()
	}
	require.NoError(t, current.Kill(sandbox.Provider))
	for _, env := range environments {
		env.clearScript("kept", "deleted", "updated", "destroyed")
	}
	require.NoError(t, current.StartComponent(t.Context(), sandbox.Provider))
	t.Parallel() // The provider was restarted: other tests may run.

	for name, env := range environments {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.T = t
			env.awaitReady("updated", after)
			env.awaitGone("destroyed")
			require.Nil(env, env.Workspace("destroyed"))
			env.recoverByHand("kept")
			env.deleteByHand("deleted")
			env.requireWorkspaces(1, "kept", "deleted", "updated", "destroyed")
			lost, err := env.Scripts.Orphans()
			require.NoError(env, err)
			lost = slices.DeleteFunc(lost, func(r scripted.Resource) bool { return !strings.Contains(r.ExternalName, env.Namespace) })
			require.Len(env, lost, 4, "what the provider had made when it died is what the message warns of")
			require.Len(env, env.Cloud(), 6, "and what was updated")
			for _, name := range []string{"kept", "deleted", "updated", "destroyed"} {
				env.requireNoSecretReported(name)
			}
		})
	}
}

// beginEverything brings each to where its fault begins.
func (env *environment) beginEverything() {
	env.Helper()
	env.user(env.template())
	for _, name := range []string{"kept", "deleted"} {
		env.setScript(name, scripted.Script{Apply: scripted.Step{Hang: true}})
		env.user(workspaceTemplateApply(name, before))
	}
	for _, name := range []string{"updated", "destroyed"} {
		env.user(workspaceTemplateApply(name, before))
	}
}

// hangEverything waits until the provider is in the middle of a create, an update and a destroy.
func (env *environment) hangEverything() {
	env.Helper()
	for _, name := range []string{"kept", "deleted"} {
		env.awaitOperation(name, scripted.Apply, 1)
		env.awaitNotReady(name, infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
	}
	for _, name := range []string{"updated", "destroyed"} {
		env.awaitReady(name, before)
		env.setScript(name, scripted.Script{Apply: scripted.Step{Hang: true}, Destroy: scripted.Step{Hang: true}})
	}
	env.user(workspaceTemplateApply("updated", after))
	env.removeApply("destroyed")
	env.awaitOperation("updated", scripted.Apply, 2)
	env.awaitOperation("destroyed", scripted.Destroy, 1)
}

func (env *environment) awaitInterrupted(name string) {
	env.Helper()
	reported := env.awaitNotReady(name, infrav1.CreateInterruptedReason,
		"provider-terraform was terminated during the first apply", "check which resources exist in AWS and in the state",
		pending, "change another annotation in the same command")
	require.Equal(env, "Interrupted", reported.Status.LastFailureClass)
	require.NotEmpty(env, reported.Status.LastFailedRevision)
	require.Empty(env, reported.Status.Applied)
	env.await(name, infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.CreateInterruptedReason)
}

// recoverByHand does what the message says.
func (env *environment) recoverByHand(name string) {
	env.Helper()
	env.awaitInterrupted(name)
	env.user(workspaceTemplateApply(name, after))
	env.awaitWorkspace(name, varIs(after))
	require.Never(env, func() bool { return env.count(name, scripted.Apply) > 1 }, 3*time.Second, time.Second, "not even a change makes it go on")
	env.awaitInterrupted(name)
	require.Contains(env, env.Workspace(name).GetAnnotations(), pending, "only the user may decide that it is safe to continue")
	require.Len(env, env.writes(name), 2, "one to make it, and one to change it")

	env.edit(name, letGo)
	env.awaitReady(name, after)
	require.Equal(env, 2, env.count(name, scripted.Apply))
	env.removeApply(name)
	env.awaitGone(name)
}

// deleteByHand deletes what was interrupted: that needs the user, too.
func (env *environment) deleteByHand(name string) {
	env.Helper()
	env.awaitInterrupted(name)
	env.removeApply(name)
	env.awaitDeleting(name, infrav1.CreateInterruptedReason, pending)
	require.NotNil(env, env.Workspace(name).GetDeletionTimestamp())

	env.edit(name, letGo)
	env.awaitGone(name)
	require.Nil(env, env.Workspace(name))
	require.Zero(env, env.count(name, scripted.Destroy), "the state has nothing to destroy")
}
