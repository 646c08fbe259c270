// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package previews

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestSlotsAreLimited(t *testing.T) {
	var slots Slots
	var enqueued []string
	slots.EnqueueWith(func(key client.ObjectKey) { enqueued = append(enqueued, key.Name) })
	var existing []client.ObjectKey
	take := func(name string) bool {
		free, err := slots.Take(client.ObjectKey{Name: name}, func() ([]client.ObjectKey, error) { return existing, nil })
		require.NoError(t, err)
		return free
	}
	release := func(name string) { slots.Release(client.ObjectKey{Name: name}) }

	existing = []client.ObjectKey{{Name: "a"}, {Name: "before"}} // Of before a restart.
	for _, name := range []string{"a", "b", "c", "d"} {
		assert.True(t, take(name), name)
	}
	assert.True(t, take("a"), "it has one")
	assert.False(t, take("e"))
	assert.False(t, take("f"))
	assert.True(t, take("before"), "its preview exists")
	existing = nil
	release("b")
	assert.Equal(t, []string{"e"}, enqueued, "the first that waits")
	assert.True(t, take("e"))
	release("f")
	release("c")
	assert.Equal(t, []string{"e"}, enqueued, "f does not wait any more")
	running, waiting := slots.Count()
	assert.Equal(t, []int{4, 0}, []int{running, waiting})
	slots.Hold(client.ObjectKey{Name: "g"}) // It has a preview from before a restart, of any scope.
	assert.False(t, take("i"))
	running, waiting = slots.Count()
	assert.Equal(t, []int{5, 1}, []int{running, waiting})
	_, err := slots.Take(client.ObjectKey{Name: "x"}, func() ([]client.ObjectKey, error) { return nil, assert.AnError })
	require.ErrorIs(t, err, assert.AnError)
}
