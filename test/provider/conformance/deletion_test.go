// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

// hasState reports whether Terraform keeps a state for the Workspace.
func (s *subject) hasState() bool {
	s.Helper()
	if s.world != nil {
		states, err := s.world.States()
		require.NoError(s, err)
		_, ok := states[s.GetName()]
		return ok
	}
	list := &corev1.SecretList{}
	require.NoError(s, s.api.List(s.Context(), list, client.MatchingLabels{"tfstateWorkspace": s.GetName()}))
	return len(list.Items) > 0
}

func pauseFreezesDeletion(s *subject) {
	s.hold(destroy)
	s.patch(`{"metadata":{"finalizers":[%q,"example.com/mine"],"annotations":{"crossplane.io/paused":"true"}}}`, finalizer)
	s.untilConditions(available, frozen)
	s.delete()
	s.untilSeen()
	s.untilConditions(available, frozen)

	s.patch(`{"metadata":{"annotations":{"crossplane.io/paused":null}},"spec":{"managementPolicies":[]}}`)
	s.untilSeen()
	s.untilConditions(available, frozen)
}

func secondFinalizer(s *subject) {
	before := s.look()
	s.patch(`{"spec":{"managementPolicies":["*"]}}`)
	s.untilSeen()
	after := s.look()
	require.Equal(s, []any{before.ready, before.synced, before.outputs}, []any{after.ready, after.synced, after.outputs}, "nothing reports it")
	require.True(s, s.hasState())

	s.patch(`{"metadata":{"finalizers":[%q]}}`, finalizer)
}

// The destroy hangs: the Workspace goes on showing what it showed before.
func destroying(s *subject) {
	s.reached(destroy)
	require.Equal(s, []string{available, frozen}, []string{s.look().ready, s.look().synced})
}

func destroyFailed(s *subject) {
	s.fail(destroy)
	failed := s.untilConditions(deleting, failure)
	require.Equal(s, "delete failed: cannot destroy Terraform configuration: "+
		"Terraform encountered an error. Summary: local-exec provisioner error", readable(failed.message))
}

func destroyed(s *subject) {
	s.free(destroy)
	views := s.history.untilEnd()
	marks := externalName + " " + createPending + " " + createSucceeded + " " + finalizer
	require.Equal(s, marks+" "+deleting+" "+success, views[len(views)-1], "the destroy that failed has removed the outputs")
	require.False(s, s.hasState())
	require.Eventually(s, func() bool { return s.secret() == nil }, timeout, 5*tick, "the Secret goes with its owner")
	if s.world != nil {
		s.provesOrder()
	}
}

// provesOrder holds the journal against what must never happen: two operations of one Workspace at a time.
func (s *subject) provesOrder() {
	s.Helper()
	var end time.Time
	for _, e := range s.operations() {
		require.False(s, e.Start.Before(end), "%s began before the one before it had ended", e.Operation)
		end = e.End
	}
	require.NotZero(s, end)
}

// One that is applied takes the only worker of its scope. The other scope shows that the provider is there.
func queued(s *subject) {
	first := s.environment.subject(s.T, s.GroupVersionKind().Group)
	first.hold(apply)
	first.create()
	first.reached(apply)
	s.create()

	other := namespacedScope
	if s.GroupVersionKind().Group == namespacedScope {
		other = clusterScope
	}
	witness := s.environment.subject(s.T, other)
	witness.create()
	witness.untilRest("1")
	require.Equal(s, shown{secret: "-"}, s.look())

	first.free(apply)
	first.untilRest("1")
	s.untilRest("1")
}

func providerDown(s *subject) {
	require.NoError(s, s.sandbox.StopComponent(s.Context(), sandbox.Provider))
	s.create()
	require.Equal(s, shown{secret: "-"}, s.look())
	require.NoError(s, s.sandbox.StartComponent(s.Context(), sandbox.Provider))
	s.untilRest("1")
}

func providerKilled(s *subject) {
	s.hold(apply)
	s.create()
	s.reached(apply)
	if s.world != nil {
		// The journal records an apply before it makes the first resource.
		require.Eventually(s, func() bool { return len(s.orphans()) == 2 }, timeout, tick, "nothing was made")
	}
	require.NoError(s, s.sandbox.Kill(sandbox.Provider))
	require.NoError(s, s.sandbox.StartComponent(s.Context(), sandbox.Provider))
	s.free(apply)

	interrupted := s.untilConditions(creating, failure)
	require.Equal(s, "cannot determine creation result - remove the crossplane.io/external-create-pending annotation "+
		"if it is safe to proceed", interrupted.message)
	s.touch()
	s.delete()
	s.untilSeen()
	require.Equal(s, interrupted.message, s.untilConditions(creating, failure).message, "it is not retried, and not deleted")
	require.Equal(s, []string{externalName, createPending, finalizer}, s.look().marks)

	s.patch(`{"metadata":{"annotations":{"crossplane.io/external-create-pending":null}}}`)
	s.untilSeen()
	require.Equal(s, interrupted.message, s.look().message, "that alone does not wake the provider")
	if s.world == nil {
		return // OpenTofu left its state locked.
	}
	var operations []scripted.Operation
	for _, e := range s.operations() {
		operations = append(operations, e.Operation)
	}
	require.Equal(s, []scripted.Operation{scripted.Init, scripted.Plan, scripted.Apply}, operations)
	s.touch()
	s.untilGone()
	require.ElementsMatch(s, []string{"terraform_data.made", "terraform_data.last"}, s.orphans(), "what no state knows is left behind")
}

// orphans lists the addresses of what the Workspace made and no state knows.
func (s *subject) orphans() []string {
	s.Helper()
	orphans, err := s.world.Orphans()
	require.NoError(s, err)
	var addresses []string
	for _, r := range orphans {
		if r.UID == s.GetUID() {
			addresses = append(addresses, r.Address)
		}
	}
	return addresses
}

// operations are those of the Workspace, from the journal.
func (s *subject) operations() []scripted.Entry {
	s.Helper()
	journal, err := s.world.Journal()
	require.NoError(s, err)
	return slices.DeleteFunc(journal, func(e scripted.Entry) bool { return e.UID != s.GetUID() })
}
