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

package execute_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/builder"
)

func lease() *coordinationv1.Lease { return &coordinationv1.Lease{} }

func TestAPlanIsCarriedOutInOrder(t *testing.T) {
	w := newWorld(t)
	result, err := w.apply()
	require.NoError(t, err)
	assert.Equal(t, journal.Done, result.Outcome)
	assert.Equal(t, journal.Counts{Total: 7, Written: 7}, result.Steps)
	assert.Equal(t, journal.Counts{Total: 6, Written: 6}, result.Storage)

	var patches []string
	for _, write := range w.told() {
		if strings.HasPrefix(write, "patch") {
			patches = append(patches, strings.TrimPrefix(write, "patch "))
		}
	}
	assert.Equal(t, []string{
		"WorkspaceTemplate eks",
		"WorkspaceTemplateApply a-apply", "CAPTControlPlane a",
		"WorkspaceTemplateApply b-apply", "CAPTControlPlane b",
		"WorkspaceTemplateApply c-apply", "CAPTControlPlane c",
	}, patches, "what is referred to comes before what refers to it")
	var events corev1.EventList
	require.NoError(t, w.base.List(t.Context(), &events))
	require.Len(t, events.Items, 3)
	assert.Equal(t, "Adopted", events.Items[0].Reason)

	problems, err := backup.Verify(w.options.BackupDir)
	require.NoError(t, err)
	assert.Empty(t, problems)
	states, err := execute.Status(t.Context(), w.base, journalNamespace, "")
	require.NoError(t, err)
	require.Len(t, states, 1)
	assert.Equal(t, journal.Done, states[0].Outcome)
	assert.Equal(t, result.Steps, states[0].Steps)
	assert.Equal(t, result.Backup, states[0].Backup)
}

func TestAPlanThatWasCarriedOutIsNotWrittenAgain(t *testing.T) {
	w := newWorld(t)
	_, err := w.apply()
	require.NoError(t, err)
	w.told()
	w.upgrade("a") // Life goes on.

	result, err := w.apply()
	require.NoError(t, err)
	assert.Equal(t, journal.Counts{Total: 7, Already: 7}, result.Steps)
	assert.Empty(t, w.told(), "not even the lock")
	w.plan.Expires = metav1.NewTime(time.Now().Add(-time.Hour))
	_, err = execute.Resume(t.Context(), w.plan.ID, w.options)
	require.NoError(t, err)
	assert.Empty(t, w.told())
}

