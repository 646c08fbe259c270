// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package serialize

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

var profiles = Group{Namespace: builder.Namespace, Cluster: "demo", Label: naming.FargateProfilesGroup}

// fixture is a Serializer with objects of one group, and what was enqueued.
type fixture struct {
	*testing.T
	Serializer
	objects  map[string]client.Object
	mu       sync.Mutex
	enqueued []string
}

// newFixture has objects of one series, the first the oldest. None was looked at yet.
func newFixture(t *testing.T, names ...string) *fixture {
	c := &fixture{T: t, objects: map[string]client.Object{}}
	for i, name := range names {
		c.objects[name] = builder.WorkspaceTemplateApply(name, builder.WithCreation(builder.Created.Add(time.Duration(i)*time.Second)))
	}
	c.EnqueueWith(func(key client.ObjectKey) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.enqueued = append(c.enqueued, key.Name)
	})
	return c
}

func (c *fixture) acquires(name string, active bool) bool {
	c.Helper()
	granted, err := c.Acquire(c.objects[name], profiles, active, func() ([]client.ObjectKey, error) {
		var keys []client.ObjectKey
		for other, object := range c.objects {
			if other != name {
				keys = append(keys, client.ObjectKeyFromObject(object))
			}
		}
		return keys, nil
	})
	require.NoError(c, err)
	return granted
}

// rests notes of objects that they were found at rest, and do not ask.
func (c *fixture) records(names ...string) {
	for _, name := range names {
		c.Record(c.objects[name], profiles, false)
	}
}

// takeEnqueued returns what was enqueued since the last call.
func (c *fixture) takeEnqueued() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	enqueued := c.enqueued
	c.enqueued = nil
	return enqueued
}

func TestOneMemberIsActive(t *testing.T) {
	c := newFixture(t, "a", "b", "c")
	c.records("a", "b", "c")
	assert.True(t, c.acquires("b", false))
	assert.True(t, c.acquires("b", false), "it has the turn already")
	assert.False(t, c.acquires("c", false))
	assert.False(t, c.acquires("a", false))
	assert.Empty(t, c.takeEnqueued(), "nothing is free")

	c.records("b")
	assert.Equal(t, []string{"a", "c"}, c.takeEnqueued(), "the oldest first, in whatever order they asked")
	c.records("b")
	assert.Empty(t, c.takeEnqueued(), "it was idle already")
	assert.False(t, c.acquires("c", false), "an older one waits")
	assert.True(t, c.acquires("a", false))
	c.records("a")
	assert.Equal(t, []string{"c"}, c.takeEnqueued())
	assert.True(t, c.acquires("c", false))

	for _, object := range c.objects {
		c.Forget(client.ObjectKeyFromObject(object))
	}
	assert.Empty(t, c.members)
}

// After a restart it is unknown which object is being applied.
func TestAnUnknownMemberBlocksOthers(t *testing.T) {
	c := newFixture(t, "a", "b", "c")
	assert.False(t, c.acquires("b", false))
	c.records("a")
	assert.Equal(t, []string{"b"}, c.takeEnqueued())
	assert.False(t, c.acquires("b", false), "one is left")
	assert.False(t, c.acquires("c", false), "b is older")
	assert.Equal(t, []string{"b"}, c.takeEnqueued(), "that was the last one to be looked at")
	assert.True(t, c.acquires("b", false))
}

func TestAMemberFoundActiveIsActive(t *testing.T) {
	c := newFixture(t, "a", "b")
	c.Record(c.objects["b"], profiles, true)
	assert.False(t, c.acquires("a", false))
	assert.True(t, c.acquires("b", true), "it may be changed, or destroyed")
	assert.False(t, c.acquires("a", false))
	c.records("b")
	assert.Equal(t, []string{"a"}, c.takeEnqueued())
	assert.True(t, c.acquires("a", false))
	assert.True(t, c.acquires("b", true), "the user changed it: it is being applied, whatever was reported")
}

// The oldest waits, and then wants nothing any more, or is gone: those who waited for it must know.
func TestAMemberThatNoLongerAcquiresBlocksNone(t *testing.T) {
	c := newFixture(t, "a", "b", "c")
	c.records("a", "b", "c")
	require.True(t, c.acquires("c", false))
	require.False(t, c.acquires("a", false))
	require.False(t, c.acquires("b", false))
	c.records("c")
	require.Equal(t, []string{"a", "b"}, c.takeEnqueued())
	require.False(t, c.acquires("b", false))

	c.records("a")
	assert.Equal(t, []string{"b"}, c.takeEnqueued())
	assert.True(t, c.acquires("b", false))
}

