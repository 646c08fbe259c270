// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	require.Eventually(s, func() bool { return s.secret() == nil }, patience, 5*tick, "the Secret goes with its owner")
	if s.world != nil {
		s.provesOrder()
	}
}

// provesOrder holds the journal against what must never happen: two operations of one Workspace at a time.
func (s *subject) provesOrder() {
	s.Helper()
	journal, err := s.world.Journal()
	require.NoError(s, err)
	var end time.Time
	for _, e := range journal {
		if e.UID == s.GetUID() {
			require.False(s, e.Start.Before(end), "%s began before the one before it had ended", e.Operation)
			end = e.End
		}
	}
	require.NotZero(s, end)
}
