// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
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
	worlds := map[string]*world{
		"Namespaced": newWorld(t, current, terraform.ScopeNamespaced),
		"Cluster":    newWorld(t, current, terraform.ScopeCluster),
		"ClusterV0":  newWorld(t, older, terraform.ScopeCluster),
	}
	for _, w := range worlds {
		w.beginEverything()
	}
	for _, w := range worlds {
		w.hangEverything()
	}
	require.NoError(t, current.Kill(sandbox.Provider))
	for _, w := range worlds {
		for _, name := range []string{"kept", "deleted", "updated", "destroyed"} {
			w.clearScript(name)
		}
	}
	require.NoError(t, current.StartComponent(t.Context(), sandbox.Provider))
	t.Parallel() // The provider was restarted: other tests may run.

	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.T = t
			w.awaitReady("updated", after)
			w.awaitGone("destroyed")
			require.Nil(w, w.workspace("destroyed"))
			w.recoverByHand("kept")
			w.deleteByHand("deleted")
			w.requireWorkspaces(1, "kept", "deleted", "updated", "destroyed")
			lost, err := w.scripts.Orphans()
			require.NoError(w, err)
			require.Len(w, w.ofWorld(lost), 4, "what the provider had made when it died is what the message warns of")
			require.Len(w, w.resources(), 6, "and what was updated")
			for _, name := range []string{"kept", "deleted", "updated", "destroyed"} {
				w.requireNoSecretReported(name)
			}
		})
	}
}

// beginEverything brings each to where its fault begins.
func (w *world) beginEverything() {
	w.Helper()
	w.user(w.template())
	for _, name := range []string{"kept", "deleted"} {
		w.play(name, scripted.Script{Apply: scripted.Step{Hang: true}})
		w.user(workspaceTemplateApply(name, before))
	}
	for _, name := range []string{"updated", "destroyed"} {
		w.user(workspaceTemplateApply(name, before))
	}
}

// hangEverything waits until the provider is in the middle of a create, an update and a destroy.
func (w *world) hangEverything() {
	w.Helper()
	for _, name := range []string{"kept", "deleted"} {
		w.awaitOperation(name, scripted.Apply, 1)
		w.awaitNotReady(name, infrav1.ProvisioningReason, "waiting for Terraform to apply the module for the first time")
	}
	for _, name := range []string{"updated", "destroyed"} {
		w.awaitReady(name, before)
		w.play(name, scripted.Script{Apply: scripted.Step{Hang: true}, Destroy: scripted.Step{Hang: true}})
	}
	w.user(workspaceTemplateApply("updated", after))
	w.removeApply("destroyed")
	w.awaitOperation("updated", scripted.Apply, 2)
	w.awaitOperation("destroyed", scripted.Destroy, 1)
}

func (w *world) awaitInterrupted(name string) {
	w.Helper()
	reported := w.awaitNotReady(name, infrav1.CreateInterruptedReason,
		"provider-terraform was terminated during the first apply", "Check which resources exist in AWS and in the state",
		pending, "change another annotation in the same command")
	require.Equal(w, "Interrupted", reported.Status.LastFailureClass)
	require.NotEmpty(w, reported.Status.LastFailedRevision)
	require.Empty(w, reported.Status.Applied)
	w.await(name, infrav1.SyncedCondition, metav1.ConditionFalse, infrav1.CreateInterruptedReason)
}

// recoverByHand does what the message says.
func (w *world) recoverByHand(name string) {
	w.Helper()
	w.awaitInterrupted(name)
	w.user(workspaceTemplateApply(name, after))
	w.awaitWorkspace(name, varIs(after))
	require.Never(w, func() bool { return w.count(name, scripted.Apply) > 1 }, 3*time.Second, time.Second, "not even a change makes it go on")
	w.awaitInterrupted(name)
	require.Contains(w, w.workspace(name).GetAnnotations(), pending, "only the user may decide that it is safe to continue")
	require.Len(w, w.writes(name), 2, "one to make it, and one to change it")

	w.edit(name, letGo)
	w.awaitReady(name, after)
	require.Equal(w, 2, w.count(name, scripted.Apply))
	w.removeApply(name)
	w.awaitGone(name)
}

// deleteByHand deletes what was interrupted: that needs the user, too.
func (w *world) deleteByHand(name string) {
	w.Helper()
	w.awaitInterrupted(name)
	w.removeApply(name)
	w.awaitDeleting(name, infrav1.CreateInterruptedReason, pending)
	require.NotNil(w, w.workspace(name).GetDeletionTimestamp())

	w.edit(name, letGo)
	w.awaitGone(name)
	require.Nil(w, w.workspace(name))
	require.Zero(w, w.count(name, scripted.Destroy), "the state has nothing to destroy")
}
