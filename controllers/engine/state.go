// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staleCacheTimeout is how long the cache counts as stale after a write. It ends because resource versions also decrease when etcd is
// restored from a backup.
const staleCacheTimeout = time.Minute

// Limits of the exponential backoff for refused requests. The maximum must leave time to renew a token.
const (
	firstRefusedRetry = time.Second
	lastRefusedRetry  = 2 * time.Minute
)

// clockTolerance is the difference between the clocks of two machines, or the jump of one clock, that must not cause a false timeout.
const clockTolerance = 10 * time.Minute

// StateCache has what this process last observed of each object of a kind. After a restart it is filled again. Cluster API's util/cache cannot
// be used, because its entries expire; these must exist as long as their objects.
type StateCache struct {
	// Clock must measure Since with the monotonic clock, as the real one does; nil means the real one.
	Clock   clock.PassiveClock
	objects sync.Map // client.ObjectKey to *objectState
}

type objectState struct {
	sync.Mutex
	// version is the resource version after the last read or write of this process, at its time.
	version string
	at      time.Time
	// refused is the last error with which the API server refused a request, since its first occurrence.
	refused      string
	refusedSince time.Time
	timers       map[string]timer
	// reason is why the object is not as wanted, since a time, and after the last retry; see Measure.
	reason               string
	reasonSince, retried time.Time
	reasonBefore         time.Duration
	// delayedSince is since when status has details that are not written; zero when there are none.
	delayedSince time.Time
	// kindState is what the controller of the kind adds, see StateOf.
	kindState any
}

type timer struct {
	// started is the time that the object reports, seen is when this process first read it.
	started, seen time.Time
	// elapsedBefore is the part of the time between started and seen that counts.
	elapsedBefore time.Duration
}

// Now is the time of the clock.
func (c *StateCache) Now() time.Time { return c.clock().Now() }

func (c *StateCache) clock() clock.PassiveClock {
	if c.Clock == nil {
		return clock.RealClock{}
	}
	return c.Clock
}

// lockedState returns the state of an object, locked.
func (c *StateCache) lockedState(key client.ObjectKey) *objectState {
	state, ok := c.objects.Load(key)
	if !ok {
		state, _ = c.objects.LoadOrStore(key, &objectState{timers: map[string]timer{}})
	}
	state.(*objectState).Lock()
	return state.(*objectState)
}

// CacheIsStale reports whether this process wrote the object after the version that the cache returned. Nothing depends on it: the API
// server refuses writes that are based on an old version.
func (c *StateCache) CacheIsStale(obj client.Object) bool {
	found, ok := c.objects.Load(client.ObjectKeyFromObject(obj))
	if !ok {
		return false
	}
	state := found.(*objectState)
	state.Lock()
	defer state.Unlock()
	if state.version == "" || c.clock().Since(state.at) > staleCacheTimeout {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), state.version)
	return err == nil && order < 0
}

// Record records the version that this process has just read or written.
func (c *StateCache) Record(obj client.Object) {
	state := c.lockedState(client.ObjectKeyFromObject(obj))
	defer state.Unlock()
	state.version, state.at = obj.GetResourceVersion(), c.clock().Now()
}

// Forget drops the state of an object that no longer exists.
func (c *StateCache) Forget(key client.ObjectKey) { c.objects.Delete(key) }

// StateOf returns the state that the controller of a kind adds to that of an object: a T that is zero at first. Only the reconcile of the object
// uses it, so it needs no lock.
func StateOf[T any](c *StateCache, key client.ObjectKey) *T {
	state := c.lockedState(key)
	defer state.Unlock()
	if state.kindState == nil {
		state.kindState = new(T)
	}
	return state.kindState.(*T)
}

// remainingDelay returns how long a status write still waits that may be delayed. A delay of zero ends the wait.
func (c *StateCache) remainingDelay(key client.ObjectKey, delay time.Duration) time.Duration {
	state := c.lockedState(key)
	defer state.Unlock()
	switch {
	case delay == 0:
		state.delayedSince = time.Time{}
		return 0
	case state.delayedSince.IsZero():
		state.delayedSince = c.clock().Now()
	}
	return delay - c.clock().Since(state.delayedSince)
}

func (c *StateCache) clearRefusal(key client.ObjectKey) {
	state := c.lockedState(key)
	defer state.Unlock()
	state.refused = ""
}

// recordRefusal records a refusal, and returns when to retry one that is known; zero for a new one.
func (c *StateCache) recordRefusal(key client.ObjectKey, message string) time.Duration {
	state := c.lockedState(key)
	defer state.Unlock()
	if state.refused != message {
		state.refused, state.refusedSince = message, c.clock().Now()
		return 0
	}
	return min(max(c.clock().Since(state.refusedSince), firstRefusedRetry), lastRefusedRetry)
}

// Elapsed returns the duration of an operation whose start the object reports, according to the clock of another machine. From the time when
// this process first saw the operation, the monotonic clock counts; of the time before that, only the part that exceeds clockTolerance. So a
// clock that is wrong by less than clockTolerance never makes the duration too long. reported is the duration that status already reports.
func (c *StateCache) Elapsed(object client.ObjectKey, operation string, started time.Time, reported time.Duration) time.Duration {
	state := c.lockedState(object)
	defer state.Unlock()
	found, ok := state.timers[operation]
	if !ok || !found.started.Equal(started) {
		now := c.clock().Now()
		// Round removes the monotonic reading, which Sub would use.
		found = timer{started: started, seen: now, elapsedBefore: max(0, reported, now.Round(0).Sub(started)-clockTolerance)}
		state.timers[operation] = found
	}
	return found.elapsedBefore + c.clock().Since(found.seen)
}

// Measure measures for how long an object has a reason; it starts again with another reason or a later retry. before is for how long it is known to have
// had that already, if nothing was measured before.
func (c *StateCache) Measure(key client.ObjectKey, retried time.Time, reason string, before time.Duration) {
	state := c.lockedState(key)
	defer state.Unlock()
	known := !state.reasonSince.IsZero()
	if known && state.reason == reason && state.retried.Equal(retried) {
		return
	}
	if known {
		before = 0
	}
	state.reason, state.retried, state.reasonSince, state.reasonBefore = reason, retried, c.clock().Now(), before
}

// Persists returns the reason that Measure was last called with, and for how long that is so; empty if that was before the last retry. known is false if it
// was never called.
func (c *StateCache) Persists(key client.ObjectKey, retried time.Time) (reason string, persists time.Duration, known bool) {
	state := c.lockedState(key)
	defer state.Unlock()
	if known = !state.reasonSince.IsZero(); !known || !state.retried.Equal(retried) {
		return "", 0, known
	}
	return state.reason, state.reasonBefore + c.clock().Since(state.reasonSince), true
}
