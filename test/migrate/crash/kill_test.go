// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/crash/proxy"
	"github.com/capt-provider/capt/test/migrate/host"
	"github.com/capt-provider/capt/test/sandbox"
)

// fast lets tests wait for what they test only. The lease is the shortest that there is.
var fast = []string{"--yes", "--qps=10000", "--burst=10000", "--lease-duration=1s", "--max-failures=0"}

// direction is a command that changes the fleet, and what it ends with if nothing interrupts it.
type direction struct {
	command string
	phase   apply.Phase
	calls   []call
	end     map[string]string
}

// scenario interrupts captctl on one host, and resumes there or on another one.
type scenario struct {
	*proxied
	plan             *plan.Plan
	apply, rollback  direction
	resumed, skipped int
}

// uninterrupted is a scenario that was recorded.
var uninterrupted *scenario

func newScenario(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{proxied: newProxied(t)}
	if uninterrupted == nil {
		s.apply = direction{command: "apply", phase: apply.PhaseApplied}
		s.rollback = direction{command: "rollback", phase: apply.PhaseRolledBack}
		for range 2 { // The first one is not like the others: what the manager adds once stays.
			s.newPlan()
			s.record(&s.apply)
			s.record(&s.rollback)
		}
		require.Len(t, s.plan.Units, 2)
		uninterrupted = s
	}
	s.apply, s.rollback = uninterrupted.apply, uninterrupted.rollback
	for _, d := range []direction{s.apply, s.rollback} {
		require.NotEmpty(t, d.calls)
		t.Logf("%s: %d calls, %d of them writes", d.command, len(d.calls), countWrites(d.calls))
	}
	return s
}

func (s *scenario) newPlan() {
	s.Helper()
	s.Dir = s.TempDir()
	s.plan = s.Plan()
}

func (s *scenario) file() string { return filepath.Join(s.Dir, "plan.json") }

// record runs a command uninterrupted, and keeps its calls and its end.
func (s *scenario) record(d *direction) {
	s.Helper()
	r := &recorder{}
	s.proxy.Arm(proxy.Target{Matches: r.Matches})
	s.retried(func() (*host.Command, bool) {
		run := s.begin(append([]string{d.command, s.file()}, fast...)...)
		return run, run.Outcome() == migrate.Done
	})
	s.proxy.Open()
	d.calls = r.calls
	d.end = host.Settled(s.T, shared.Sandbox, func() map[string]string { return live(s.T) })
	requireEnd(s.T, d.end, s.plan, d.phase, "uninterrupted "+d.command)
}

// runUntil runs a command until its interruption, and reports whether that came. A run that resumes another one may not make the call, and one that lost its
// lease, which is as short as a busy machine allows, ends before it.
func (s *scenario) runUntil(d *direction, f interruption, resumes bool) bool {
	s.Helper()
	what := d.command + " " + f.String()
	interrupted := s.proxy.Arm(proxy.Target{Number: f.number, Moment: f.Moment, Matches: func(r *http.Request) bool { return keyOf(r) == f.key }})
	run := s.begin(append([]string{d.command, s.file()}, fast...)...)
	outcome := run.Outcome()
	s.proxy.Open()
	met := outcome == host.Killed
	select {
	case <-interrupted:
		met = true
	default:
	}
	switch {
	case outcome == migrate.Partly:
		require.Contains(s, run.String(), "the lock is lost", what)
	case met && f.Moment != proxy.Lost:
		require.Equal(s, host.Killed, outcome, "%s: %s", what, run)
	default:
		require.Equal(s, migrate.Done, outcome, "%s: %s", what, run)
		require.True(s, met || resumes || f.timed(), "%s was not reached: %s", what, run)
	}
	return met
}

// interrupt interrupts runs of a command, one after the other, resumes the last one, and compares the end with that of the uninterrupted
// run. A run that is not interrupted ends the command. The interruptions that are left then are returned, for another plan, but the first one of a plan
// if its call depends on time. Without interruptions, nothing happens to the run.
func (s *scenario) interrupt(d *direction, interruptions []interruption, elsewhere bool) (left [][]interruption) {
	s.Helper()
	for i, f := range interruptions {
		if s.runUntil(d, f, i > 0) {
			s.resumed++
			continue
		}
		rest := interruptions[i:]
		if i == 0 && f.timed() {
			s.skipped++
			rest = interruptions[1:]
		}
		if len(rest) > 0 {
			left = append(left, rest)
		}
		break
	}
	s.resume(d, elsewhere)
	requireEnd(s.T, d.end, s.plan, d.phase, fmt.Sprint(d.command, interruptions))
	return left
}

// resume runs the command again: on the same host, or on another one that has nothing but a kubeconfig and the ID of the plan. If that plan was
// not begun yet, the cluster does not have it, and the other host gets the file.
func (s *scenario) resume(d *direction, elsewhere bool) {
	s.Helper()
	if !elsewhere {
		s.retried(func() (*host.Command, bool) {
			run := s.Start(append([]string{d.command, s.file()}, fast...)...)
			return run, run.Outcome() == migrate.Done
		})
		return
	}
	other, named := s.Another(""), s.plan.ID
	if state, err := apply.Recorded(s.Context(), shared.Admin, sandbox.ManagerNamespace, s.plan.ID); err != nil || state == nil {
		require.NoError(s, err)
		require.Contains(s, other.Refused(append([]string{d.command, named}, fast...)...), "was never applied")
		named = s.file()
	}
	s.retried(func() (*host.Command, bool) {
		run := other.Start(append([]string{d.command, named}, fast...)...)
		return run, run.Outcome() == migrate.Done
	})
}

// retried runs a command again that lost a lease as short as here, as a machine under load can.
func (s *scenario) retried(try func() (*host.Command, bool)) {
	s.Helper()
	for range 5 {
		run, done := try()
		if done {
			return
		}
		require.Equal(s, migrate.Partly, run.Outcome(), "%s", run)
		require.Contains(s, run.String(), "the lock is lost")
	}
	require.FailNow(s, "the lock is lost each time")
}

// TestARunThatIsKilledIsResumed adopts the fleet and rolls it back, and interrupts both commands each time.
func TestARunThatIsKilledIsResumed(t *testing.T) {
	s := newScenario(t)
	applies, rollbacks := interruptions(s.apply.calls), interruptions(s.rollback.calls)
	for i := 0; i < max(len(applies), len(rollbacks)); i++ { // What is left of a plan is appended.
		t.Logf("plan %d of %d", i+1, max(len(applies), len(rollbacks)))
		s.newPlan()
		applies = append(applies, s.interrupt(&s.apply, at(applies, i), i%2 == 0)...)
		rollbacks = append(rollbacks, s.interrupt(&s.rollback, at(rollbacks, i), i%2 == 1)...)
	}
	t.Logf("%d plans applied and rolled back, disturbed %d times; %d times the call was not made", max(len(applies), len(rollbacks)), s.resumed, s.skipped)
	requireHarmless(t)
}

// at is the i-th element of a list, or nothing behind its end.
func at(interruptions [][]interruption, i int) []interruption {
	if i < len(interruptions) {
		return interruptions[i]
	}
	return nil
}