func TestNothingIsWrittenWhen(t *testing.T) {
	for name, row := range map[string]struct {
		given   func(*world)
		outcome migrate.Outcome
		says    []string
	}{
		"a spec changed": {func(w *world) { w.upgrade("b") }, migrate.Stale, []string{"CAPTControlPlane default/b", "spec or its owners changed"}},
		"objects are gone": {func(w *world) {
			require.NoError(w, w.base.Delete(w.Context(), builder.CAPTControlPlane("b")))
			require.NoError(w, w.base.Delete(w.Context(), builder.WorkspaceTemplateApply("c-apply")))
		}, migrate.Stale, []string{"CAPTControlPlane default/b: it is gone", "WorkspaceTemplateApply default/c-apply: it is gone"}},
		"an object was made anew": {func(w *world) {
			require.NoError(w, w.base.Delete(w.Context(), builder.CAPTControlPlane("b")))
			require.NoError(w, w.base.Create(w.Context(), builder.CAPTControlPlane("b", builder.WithUID("new"))))
		}, migrate.Stale, []string{"CAPTControlPlane default/b", "made anew: its UID is new"}},
		"a template changed that is not written": {func(w *world) {
			w.rest(migrate.Premise{ObjectRef: w.plan.Grants[0].Object, Hash: "as it was"})
		}, migrate.Stale, []string{"WorkspaceTemplate platform/eks: it is not written", "spec"}},
		"a template is gone that is not written": {func(w *world) {
			gone := w.plan.Grants[0].Object
			gone.Name = "gone"
			w.rest(migrate.Premise{ObjectRef: gone, Hash: "as it was"})
		}, migrate.Stale, []string{"WorkspaceTemplate platform/gone: it is gone"}},
		"a Workspace changed": {func(w *world) { w.stand("as-before", 1, 1); w.stand("changed", 1, 2) },
			migrate.Stale, []string{"Workspace changed: its spec changed: its generation is 2 and was 1"}},
		"the plan has expired": {func(w *world) {
			w.plan.Expires = metav1.NewTime(time.Now().Add(-time.Minute))
			require.NoError(w, w.plan.Seal())
		}, migrate.Stale, []string{"has expired"}},
		"the plan is another cluster's": {func(w *world) { w.plan.ClusterUID = "there" }, migrate.Failed, []string{"another cluster", "there", "here"}},
		"a decision is missing": {func(w *world) {
			w.plan.Findings = []migrate.Finding{{Severity: migrate.Ambiguous, Object: w.plan.Units[1].Owner, Message: "whose is it?"}}
		}, migrate.NeedsDecision, []string{"CAPTControlPlane default/b", "whose is it?"}},
		"nobody knows the canary": {func(w *world) { w.options.Canary = "default/other" }, migrate.Failed, []string{"default/other"}},
		"no backup is asked for":  {func(w *world) { w.options.BackupDir = "" }, migrate.Failed, []string{"backup"}},
		"preflight finds something": {func(w *world) {
			w.options.Preflight = func(context.Context) error { return migrate.NotPermitted.Errorf("may not patch") }
		}, migrate.NotPermitted, []string{"may not patch"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			row.given(w)
			_, err := w.apply()
			require.Error(t, err)
			assert.Equal(t, row.outcome, migrate.OutcomeOf(err), "%v", err)
			for _, part := range row.says {
				assert.ErrorContains(t, err, part)
			}
			assert.Empty(t, w.told())
			assert.NoDirExists(t, filepath.Dir(w.options.BackupDir)+"/backup")
			entries, err := os.ReadDir(w.options.JournalDir)
			require.NoError(t, err)
			assert.Empty(t, entries)
		})
	}
}

func TestADryRunKeepsNothing(t *testing.T) {
	w := newWorld(t)
	before := w.fleet()
	w.options.DryRun, w.options.BackupDir = true, ""
	result, err := w.apply()
	require.NoError(t, err)
	assert.Equal(t, 7, result.Steps.Written)
	for _, write := range w.told() {
		assert.Contains(t, write, "(dry run)")
	}
	assert.Equal(t, before, w.fleet())
	states, err := execute.Status(t.Context(), w.base, journalNamespace, "")
	require.NoError(t, err)
	assert.Empty(t, states)
}

