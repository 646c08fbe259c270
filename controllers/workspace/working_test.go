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

// atWork tells whether Terraform is at work on a Workspace that nobody noted a change of.
func atWork(t *testing.T, workspace *unstructured.Unstructured) bool {
	t.Helper()
	live := mustLive(t, workspace)
	return Working(live, nil, told(live).Class)
}

func TestTerraformIsAtWorkUntilItIsDoneOrAPersonMustHelp(t *testing.T) {
	rows := map[builder.Row]bool{
		builder.Queued: true, builder.Planning: true, builder.FirstApplyRunning: true, builder.FirstApplyDone: true,
		builder.AtRest: false, builder.FirstApplyFailed: false, builder.Updating: true, builder.UpdateFailed: true,
		builder.PlanFailed: false, builder.ProviderConfigMissing: false, builder.WorkspacePaused: false,
		builder.Destroying: true, builder.DestroyFailed: false, builder.Interrupted: false,
	}
	require.Len(t, rows, len(builder.Rows()))
	for row, want := range rows {
		assert.Equal(t, want, atWork(t, builder.Workspace("p1", row)), row)
		if row != builder.Updating { // There, a provider of before v1 looks as if it were at rest, but for what status remembers.
			assert.Equal(t, want, atWork(t, builder.Workspace("p1", row, builder.OfV0())), "%s, before v1", row)
		}
	}
}

func TestWithProviderV0WhatStatusRemembersTellsOfTheWork(t *testing.T) {
	live := mustLive(t, builder.Workspace("p1", builder.AtRest, builder.OfV0(), builder.WithGeneration(2)))
	assert.True(t, Working(live, live.Update(), ""), "nothing has happened since it was written")
	assert.False(t, Working(live, live.Seen(nil), ""))
}

// Terraform destroys what could not be made or changed, or planned. The error of before stays until the destroy returns.
func TestADestroyIsWorkWhateverFailedBefore(t *testing.T) {
	for _, row := range []builder.Row{builder.FirstApplyFailed, builder.PlanFailed, builder.ProviderConfigMissing, builder.AtRest} {
		// The API server counts a deletion as a change.
		dying := builder.Workspace("p1", row, builder.Deleting(), builder.WithGeneration(2))
		assert.True(t, atWork(t, dying), row)
	}
	failed := builder.Workspace("p1", builder.FirstApplyFailed, builder.OfV0(), builder.Deleting())
	assert.True(t, atWork(t, failed), "before v1, the error of an apply is known to be one of before")
}

func TestAnErrorOfBeforeAChangeDoesNotEndTheWork(t *testing.T) {
	assert.True(t, atWork(t, builder.Workspace("p1", builder.PlanFailed, builder.WithGeneration(2))))
	assert.False(t, atWork(t, builder.Workspace("p1", builder.PlanFailed, builder.WithGeneration(2), builder.OfV0())),
		"before v1 nobody can tell, and one that stays broken is not to hold the others up")
}
