// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package previews

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// queue has slots, and what happened to them.
type queue struct {
	testing.TB
	Slots
	now      time.Time
	enqueued []client.ObjectKey
	// existing are the objects with a preview in the cache, and lists is how often they were listed.
	existing []client.ObjectKey
	lists    int
}

func newQueue(t testing.TB) *queue {
	q := &queue{TB: t, now: time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)}
	q.EnqueueWith(func(key client.ObjectKey) { q.enqueued = append(q.enqueued, key) })
	return q
}

func in(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// take returns when to try again.
func (q *queue) take(key client.ObjectKey, template string) time.Duration {
	q.Helper()
	wait, err := q.Take(key, template, q.now, func() ([]client.ObjectKey, error) {
		q.lists++
		return q.existing, nil
	})
	require.NoError(q, err)
	return wait
}

func (q *queue) release(key client.ObjectKey) { q.Release(key, q.now) }

func TestSlotsAreLimited(t *testing.T) {
	q := newQueue(t)
	take := func(name string) bool { return q.take(client.ObjectKey{Name: name}, "") == 0 }
	release := func(name string) { q.release(client.ObjectKey{Name: name}) }

	q.existing = []client.ObjectKey{{Name: "a"}, {Name: "before"}} // Of before a restart.
	for _, name := range []string{"a", "b", "c", "d"} {
		assert.True(t, take(name), name)
	}
	assert.True(t, take("a"), "it has one")
	assert.False(t, take("e"))
	assert.False(t, take("f"))
	q.now = q.now.Add(fullInterval)
	assert.True(t, take("before"), "its preview exists")
	q.existing = nil
	release("b")
	assert.Equal(t, []client.ObjectKey{{Name: "e"}}, q.enqueued, "the first that waits")
	assert.False(t, take("f"), "the slot is kept for e")
	assert.True(t, take("e"))
	release("f")
	release("c")
	assert.Equal(t, []client.ObjectKey{{Name: "e"}}, q.enqueued, "f does not wait any more")
	running, waiting := q.Count()
	assert.Equal(t, []int{4, 0}, []int{running, waiting})
	q.Hold(client.ObjectKey{Name: "g"}, "", q.now, q.now) // It has a preview from before a restart, of any scope.
	assert.False(t, take("i"))
	running, waiting = q.Count()
	assert.Equal(t, []int{5, 1}, []int{running, waiting})
	release("a")
	_, err := q.Take(client.ObjectKey{Name: "x"}, "", q.now, func() ([]client.ObjectKey, error) { return nil, assert.AnError })
	require.ErrorIs(t, err, assert.AnError)
}

// One template, or one namespace, has thousands of objects. The others get a slot as soon as one is free.
func TestSlotsAreSharedFairly(t *testing.T) {
	for name, key := range map[string]func(i int) (client.ObjectKey, string){
		"of a template":                       func(i int) (client.ObjectKey, string) { return in(fmt.Sprint("ns-", i), "x"), "shared/vpc" },
		"of a namespace":                      func(i int) (client.ObjectKey, string) { return in("many", fmt.Sprint(i)), "shared/vpc" },
		"of a namespace with a template each": func(i int) (client.ObjectKey, string) { return in("many", fmt.Sprint(i)), fmt.Sprint("many/", i) },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t)
			for i := range 1000 {
				q.take(key(i))
			}
			for i := range 2 {
				require.Positive(t, q.take(in("one", fmt.Sprint(i)), "one/vpc"))
				require.Positive(t, q.take(in("two", fmt.Sprint(i)), "two/vpc"))
			}
			for i := range 2 {
				first, _ := key(i)
				q.release(first)
				require.Len(t, q.enqueued, i+1)
				require.Zero(t, q.take(q.enqueued[i], q.waiting[q.enqueued[i]].template))
			}
			assert.ElementsMatch(t, []client.ObjectKey{in("one", "0"), in("two", "0")}, q.enqueued)
		})
	}
}

// Six namespaces have more objects than slots: none of them waits until another one is done.
func TestNamespacesGetSlotsInTurn(t *testing.T) {
	q := newQueue(t)
	var running []client.ObjectKey
	for i := range 100 {
		for namespace := range 6 {
			if key := in(fmt.Sprint("ns-", namespace), fmt.Sprint(i)); q.take(key, "shared/vpc") == 0 {
				running = append(running, key)
			}
		}
	}
	served := map[string]int{}
	for range 60 {
		q.release(running[0])
		key := q.enqueued[len(q.enqueued)-1]
		require.Zero(t, q.take(key, "shared/vpc"))
		running = append(running[1:], key)
		served[key.Namespace]++
	}
	for namespace, count := range served {
		assert.InDelta(t, 10, count, 1, namespace)
	}
	assert.Len(t, served, 6)
}

