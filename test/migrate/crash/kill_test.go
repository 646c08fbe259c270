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

// direction is a command that changes the fleet, and what it ends with if nothing disturbs it.
type direction struct {
	command string
	phase   apply.Phase
	calls   []call
	end     map[string]string
}

// story disturbs captctl on one host, and resumes there or on another one.
type story struct {
	*proxied
	plan             *plan.Plan
	apply, rollback  direction
	resumed, skipped int
}

// undisturbed is a story that was recorded.
var undisturbed *story

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{proxied: newProxied(t)}
	if undisturbed == nil {
		s.apply = direction{command: "apply", phase: apply.PhaseApplied}
		s.rollback = direction{command: "rollback", phase: apply.PhaseRolledBack}
		for range 2 { // The first one is not like the others: what the manager adds once stays.
			s.newPlan()
			s.record(&s.apply)
			s.record(&s.rollback)
		}
		require.Len(t, s.plan.Units, 2)
		undisturbed = s
	}
	s.apply, s.rollback = undisturbed.apply, undisturbed.rollback
	for _, d := range []direction{s.apply, s.rollback} {
		require.NotEmpty(t, d.calls)
		t.Logf("%s: %d calls, %d of them writes", d.command, len(d.calls), countWrites(d.calls))
	}
	return s
}

func (s *story) newPlan() {
	s.Helper()
	s.Dir = s.TempDir()
	s.plan = s.Plan()
}

func (s *story) file() string { return filepath.Join(s.Dir, "plan.json") }

// record runs a command undisturbed, and keeps its calls and its end.
func (s *story) record(d *direction) {
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
	requireEnd(s.T, d.end, s.plan, d.phase, "undisturbed "+d.command)
}

// meets runs a command until its fate, and reports whether that came. A run that resumes another one may not make the call, and one that lost its
// lease, which is as short as a busy machine allows, ends before it.
func (s *story) meets(d *direction, f fate, resumes bool) bool {
	s.Helper()
	what := d.command + " " + f.String()
	fated := s.proxy.Arm(proxy.Target{Number: f.number, Moment: f.Moment, Matches: func(r *http.Request) bool { return keyOf(r) == f.key }})
	run := s.begin(append([]string{d.command, s.file()}, fast...)...)
	outcome := run.Outcome()
	s.proxy.Open()
	met := outcome == host.Killed
	select {
	case <-fated:
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

// disturb lets runs of a command meet their fates, one after the other, resumes the last one, and compares the end with that of the undisturbed
// run. A run that does not meet its fate ends the command. The fates that are left then are returned, for another plan, but the first one of a plan
// if its call depends on time. Without fates, nothing happens to the run.
func (s *story) disturb(d *direction, fates []fate, elsewhere bool) (left [][]fate) {
	s.Helper()
	for i, f := range fates {
		if s.meets(d, f, i > 0) {
			s.resumed++
			continue
		}
		rest := fates[i:]
		if i == 0 && f.timed() {
			s.skipped++
			rest = fates[1:]
		}
		if len(rest) > 0 {
			left = append(left, rest)
		}
		break
	}
	s.resume(d, elsewhere)
	requireEnd(s.T, d.end, s.plan, d.phase, fmt.Sprint(d.command, fates))
	return left
}

// resume runs the command again: on the same host, or on another one that has nothing but a kubeconfig and the ID of the plan. If that plan was
// not begun yet, the cluster does not have it, and the other host gets the file.
func (s *story) resume(d *direction, elsewhere bool) {
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
func (s *story) retried(try func() (*host.Command, bool)) {
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

// TestARunThatIsKilledIsResumed adopts the fleet and rolls it back, and disturbs both commands each time.
func TestARunThatIsKilledIsResumed(t *testing.T) {
	s := newStory(t)
	applies, rollbacks := fates(s.apply.calls), fates(s.rollback.calls)
	for i := 0; i < max(len(applies), len(rollbacks)); i++ {
		s.newPlan()
		applies = append(applies, s.disturb(&s.apply, at(applies, i), i%2 == 0)...)
		rollbacks = append(rollbacks, s.disturb(&s.rollback, at(rollbacks, i), i%2 == 1)...)
	}
	t.Logf("%d plans applied and rolled back, disturbed %d times; %d times the call was not made", max(len(applies), len(rollbacks)), s.resumed, s.skipped)
	requireHarmless(t)
}

// at is the i-th element of a list, or nothing behind its end.
func at(fates [][]fate, i int) []fate {
	if i < len(fates) {
		return fates[i]
	}
	return nil
}
