/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package crash_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/crash/proxy"
)

// disturb lets something happen to the command at some calls or all, and each time demands the same end.
func (s *story) disturb(moments ...proxy.Moment) {
	s.Helper()
	count, unwritten := map[proxy.Moment]int{}, 0
	for i, f := range fates(s.calls, moments...) {
		what := fmt.Sprintf("%s %s", f.Moment, f.call)
		if !s.meet(f) {
			s.Logf("%s: not reached", what)
			continue
		}
		count[f.Moment]++
		if everything && i%proven != 0 && maps.Equal(s.begin, shared.now(s.T)) {
			unwritten++ // It is where it began, and so is whoever goes on.
			continue
		}
		if f.Moment != proxy.Lost {
			switch i % 2 {
			case 0:
				s.must(s.again(s)...)
			default:
				s.elsewhere()
				s.must(s.away(s)...)
			}
		}
		s.requireEnd(what)
	}
	s.Logf("%v of %d calls; after %d of them, nothing was written yet", count, len(s.calls), unwritten)
	require.NotEmpty(s, count)
}

// proven is of how many kills before which nothing was written one is gone on from, too.
const proven = 10

// tries is how often a machine may be too slow for a short lease.
const tries = 5

// meet puts everything back, and lets the command meet its fate. A renewal need not come.
func (s *story) meet(f fate) bool {
	s.Helper()
	for range tries {
		shared.putBack(s.T, s.before)
		s.begin = shared.now(s.T)
		s.elsewhere()
		err := s.disturbed(f.call, f.Moment, s.first(s)...)
		switch {
		case err == nil:
			return true
		case errors.Is(err, errNotReached) && f.kind == renewalOfLock:
			return false
		case !errors.Is(err, errNotReached):
			require.NoError(s, err, "%s %s", f.Moment, f.call)
		}
		s.Logf("%s %s: %v", f.Moment, f.call, err)
	}
	require.Fail(s, "never reached", "%s %s", f.Moment, f.call)
	return false
}

// tellingStories are the commands that write, from the legacy fleet on.
func tellingStories(t *testing.T) (applied, rolledBack, finalized story) {
	t.Helper()
	applied = begin(t)
	rolledBack, finalized = applied, applied
	applied.command, applied.first, applied.again, applied.away = journal.Apply, briefly((*story).apply), (*story).apply, (*story).resumeOrApply
	rolledBack.command, rolledBack.first, rolledBack.again, rolledBack.away = journal.Rollback, briefly((*story).rollback), (*story).rollback, (*story).rollback
	finalized.first, finalized.again, finalized.away = (*story).finalize, (*story).finalize, (*story).finalize
	applied.undisturbed()
	return applied, rolledBack, finalized
}

// briefly is a command with a lease that runs out as soon as one can.
func briefly(command func(*story) []string) func(*story) []string {
	return func(s *story) []string { return append(command(s), "--lease-duration", "1s") }
}

func TestNothingComesOfKillingCaptctl(t *testing.T) {
	applied, rolledBack, finalized := tellingStories(t)
	for _, s := range []*story{&applied, &rolledBack, &finalized} {
		t.Run(s.first(s)[0], func(t *testing.T) {
			s.operator = newOperator(t)
			if s != &applied {
				shared.putBack(t, applied.after)
				s.undisturbed()
			}
			s.disturb(proxy.Before, proxy.After)
			s.disturb(proxy.Lost)
		})
	}
	requireHarmless(t)
}
