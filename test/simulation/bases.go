// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// base is a world in which no process runs: schedules that start in it have other actions and faults than those of the creation of a cluster.
type base struct {
	at      time.Time
	store   *store
	states  map[string]state
	checked invariants
	// violation is one that was found already.
	violation string
}

// baseEvents create the worlds in which schedules start: empty, in the middle of a creation, at rest, with a revision that waits for an approval or has one.
// steps is when a world is recorded; 0 is at rest.
var baseEvents = []struct {
	events string
	steps  int
}{
	{"", 0},
	{"0 create 68", 30},
	{"0 create 4", 60},
	{"0 create 52", 100},
	{"0 create 68", 0},
	{"0 create 4", 0},
	{"0 create 52", 0},
	{"0 create 20", 0},
	{"0 create 64", 0},
	{"0 create 68; 0 create 69", 0},
	{"0 create 68; 0 create 70", 0},
	{"0 create 68; 0 create 70; 400 stage template 8; 440 edit template 8", 0},
	{"0 create 68; 0 create 70; 400 stage template 8; 440 edit template 8; 480 approve 8", 0},
	{"0 create 68; 400 stage template 0; 440 edit template 0", 0},
}

var bases = func() (all []func(t *testing.T) *base) {
	for i, of := range baseEvents {
		var made sync.Once
		var is *base
		all = append(all, func(t *testing.T) *base {
			made.Do(func() { is = newBase(t, uint64(i), of.events, of.steps) })
			return is
		})
	}
	return all
}()

func newBase(t *testing.T, seed uint64, text string, steps int) (is *base) {
	synctest.Test(t, func(*testing.T) {
		w := newWorld(seed, nil, false)
		defer w.stop()
		if text != "" {
			events, err := ParseEvents(text)
			must(err)
			w.start()
			w.play(events)
			for w.violation == "" && (w.steps < steps || len(w.parked) > 0 || w.locked()) {
				if !w.step() {
					w.pass(time.Second, never)
				}
			}
			if steps == 0 {
				w.pass(time.Minute, never)
			}
			w.stop()
		}
		is = w.record()
	})
	return is
}

func (w *World) locked() bool {
	for _, s := range w.cloud.states {
		if s.lock != "" {
			return true
		}
	}
	return false
}

// record records a world. Objects that are stored never change, so that they are shared.
func (w *World) record() *base {
	b := &base{at: time.Now(), store: w.store.copy(), states: map[string]state{}, checked: w.invariants.copy(), violation: w.violation}
	for name, s := range w.cloud.states {
		b.states[name] = *s
	}
	return b
}

// resume makes a world what was recorded.
func (w *World) resume(b *base) {
	time.Sleep(time.Until(b.at))
	w.violation = b.violation
	w.store, w.invariants = b.store.copy(), b.checked.copy()
	for name, s := range b.states {
		w.cloud.states[name] = &s
	}
}

func (s *store) copy() *store {
	copied := newStore(s.scheme)
	copied.version, copied.created = s.version, s.created
	for _, r := range s.order {
		of := copied.of(r.gvk)
		of.objects, of.keys = maps.Clone(r.objects), r.keys
	}
	return copied
}

func (i *invariants) copy() invariants {
	copied := *i
	for _, m := range []*map[string]bool{&copied.restricted, &copied.approved, &copied.tampered, &copied.withoutVPC} {
		*m = maps.Clone(*m)
	}
	for _, m := range []*map[types.UID]bool{&copied.byUser, &copied.foreign} {
		*m = maps.Clone(*m)
	}
	copied.paused, copied.appliedBy, copied.roles = maps.Clone(i.paused), maps.Clone(i.appliedBy), maps.Clone(i.roles)
	copied.edited = maps.Clone(i.edited)
	copied.intruders = slices.Clone(i.intruders)
	return copied
}
