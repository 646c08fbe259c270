// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// What captctl reads of a management cluster that nothing of this version was installed in is what the API server and the webhook
// serve later, for every fixture.
func TestAnUntouchedFleetIsReadAsItIsServedLater(t *testing.T) {
	events, err := shared.AuditEvents(audit.Filter{User: sandbox.CaptctlUser, Verbs: audit.Writes})
	require.NoError(t, err)
	assert.Empty(t, events, "reading writes nothing")
	captctl, err := shared.Client(sandbox.Captctl)
	require.NoError(t, err)
	snapshot, err := migrate.Read(t.Context(), captctl, "", shared.untouched.Taken)
	require.NoError(t, err)
	require.NotEmpty(t, snapshot.Applies)
	requireSame(t, shared.untouched, snapshot)
}

// requireSame compares what was read before and after the upgrade: objects, reports and plans.
func requireSame(t *testing.T, untouched, upgraded *migrate.Snapshot) {
	t.Helper()
	untouched.Namespaces = upgraded.Namespaces // The manager has a new one.
	require.Equal(t, upgraded, untouched)

	plans := [2][]byte{}
	for i, snapshot := range []*migrate.Snapshot{untouched, upgraded} {
		p, err := planner.New(snapshot, planner.Options{Now: snapshot.Taken})
		require.NoError(t, err)
		plans[i], err = json.Marshal(p)
		require.NoError(t, err)
	}
	require.JSONEq(t, string(plans[1]), string(plans[0]))
}
