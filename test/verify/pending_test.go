// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package verify_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/verify"
)

// What is edited while the controllers are off, Terraform applies when they start. inspect and verify say so before.
func TestSafety11AnEditWhileTheControllersAreOffIsReported(t *testing.T) {
	m := newMigrated(t)
	m.adopt(t)
	edit := func(entrypoint string) {
		merge(t, m.template, fmt.Sprintf(`{"spec":{"template":{"spec":{"forProvider":{"entrypoint":%q}}}}}`, entrypoint))
	}
	pending := func() *migrate.Inspection {
		snapshot, err := migrate.Read(t.Context(), admin, m.namespace, time.Now())
		require.NoError(t, err)
		inspection, err := planner.Inspect(snapshot)
		require.NoError(t, err)
		return inspection
	}
	require.Zero(t, pending().PendingChanges)

	edit("modules/vpc")
	report, err := verify.Run(t.Context(), admin, m.plan, verify.Options{})
	require.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err), "%v", err)
	require.Equal(t, []string{"NothingPending"}, failed(report))
	for _, part := range []string{"CAPTCluster " + m.namespace + "/demo", "Workspace " + m.workspace.GetName(), "spec.forProvider.entrypoint"} {
		assert.Contains(t, text(report), part)
	}
	inspection := pending()
	assert.Equal(t, 1, inspection.PendingChanges)
	require.Len(t, inspection.Findings, 1)
	assert.Equal(t, "PendingChange", inspection.Findings[0].Reason)
	assert.Equal(t, "spec.forProvider.entrypoint", inspection.Findings[0].Differences[0].Field)

	edit("")
	_, err = verify.Run(t.Context(), admin, m.plan, verify.Options{})
	require.NoError(t, err)
}
