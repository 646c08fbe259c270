// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/builder"
)

// inProgress calls InProgress without a record of the last change.
func inProgress(t *testing.T, workspace *unstructured.Unstructured) bool {
	t.Helper()
	live := mustLive(t, workspace)
	return InProgress(live, nil, report(live).Class)
}

func TestInProgressUntilDoneOrTerminalError(t *testing.T) {
	rows := map[builder.Row]bool{
		builder.Queued: true, builder.Planning: true, builder.FirstApplyRunning: true, builder.FirstApplyDone: true,
		builder.AtRest: false, builder.FirstApplyFailed: false, builder.Updating: true, builder.UpdateFailed: true,
		builder.PlanFailed: false, builder.ProviderConfigMissing: false, builder.WorkspacePaused: false,
		builder.Destroying: true, builder.DestroyFailed: false, builder.Interrupted: false,
	}
	require.Len(t, rows, len(builder.Rows()))
	for row, want := range rows {
		assert.Equal(t, want, inProgress(t, builder.Workspace("p1", row)), row)
		if row != builder.Updating { // Before v1 the status of the Workspace is that of AtRest.
			assert.Equal(t, want, inProgress(t, builder.Workspace("p1", row, builder.OfV0())), "%s, before v1", row)
		}
	}
}

func TestProviderV0InProgressFromTheRecordedUpdate(t *testing.T) {
	live := mustLive(t, builder.Workspace("p1", builder.AtRest, builder.OfV0(), builder.WithGeneration(2)))
	assert.True(t, InProgress(live, live.UpdateRecord(), ""), "no status since the write")
	assert.False(t, InProgress(live, live.RefreshRecord(nil), ""))
}

// The last error stays until destroy returns.
func TestDestroyIsInProgressAfterAnyError(t *testing.T) {
	for _, row := range []builder.Row{builder.FirstApplyFailed, builder.PlanFailed, builder.ProviderConfigMissing, builder.AtRest} {
		// A deletion increases the generation.
		deleted := builder.Workspace("p1", row, builder.Deleting(), builder.WithGeneration(2))
		assert.True(t, inProgress(t, deleted), row)
	}
	failed := builder.Workspace("p1", builder.FirstApplyFailed, builder.OfV0(), builder.Deleting())
	assert.True(t, inProgress(t, failed), "before v1, an apply error during deletion is an earlier one")
}

func TestAnErrorOfAnEarlierGenerationDoesNotEndTheOperation(t *testing.T) {
	assert.True(t, inProgress(t, builder.Workspace("p1", builder.PlanFailed, builder.WithGeneration(2))))
	assert.False(t, inProgress(t, builder.Workspace("p1", builder.PlanFailed, builder.WithGeneration(2), builder.OfV0())),
		"before v1 the generation is unknown, and a permanent error must not block the others")
}