// An object may be excluded from the manager while it has a preview, or while it waits. No event of it comes any more.
func TestAnObjectThatIsNotReconciledAnyMoreKeepsNoSlot(t *testing.T) {
	q := newQueue(t)
	for i := range MaxPreviews {
		require.Zero(t, q.take(in("a", fmt.Sprint(i)), "a/vpc"))
	}
	require.Positive(t, q.take(in("b", "excluded"), "b/vpc"))
	require.Equal(t, 30*time.Second, q.take(in("c", "x"), "c/vpc"))
	q.release(in("a", "0"))
	require.Equal(t, []client.ObjectKey{in("b", "excluded")}, q.enqueued)
	require.Positive(t, q.take(in("c", "x"), "c/vpc"))
	q.now = q.now.Add(keptTimeout)
	assert.Zero(t, q.take(in("c", "x"), "c/vpc"), "the other did not come")
	require.Positive(t, q.take(in("d", "x"), "d/vpc"))
	q.now = q.now.Add(slotTimeout)
	assert.Zero(t, q.take(in("d", "x"), "d/vpc"), "all previews are too old")
	running, _ := q.Count()
	assert.Equal(t, 1, running)
}

// waiters are as many objects as wait for a slot in a large installation.
const waiters = 10_000

// fill makes them wait, and returns how often all try again within ten minutes.
func (q *queue) fill() (tries int) {
	for i := range MaxPreviews {
		q.take(in("running", fmt.Sprint(i)), "a/vpc")
	}
	q.lists = 0
	for i := range waiters {
		if q.take(in(fmt.Sprint("ns-", i%100), fmt.Sprint(i)), "a/vpc") < 10*time.Minute {
			tries++
		}
	}
	return tries
}

func TestWaitingForASlotListsNoWorkspaces(t *testing.T) {
	q := newQueue(t)
	assert.Less(t, q.fill(), 200, "the number of tries does not grow with the number of objects")
	assert.Zero(t, q.lists, "this manager has no free slot")
	q.existing = []client.ObjectKey{in("x", "1"), in("x", "2"), in("x", "3"), in("x", "4"), in("x", "5")} // Of another manager.
	for i := range MaxPreviews {
		q.release(in("running", fmt.Sprint(i)))
	}
	q.lists = 0
	for i := range waiters {
		q.take(in(fmt.Sprint("ns-", i%100), fmt.Sprint(i)), "a/vpc")
	}
	assert.Equal(t, 1, q.lists, "and the others neither")
}

// BenchmarkWaitingForASlot is one try of each of 10,000 objects that wait.
func BenchmarkWaitingForASlot(b *testing.B) {
	q := newQueue(b)
	q.fill()
	for b.Loop() {
		for i := range waiters {
			q.take(in(fmt.Sprint("ns-", i%100), fmt.Sprint(i)), "a/vpc")
		}
	}
	b.ReportMetric(float64(q.lists), "lists")
}

// BenchmarkServingASlot ends a preview while 10,000 objects wait, and gives its slot to another one.
func BenchmarkServingASlot(b *testing.B) {
	q := newQueue(b)
	q.fill()
	running := in("running", "0")
	for b.Loop() {
		q.release(running)
		next := q.enqueued[len(q.enqueued)-1]
		q.take(next, "a/vpc")
		q.take(running, "a/vpc")
		running = next
	}
}

// Rollouts wait for their previews, and users can wait.
func TestPreviewsThatCAPTNeedsGetSlotsFirst(t *testing.T) {
	q := newQueue(t)
	requested := func(key client.ObjectKey) time.Duration {
		wait, err := q.TakeRequested(key, "a/vpc", q.now, func() ([]client.ObjectKey, error) { return nil, nil })
		require.NoError(t, err)
		return wait
	}
	for i := range MaxPreviews {
		assert.Zero(t, requested(in("a", fmt.Sprint(i))), "a requested plan gets any slot that is free")
	}
	assert.NotZero(t, requested(in("a", "first")))
	assert.NotZero(t, q.take(in("b", "rollout"), "a/vpc"))
	q.release(in("a", "0"))
	assert.Equal(t, []client.ObjectKey{in("b", "rollout")}, q.enqueued)
	q.release(in("a", "1"))
	assert.Equal(t, []client.ObjectKey{in("b", "rollout"), in("a", "first")}, q.enqueued)
}