func TestADeletedMemberBlocksNone(t *testing.T) {
	for name, last := range map[string]func(c *fixture){
		"at work":         func(c *fixture) { c.Record(c.objects["a"], profiles, true) },
		"waiting":         func(c *fixture) { c.Record(c.objects["c"], profiles, true); c.acquires("a", false); c.records("c") },
		"never looked at": func(*fixture) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFixture(t, "a", "b", "c")
			c.records("c")
			last(c)
			require.False(t, c.acquires("b", false))
			delete(c.objects, "a") // The event of that wakes those who wait, be it before or after it is forgotten.
			assert.Equal(t, []client.ObjectKey{client.ObjectKeyFromObject(c.objects["b"])},
				slices.DeleteFunc(c.Waiting(profiles), func(key client.ObjectKey) bool { return key.Name == "a" }))
			assert.True(t, c.acquires("b", false))
		})
	}
}

func TestAMemberIsActiveInOneGroup(t *testing.T) {
	c := newFixture(t, "a", "b")
	c.records("a", "b")
	require.True(t, c.acquires("a", false))
	other := profiles
	other.Label = "others"
	granted, err := c.Acquire(c.objects["a"], other, false, func() ([]client.ObjectKey, error) {
		return []client.ObjectKey{client.ObjectKeyFromObject(builder.WorkspaceTemplateApply("unseen"))}, nil
	})
	require.NoError(t, err)
	assert.False(t, granted, "it changed its label, and has a turn of the old series only")
}

func TestAnErrorOfTheListRefusesTheAcquisition(t *testing.T) {
	c := newFixture(t, "a")
	c.records("a")
	_, err := c.Acquire(c.objects["a"], profiles, false, func() ([]client.ObjectKey, error) { return nil, errors.New("no cache") })
	require.Error(t, err)
	assert.True(t, c.acquires("a", false))
}

// Many ask at the same time, work, and rest. There is never a second one at work, and each is served in the end: no
// wake-up is lost.
func TestConcurrentMembersAreSerialized(t *testing.T) {
	const members, rounds = 30, 20
	names := make([]string, members)
	for i := range names {
		names[i] = fmt.Sprintf("member-%02d", i)
	}
	c := newFixture(t, names...)
	calls := map[string]chan struct{}{}
	for _, name := range names {
		calls[name] = make(chan struct{}, 1)
	}
	c.EnqueueWith(func(key client.ObjectKey) {
		select {
		case calls[key.Name] <- struct{}{}: // As in a work queue: a key that is added twice is processed once.
		default:
		}
	})
	var atWork atomic.Int32
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for range rounds {
				for !c.acquires(name, false) {
					select {
					case <-calls[name]:
					case <-time.After(time.Minute):
						t.Errorf("%s waits forever", name)
						return
					}
				}
				if others := atWork.Add(1); others != 1 {
					t.Errorf("%d are at work", others)
				}
				atWork.Add(-1)
				c.records(name)
			}
		})
	}
	all.Wait()
}

// A canceled reservation is free, but the next edit is rate limited again.
func TestUpdatesOfAFleetAreLimited(t *testing.T) {
	limiter, now := NewRateLimiter(), time.Unix(1_800_000_000, 0)
	var last time.Duration
	for i := range 500 {
		wait := limiter.Reserve(client.ObjectKey{Name: strconv.Itoa(i)}, now)
		require.GreaterOrEqual(t, wait, last)
		last = wait
	}
	assert.InDelta(t, 499*time.Second/updatesPerSecond, last, float64(time.Second))

	for i := range 500 {
		limiter.Cancel(client.ObjectKey{Name: strconv.Itoa(i)}, now.Add(time.Second))
	}
	require.Empty(t, limiter.waiting)
	var immediate int
	for i := range 500 {
		if limiter.Reserve(client.ObjectKey{Name: strconv.Itoa(i)}, now.Add(time.Hour)) == 0 {
			immediate++
		}
	}
	assert.Equal(t, 1, immediate)
}

func TestAReservationIsKeptUntilItIsUsed(t *testing.T) {
	limiter, now := NewRateLimiter(), time.Unix(1_800_000_000, 0)
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "a"}, now), "a single update does not wait")
	wait := limiter.Reserve(client.ObjectKey{Name: "b"}, now)
	require.Equal(t, time.Second/updatesPerSecond, wait)
	assert.Equal(t, wait/2, limiter.Reserve(client.ObjectKey{Name: "b"}, now.Add(wait/2)), "an event woke it early")
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "b"}, now.Add(wait)))
	assert.Zero(t, limiter.Reserve(client.ObjectKey{Name: "a"}, now.Add(time.Minute)), "the next one is long after")
}
