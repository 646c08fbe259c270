// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/migrate"
)

func TestAChangedWorkspaceIsRecognizedByItsWholeHash(t *testing.T) {
	record := func(module string) migrate.WorkspaceRecord {
		record, err := migrate.RecordWorkspace(&unstructured.Unstructured{Object: map[string]any{"spec": module}})
		require.NoError(t, err)
		require.Len(t, record.Hash, 64)
		return record
	}
	before, other := record("a"), record("b")
	assert.True(t, before.IsUnchanged(record("a")))
	assert.False(t, before.IsUnchanged(other))
	other.Hash = before.Hash[:16] + other.Hash[16:]
	assert.False(t, before.IsUnchanged(other))

	other = record("a")
	other.Generation++
	assert.False(t, before.IsUnchanged(other))
	before.Hash = before.Hash[:16] // In a plan of an earlier version.
	assert.True(t, before.IsUnchanged(record("a")))
	assert.False(t, before.IsUnchanged(record("b")))
	assert.False(t, before.IsUnchanged(other), "a change of spec with these digits")
}
