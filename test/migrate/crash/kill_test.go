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
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/crash/proxy"
)

// story is a command, from what etcd holds before it to what it must hold in the end.
type story struct {
	*operator
	plan     *migrate.Plan
	planFile string
	// first is the command that is disturbed, with a lease that runs out soon. The others go on: from the same machine and
	// from another.
	first, again, away func(*story) []string
	command            journal.Command
	// before is where it begins, and after what nobody disturbed came to. calls are what that took.
	before, after moment
	// begin is the same as before, as etcd has it for one run.
	begin moment
	calls         []call
}

// fast lets tests wait for what they test, and for nothing else.
var fast = []string{"--workers", "1", "--qps", "10000", "--burst", "10000", "--quiet", "1ns"}

func (s *story) backupDir() string { return filepath.Join(s.home, "backup") }

func (s *story) apply() []string {
	return append([]string{"apply", s.planFile, "--backup", s.backupDir()}, fast...)
}
func (s *story) resume() []string   { return append([]string{"resume", s.plan.ID}, fast...) }
func (s *story) rollback() []string { return append([]string{"rollback", s.plan.ID}, fast...) }
func (s *story) finalize() []string {
	return append([]string{"finalize", s.planFile, "--yes"}, fast...)
}

// resumeOrApply is what somebody does on another machine: if there is nothing to resume, the plan was never begun.
func (s *story) resumeOrApply() []string {
	if state := s.state(); state == nil {
		r := s.start(s.resume()...)
		require.Equal(s, migrate.Failed, s.outcome(r), "%s", &r.out)
		require.Contains(s, r.out.String(), "was never begun")
		return s.apply()
	}
	return s.resume()
}

func (s *story) state() *journal.State {
	s.Helper()
	state, err := journal.Store{Reader: shared.Admin, Namespace: journalNamespace}.State(s.Context(), s.plan.ID)
	require.NoError(s, err)
	return state
}

// undisturbed lets the command run, and takes down its calls and the end.
func (s *story) undisturbed() {
	s.Helper()
	s.before = shared.now(s.T)
	var r recorder
	s.proxy.Arm(proxy.Target{Matches: r.Matches})
	s.must(s.first(s)...)
	s.proxy.Open()
	s.calls, s.after = r.calls, shared.now(s.T)
	writes := 0
	for _, c := range s.calls {
		if c.writes {
			writes++
		}
	}
	s.Logf("%d calls, %d of them writes", len(s.calls), writes)
	s.requireEnd("undisturbed")
}

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

// requireEnd compares with the undisturbed run.
func (s *story) requireEnd(what string) {
	s.Helper()
	now := shared.now(s.T)
	wanted, objects := s.after.objects(s.T), now.objects(s.T)
	for key, object := range wanted {
		require.Equal(s, object, objects[key], "%s: %s", what, key)
	}
	require.Len(s, objects, len(wanted), what)
	require.Equal(s, shared.legacy.untouched(), now.untouched(), what)
	require.Subset(s, s.after.events(), now.events(), what)
	if s.command == "" {
		return
	}
	state := s.state()
	require.NotNil(s, state, what)
	require.Equal(s, s.command, state.Command, what)
	require.Equal(s, journal.Done, state.Outcome, "%s: %s", what, state.Message)
	require.True(s, state.Steps.Complete() && state.Storage.Complete(), what)
	problems, err := backup.Verify(state.Backup.Dir)
	require.NoError(s, err, what)
	require.Empty(s, problems, what)
}

func TestNothingComesOfKillingCaptctl(t *testing.T) {
	o := newOperator(t)
	planFile := filepath.Join(t.TempDir(), "plan.json")
	plan := o.makePlan(planFile)
	shared.legacy = shared.now(t)
	briefly := func(command func(*story) []string) func(*story) []string {
		return func(s *story) []string { return append(command(s), "--lease-duration", "1s") }
	}
	applied := story{
		operator: o, plan: plan, planFile: planFile, command: journal.Apply,
		first: briefly((*story).apply), again: (*story).apply, away: (*story).resumeOrApply,
	}
	rolledBack, finalized := applied, applied
	rolledBack.command, rolledBack.first, rolledBack.again, rolledBack.away = journal.Rollback, briefly((*story).rollback), (*story).rollback, (*story).rollback
	finalized.command, finalized.first, finalized.again, finalized.away = "", (*story).finalize, (*story).finalize, (*story).finalize
	applied.undisturbed()
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

// makePlan plans for the whole fleet.
func (o *operator) makePlan(file string) *migrate.Plan {
	o.Helper()
	r := o.start("plan", "--out", file)
	require.Equal(o, migrate.Pending, o.outcome(r), "%s", &r.out)
	opened, err := os.Open(file)
	require.NoError(o, err)
	defer func() { _ = opened.Close() }()
	plan, err := migrate.ReadPlan(opened)
	require.NoError(o, err)
	require.Empty(o, plan.Undecided())
	o.Logf("%d grants, %d units, %d stored objects", len(plan.Grants), len(plan.Units), len(plan.Storage))
	require.GreaterOrEqual(o, len(plan.Units), 6, "networks and control planes of three clusters")
	require.NotEmpty(o, plan.Grants)
	require.NotEmpty(o, plan.Storage)
	return plan
}
