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
	calls []call
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
	for range tries {
		r := &recorder{}
		s.proxy.Arm(proxy.Target{Matches: r.Matches})
		undisturbed := s.start(s.first(s)...)
		outcome := s.outcome(undisturbed)
		s.proxy.Open()
		s.calls, s.after = r.calls, shared.now(s.T)
		if outcome == migrate.Done {
			break
		}
		require.Contains(s, undisturbed.out.String(), "the lock is lost", "a lease as short as here may run out")
		shared.putBack(s.T, s.before)
	}
	writes := 0
	for _, c := range s.calls {
		if c.writes {
			writes++
		}
	}
	s.Logf("%d calls, %d of them writes", len(s.calls), writes)
	s.requireEnd("undisturbed")
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

// begin is the story of apply. The plan is made once, and carried out once undisturbed; then everything is put back.
func begin(t *testing.T) *story {
	t.Helper()
	if shared.told == nil {
		shared.told = newStory(t)
		shared.told.undisturbed()
	}
	told := *shared.told
	told.operator = newOperator(t)
	shared.putBack(t, shared.legacy)
	return &told
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{operator: newOperator(t), planFile: filepath.Join(shared.dir, "plan.json"), command: journal.Apply}
	s.first, s.again, s.away = briefly((*story).apply), (*story).apply, (*story).resumeOrApply
	s.home = shared.dir // The backup stays there.
	r := s.start("plan", "--out", s.planFile)
	require.Equal(t, migrate.Pending, s.outcome(r), "%s", &r.out)
	shared.legacy = shared.now(t)
	file, err := os.Open(s.planFile)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	s.plan, err = migrate.ReadPlan(file)
	require.NoError(t, err)
	require.Empty(t, s.plan.Undecided())
	require.GreaterOrEqual(t, len(s.plan.Units), 6, "networks and control planes of three clusters")
	require.NotEmpty(t, s.plan.Grants)
	require.NotEmpty(t, s.plan.Storage)
	return s
}

// briefly is a command with a lease that runs out as soon as one can.
func briefly(command func(*story) []string) func(*story) []string {
	return func(s *story) []string { return append(command(s), "--lease-duration", "1s") }
}

// then is the story of another command, which comes after this one.
func (s *story) then(t *testing.T, command journal.Command, first, again func(*story) []string) *story {
	t.Helper()
	next := *s
	next.operator = newOperator(t)
	next.command, next.first, next.again, next.away = command, first, again, again
	shared.putBack(t, s.after)
	next.undisturbed()
	return &next
}