func TestStatusChurnIsNoChange(t *testing.T) {
	w := newWorld(t)
	churned := false
	w.before = func(write string) error {
		if churned || write != "patch CAPTControlPlane b" {
			return nil
		}
		churned = true
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}},"status":{"version":"v1.31.0"}}`))
		return w.base.Patch(t.Context(), builder.CAPTControlPlane("b"), patch)
	}
	result, err := w.apply()
	require.NoError(t, err)
	assert.True(t, churned)
	assert.Equal(t, 7, result.Steps.Written)
}

func TestAnAnswerThatWasLostIsNoFailure(t *testing.T) {
	w := newWorld(t)
	count := 0
	w.after = func(string) error {
		count++
		if count%3 == 0 {
			return lost()
		}
		return nil
	}
	result, err := w.apply()
	require.NoError(t, err)
	assert.Equal(t, 7, result.Steps.Written)
	assert.Equal(t, journal.Done, result.Outcome)
}

func TestAnObjectThatChangesMeanwhileIsLeftAlone(t *testing.T) {
	for maxFailures, row := range map[int]struct{ written, left int }{0: {4, 2}, 1: {6, 0}} {
		w := newWorld(t)
		w.options.MaxFailures = maxFailures
		w.before = func(write string) error {
			if write == "patch WorkspaceTemplateApply b-apply" {
				w.upgrade("b")
			}
			return nil
		}
		result, err := w.apply()
		assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)
		require.Len(t, result.Failures, 1)
		assert.Equal(t, "CAPTControlPlane default/b", result.Failures[0].Object.String())
		assert.Contains(t, result.Failures[0].Error, "left as it is")
		assert.Equal(t, row.written, result.Steps.Written)
		assert.Equal(t, row.left, result.Steps.Left())
	}
}

func TestTheCanaryGoesFirstAndAlone(t *testing.T) {
	w := newWorld(t)
	w.options.Canary, w.options.Workers = "default/b", 4
	var seen []string
	w.options.Verify = func(_ context.Context, part *migrate.Plan) error {
		seen = w.told()
		for _, unit := range part.Units {
			assert.Equal(t, "default/b", unit.Owner.Namespace+"/"+unit.Owner.Name, "of the others nothing is expected yet")
		}
		assert.NotEmpty(t, part.Units)
		assert.Empty(t, part.Storage)
		return errors.New("its Workspace was written")
	}
	result, err := w.apply()
	assert.Equal(t, migrate.NotVerified, migrate.OutcomeOf(err))
	require.ErrorContains(t, err, "its Workspace was written")
	assert.Equal(t, 3, result.Steps.Written, "the grant and the canary")
	assert.Contains(t, seen, "patch CAPTControlPlane b")
	assert.NotContains(t, seen, "patch CAPTControlPlane a")

	w.options.Verify = func(context.Context, *migrate.Plan) error { return nil }
	result, err = execute.Resume(t.Context(), w.plan.ID, w.options)
	require.NoError(t, err)
	assert.Equal(t, journal.Counts{Total: 7, Written: 4, Already: 3}, result.Steps)
}

// A run that is killed learns nothing any more, whatever it asks. The next one is on another host, and has nothing but the
// cluster.
func TestWhereverARunIsKilledAnotherOneEndsTheSame(t *testing.T) {
	whole := newWorld(t)
	_, err := whole.apply()
	require.NoError(t, err)
	writes, wanted := len(whole.told()), whole.fleet()
	require.Greater(t, writes, 10)
	for n := range writes {
		for _, moment := range []string{"before", "after"} {
			w := newWorld(t)
			count, dead := 0, false
			kill := func(now bool) error {
				if dead = dead || now; dead {
					return errKilled
				}
				return nil
			}
			w.before = func(string) error { count++; return kill(moment == "before" && count == n+1) }
			w.after = func(string) error { return kill(moment == "after" && count == n+1) }
			_, _ = w.apply()
			require.True(t, dead)
			w.before, w.after = nil, nil
			w.expire()
			w.options.JournalDir = t.TempDir()

			result, err := execute.Resume(t.Context(), w.plan.ID, w.options)
			if err != nil && strings.Contains(err.Error(), "never begun") {
				result, err = w.apply()
			}
			require.NoError(t, err, "killed %s write %d", moment, n+1)
			assert.Equal(t, journal.Done, result.Outcome)
			assert.Equal(t, wanted, w.fleet(), "killed %s write %d", moment, n+1)
			w.told()
			_, err = w.apply()
			require.NoError(t, err)
			assert.Empty(t, w.told())
		}
	}
}

func TestARunThatIsInterruptedCanBeResumed(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	w.after = func(write string) error {
		if write == "patch CAPTControlPlane a" {
			interrupt()
		}
		return nil
	}
	result, err := execute.Apply(ctx, w.plan, w.options)
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
	require.ErrorContains(t, err, "interrupted")
	assert.Empty(t, result.Failures)
	states, err := execute.Status(t.Context(), w.base, journalNamespace, w.plan.ID)
	require.NoError(t, err)
	assert.Equal(t, journal.Partly, states[0].Outcome)

	w.options.BackupDir = "" // It was made, somewhere else.
	result, err = execute.Resume(t.Context(), w.plan.ID, w.options)
	require.NoError(t, err)
	assert.Equal(t, journal.Done, result.Outcome)
	assert.NotNil(t, result.Backup)
}

func TestTheJournalOfAHostHasEachIntentBeforeTheWrite(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.options.JournalDir, w.plan.ID+".jsonl")
	w.before = func(write string) error {
		if _, object, found := strings.Cut(write, "patch CAPTControlPlane "); found {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			assert.Contains(t, lines[len(lines)-1], `"StepIntended"`)
			assert.Contains(t, lines[len(lines)-1], `"name":"`+object+`"`)
		}
		return nil
	}
	_, err := w.apply()
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	assert.Contains(t, lines[0], `"RunBegins"`)
	assert.Contains(t, lines[len(lines)-1], `"RunEnds"`)
	assert.False(t, slices.Contains(w.told(), "delete"))
}
