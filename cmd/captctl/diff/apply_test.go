// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAFileIsMergedAsKubectlApplyDoes(t *testing.T) {
	type m = map[string]any
	live := m{"patched": "a", "removed": "b", "changed": "c", "defaulted": "d", "nested": m{"patched": "e", "removed": "f"}, "list": []any{"g"}}
	last := m{"removed": "b", "changed": "c", "nested": m{"removed": "f"}}
	given := m{"changed": "new", "nested": m{"added": "new"}, "list": []any{"h"}, "new": m{}}
	want := m{"changed": "new", "nested": m{"added": "new", "default": "x"}, "list": []any{"h"}, "new": m{"default": "x"}, "defaulted": "x"}
	assert.Equal(t, m{
		"patched": "a", "changed": "new", "defaulted": "d", "nested": m{"patched": "e", "added": "new", "default": "x"}, "list": []any{"h"}, "new": m{"default": "x"},
	}, merged(live, last, want, given))
	assert.Equal(t, "b", live["removed"], "the live object is not changed")
}
