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
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/test/crash/proxy"
)

// rival is another operator with the same plan.
func (s *story) rival() *story {
	s.Helper()
	other := *s
	other.operator = newOperator(s.T)
	return &other
}

// listen lists what a story's operator writes to objects, from now on.
func (s *story) listen() {
	s.proxy.Arm(proxy.Target{Matches: func(r *http.Request) bool {
		return r.Method != http.MethodGet && strings.Contains(r.URL.Path, ".cluster.x-k8s.io/") && !r.URL.Query().Has("dryRun")
	}})
}

// TestOfTwoRunsAtOnceOneWrites starts two, each on a machine of its own. The other either finds the lock taken, or waits until
// it is free and finds nothing to do.
func TestOfTwoRunsAtOnceOneWrites(t *testing.T) {
	s := begin(t)
	rounds := 2
	if everything {
		rounds = 30
	}
	outcomes := map[migrate.Outcome]int{}
	for range rounds {
		shared.putBack(t, shared.legacy)
		rivals := []*story{s.rival(), s.rival()}
		var runs []*run
		for _, rival := range rivals {
			rival.listen()
			runs = append(runs, rival.start(append(rival.apply(), "--output", "json")...))
		}
		writers, written := 0, 0
		for i, rival := range rivals {
			outcome := rival.outcome(runs[i])
			outcomes[outcome]++
			if outcome != migrate.Locked {
				require.Equal(t, migrate.Done, outcome, "%s", &runs[i].out)
				result := resultOf(t, runs[i])
				written += result.Steps.Written
			}
			if len(rival.proxy.Writes()) > 0 {
				require.Equal(t, migrate.Done, outcome)
				writers++
			}
		}
		require.Equal(t, 1, writers)
		require.Equal(t, s.state().Steps.Total, written)
		s.requireEnd("two runs at once")
	}
	t.Logf("exit codes: %v", outcomes)
	requireHarmless(t)
}

// resultOf is the document that a run has printed, before or after what it had to say.
func resultOf(t *testing.T, r *run) *execute.Result {
	t.Helper()
	text := r.out.String()
	result := &execute.Result{}
	require.NoError(t, json.NewDecoder(strings.NewReader(text[strings.Index("\n"+text, "\n{"):])).Decode(result), text)
	return result
}

// TestARunThatFindsAnotherAliveIsToldSo holds a call of a run back. It goes on to renew its lease, so that another one sees that
// it lives.
func TestARunThatFindsAnotherAliveIsToldSo(t *testing.T) {
	s := begin(t)
	slow, rival := s.rival(), s.rival()
	held, goOn := make(chan struct{}), make(chan struct{})
	reads := readsOfObjects(s.calls)
	slow.at(reads[len(reads)-1], func() {
		close(held)
		<-goOn
	})
	first := slow.start(append(slow.apply(), "--lease-duration", "3s")...)
	select {
	case <-held:
	case <-first.done:
		require.Fail(t, "it ended before", "%s", &first.out)
	}
	rival.listen()
	second := rival.start(rival.apply()...)
	require.Equal(t, migrate.Locked, rival.outcome(second), "%s", &second.out)
	require.Contains(t, second.out.String(), "another run is under way")
	require.Empty(t, rival.proxy.Writes())
	close(goOn)
	require.Equal(t, migrate.Done, slow.outcome(first), "%s", &first.out)
	s.requireEnd("two runs, one after the other")
}

// at does something when a call of the operator comes, before the API server hears of it. What it writes is listed from now on.
func (o *operator) at(c call, do func()) {
	var number atomic.Int32
	o.proxy.Arm(proxy.Target{Matches: func(r *http.Request) bool {
		if keyOf(r) == c.key && int(number.Add(1)) == c.number {
			do()
		}
		return r.Method != http.MethodGet
	}})
}

// TestARunThatWokeUpTooLateWritesNothing stops one (SIGSTOP) as it has just read an object, for longer than its lease. Another
// one takes over meanwhile, and comes to the end.
func TestARunThatWokeUpTooLateWritesNothing(t *testing.T) {
	s := begin(t)
	stops := readsOfObjects(s.calls)
	if !everything {
		// The first is before anything is written, and the last one of a rewrite.
		stops = []call{stops[0], stops[len(stops)/2], stops[len(stops)-1]}
	}
	for _, c := range stops {
		shared.putBack(t, shared.legacy)
		sleeper, rival := s.rival(), s.rival()
		var r *run
		started, asleep := make(chan struct{}), make(chan error, 1)
		sleeper.at(c, func() {
			<-started
			asleep <- r.command.Process.Signal(syscall.SIGSTOP)
		})
		r = sleeper.start(append(sleeper.apply(), "--lease-duration", "1s")...)
		close(started)
		select {
		case err := <-asleep:
			require.NoError(t, err)
		case <-r.done:
			require.Fail(t, "it ended before", "%s\n%s", c, &r.out)
		}
		rival.must(rival.apply()...)
		before, sent := shared.now(t), len(sleeper.proxy.Writes())
		require.NoError(t, r.command.Process.Signal(syscall.SIGCONT))
		outcome := migrate.Partly
		if c.lists() {
			outcome = migrate.Locked // It has written nothing, and everybody else has.
		}
		require.Equal(t, outcome, sleeper.outcome(r), "stopped at %s\n%s", c, &r.out)
		require.Contains(t, r.out.String(), "the lock is lost")
		require.Eventually(t, func() bool { // It may have ended without waiting for an answer.
			return !slices.ContainsFunc(sleeper.proxy.Writes(), func(w proxy.Write) bool { return w.Code == 0 })
		}, patience, tick)
		for _, write := range sleeper.proxy.Writes()[sent:] {
			require.Equal(t, http.StatusConflict, write.Code, "%s after it woke up; it was stopped at %s", write, c)
		}
		require.Equal(t, before, shared.now(t), c)
		s.requireEnd("stopped at " + c.String())
	}
	t.Logf("stopped at %d reads", len(stops))
	requireHarmless(t)
}

// readsOfObjects are those reads of CAPT's objects that a run makes while it holds the lock: lists before it begins, and then one
// at a time.
func readsOfObjects(calls []call) (reads []call) {
	locked := slices.IndexFunc(calls, func(c call) bool { return c.writes && strings.Contains(c.key, "/leases") })
	for _, c := range calls[locked:] {
		if strings.HasPrefix(c.key, "GET /apis/") && strings.Contains(c.key, ".cluster.x-k8s.io/v1beta2/") {
			reads = append(reads, c)
		}
	}
	return reads
}

// lists tells whether a read is of many objects.
func (c call) lists() bool { return strings.Contains(c.key, "limit=") }
