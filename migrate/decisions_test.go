// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/capt-provider/capt/migrate"
)

func TestLaterDecisionsReplaceThoseAboutTheSameObjects(t *testing.T) {
	earlier := &migrate.Decisions{
		Owners:     []migrate.OwnerDecision{{UID: "a", Skip: true}, {UID: "b", Take: "x"}, {UID: "c", Pin: true}},
		Workspaces: []migrate.WorkspaceDecision{{UID: "v", BelongsTo: "x"}, {UID: "w", BelongsTo: "x"}},
	}
	later := &migrate.Decisions{
		Owners:     []migrate.OwnerDecision{{UID: "a", Pin: true}, {UID: "d", Take: "x"}},
		Workspaces: []migrate.WorkspaceDecision{{UID: "w", BelongsTo: "y"}},
	}
	want := &migrate.Decisions{
		APIVersion: migrate.APIVersion, Kind: "Decisions",
		Owners:     []migrate.OwnerDecision{{UID: "c", Pin: true}, {UID: "a", Pin: true}, {UID: "d", Take: "x"}},
		Workspaces: []migrate.WorkspaceDecision{{UID: "v", BelongsTo: "x"}, {UID: "w", BelongsTo: "y"}},
	}
	assert.Equal(t, want, earlier.Merge(later), "b may not take x as well")
	assert.Len(t, earlier.Owners, 3, "the earlier ones stay")

	var none *migrate.Decisions
	assert.Nil(t, none.Merge(none))
	assert.Equal(t, later, none.Merge(later))
	assert.Equal(t, later, later.Merge(nil))
}
