// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"errors"
	"fmt"
	"slices"
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

var profiles = series{namespace: builder.Namespace, cluster: "demo", turns: naming.FargateTurns}

// circle is a rota with objects of one series, and who was woken.
type circle struct {
	*testing.T
	rota
	objects map[string]client.Object
	mu      sync.Mutex
	woken   []string
}

// newCircle has objects of one series, the first the oldest. None was looked at yet.
func newCircle(t *testing.T, names ...string) *circle {
	c := &circle{T: t, objects: map[string]client.Object{}}
	for i, name := range names {
		c.objects[name] = builder.WorkspaceTemplateApply(name, builder.WithCreation(builder.Created.Add(time.Duration(i)*time.Second)))
	}
	c.wakeWith(func(key client.ObjectKey) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.woken = append(c.woken, key.Name)
	})
	return c
}

func (c *circle) asks(name string, working bool) bool {
	c.Helper()
	granted, err := c.take(c.objects[name], profiles, working, func() ([]client.ObjectKey, error) {
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
func (c *circle) rests(names ...string) {
	for _, name := range names {
		c.note(c.objects[name], profiles, false)
	}
}

// told returns who was woken since it was last asked.
func (c *circle) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	woken := c.woken
	c.woken = nil
	return woken
}

func TestOneOfASeriesHasTheTurn(t *testing.T) {
	c := newCircle(t, "a", "b", "c")
	c.rests("a", "b", "c")
	assert.True(t, c.asks("b", false))
	assert.True(t, c.asks("b", false), "it has the turn already")
	assert.False(t, c.asks("c", false))
	assert.False(t, c.asks("a", false))
	assert.Empty(t, c.told(), "nothing is free")

	c.rests("b")
	assert.Equal(t, []string{"a", "c"}, c.told(), "the oldest first, whoever asked first")
	c.rests("b")
	assert.Empty(t, c.told(), "that it rests is no news")
	assert.False(t, c.asks("c", false), "an older one waits")
	assert.True(t, c.asks("a", false))
	c.rests("a")
	assert.Equal(t, []string{"c"}, c.told())
	assert.True(t, c.asks("c", false))
}

// After a restart nobody knows who is at work.
func TestNobodyBeginsBesideOneThatWasNotLookedAt(t *testing.T) {
	c := newCircle(t, "a", "b", "c")
	assert.False(t, c.asks("b", false))
	c.rests("a")
	assert.Equal(t, []string{"b"}, c.told())
	assert.False(t, c.asks("b", false), "one is left")
	assert.False(t, c.asks("c", false), "b is older")
	assert.Equal(t, []string{"b"}, c.told(), "that was the last one to be looked at")
	assert.True(t, c.asks("b", false))
}

func TestOneThatIsFoundAtWorkHasTheTurn(t *testing.T) {
	c := newCircle(t, "a", "b")
	c.note(c.objects["b"], profiles, true)
	assert.False(t, c.asks("a", false))
	assert.True(t, c.asks("b", true), "it may be changed, or destroyed")
	assert.False(t, c.asks("a", false))
	c.rests("b")
	assert.Equal(t, []string{"a"}, c.told())
	assert.True(t, c.asks("a", false))
	assert.True(t, c.asks("b", true), "somebody changed it by hand: it is at work, whatever was said")
}

// The oldest waits, and then wants nothing any more, or is gone: those who waited for it must know.
func TestWhoDoesNotWantItsTurnAnyMoreStandsInNobodysWay(t *testing.T) {
	c := newCircle(t, "a", "b", "c")
	c.rests("a", "b", "c")
	require.True(t, c.asks("c", false))
	require.False(t, c.asks("a", false))
	require.False(t, c.asks("b", false))
	c.rests("c")
	require.Equal(t, []string{"a", "b"}, c.told())
	require.False(t, c.asks("b", false))

	c.rests("a")
	assert.Equal(t, []string{"b"}, c.told())
	assert.True(t, c.asks("b", false))
}

func TestWhoIsGoneStandsInNobodysWay(t *testing.T) {
	for name, last := range map[string]func(c *circle){
		"at work":         func(c *circle) { c.note(c.objects["a"], profiles, true) },
		"waiting":         func(c *circle) { c.note(c.objects["c"], profiles, true); c.asks("a", false); c.rests("c") },
		"never looked at": func(*circle) {},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCircle(t, "a", "b", "c")
			c.rests("c")
			last(c)
			require.False(t, c.asks("b", false))
			delete(c.objects, "a") // The event of that wakes those who wait, be it before or after it is forgotten.
			assert.Equal(t, []client.ObjectKey{client.ObjectKeyFromObject(c.objects["b"])},
				slices.DeleteFunc(c.waiting(profiles), func(key client.ObjectKey) bool { return key.Name == "a" }))
			assert.True(t, c.asks("b", false))
		})
	}
}

func TestWhatIsForgottenTakesNoRoom(t *testing.T) {
	c := newCircle(t, "a", "b")
	c.rests("a", "b")
	for _, object := range c.objects {
		c.forget(client.ObjectKeyFromObject(object))
	}
	assert.Empty(t, c.members)
}

func TestATurnOfOneSeriesIsNoneOfAnother(t *testing.T) {
	c := newCircle(t, "a", "b")
	c.rests("a", "b")
	require.True(t, c.asks("a", false))
	other := profiles
	other.turns = "others"
	granted, err := c.take(c.objects["a"], other, false, func() ([]client.ObjectKey, error) {
		return []client.ObjectKey{client.ObjectKeyFromObject(builder.WorkspaceTemplateApply("unseen"))}, nil
	})
	require.NoError(t, err)
	assert.False(t, granted, "it changed its label, and has a turn of the old series only")
}

func TestWithoutAListOfTheOthersNothingIsGiven(t *testing.T) {
	c := newCircle(t, "a")
	c.rests("a")
	_, err := c.take(c.objects["a"], profiles, false, func() ([]client.ObjectKey, error) { return nil, errors.New("no cache") })
	require.Error(t, err)
	assert.True(t, c.asks("a", false))
}

// Many ask at the same time, work, and rest. There is never a second one at work, and everybody comes to it in the end: no
// wake-up is lost.
func TestManyAtATimeComeOneByOne(t *testing.T) {
	const members, rounds = 30, 20
	names := make([]string, members)
	for i := range names {
		names[i] = fmt.Sprintf("member-%02d", i)
	}
	c := newCircle(t, names...)
	calls := map[string]chan struct{}{}
	for _, name := range names {
		calls[name] = make(chan struct{}, 1)
	}
	c.wakeWith(func(key client.ObjectKey) {
		select {
		case calls[key.Name] <- struct{}{}: // As in a work queue: who is called twice comes once.
		default:
		}
	})
	var atWork atomic.Int32
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for range rounds {
				for !c.asks(name, false) {
					select {
					case <-calls[name]:
					case <-time.After(time.Minute):
						t.Errorf("%s waits for ever", name)
						return
					}
				}
				if others := atWork.Add(1); others != 1 {
					t.Errorf("%d are at work", others)
				}
				atWork.Add(-1)
				c.rests(name)
			}
		})
	}
	all.Wait()
}
