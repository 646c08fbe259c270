// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// clockTolerance is how far the clocks of machines may be apart, or one may jump, without a false timeout.
const clockTolerance = 10 * time.Minute

// Stopwatch tells for how long something goes on that began at a time which stands in an object: the clock of the API server,
// or of the provider, told it. That clock and ours may differ, and either may be set. So what went on before this process first
// saw it counts only as far as it exceeds clockTolerance, and from then on the monotonic clock counts. A time that is told
// is never too long by a clock that is wrong by less; after a restart it is too short by that much at most. What was told of it
// before the restart stays true.
type Stopwatch struct {
	// Clock must measure Since with the monotonic clock, as the real one does.
	Clock clock.PassiveClock
	runs  sync.Map // runKey to run
}

type runKey struct {
	object client.ObjectKey
	what   string
}

type run struct {
	began, seen time.Time
	// before is what counts of the time until seen.
	before time.Duration
}

// Elapsed is for how long something that an object tells about goes on. what names it among those of the object; told is what
// an earlier process has told already.
func (s *Stopwatch) Elapsed(object client.ObjectKey, what string, began time.Time, told time.Duration) time.Duration {
	key := runKey{object, what}
	found, ok := s.runs.Load(key)
	if !ok || !found.(run).began.Equal(began) {
		now := s.Clock.Now()
		// Without Round the monotonic clock would count, if began had a reading of it.
		found = run{began: began, seen: now, before: max(0, told, now.Round(0).Sub(began)-clockTolerance)}
		s.runs.Store(key, found)
	}
	return found.(run).before + s.Clock.Since(found.(run).seen)
}

// Forget drops what is known of an object that is gone.
func (s *Stopwatch) Forget(object client.ObjectKey, what ...string) {
	for _, name := range what {
		s.runs.Delete(runKey{object, name})
	}
}
