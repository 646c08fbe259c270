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
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/journal"
	"github.com/capt-provider/capt/test/sandbox"
)

// One fleet lives through all of it, one after the other.
func TestAFleetIsAdoptedAndTakenBack(t *testing.T) {
	w := newWorld(t, "reference-set", "reference-empty-arbitrary-name", "hand-made-without-owner-reference", "helpers-present",
		"control-plane-name-differs", "templates-in-default")
	before, plan := w.fleet(), w.plan(migrate.ScopeAll)
	require.NotEmpty(t, plan.Grants)
	require.NotEmpty(t, plan.Units)
	require.NotEmpty(t, plan.Storage)

	t.Run("a dry run keeps nothing", func(t *testing.T) {
		options := w.options
		options.DryRun, options.BackupDir = true, ""
		result, err := execute.Apply(t.Context(), plan, options)
		require.NoError(t, err)
		assert.Equal(t, result.Steps.Total, result.Steps.Written)
		events, err := w.Writes(sandbox.CaptctlUser)
		require.NoError(t, err)
		require.NotEmpty(t, events)
		for _, event := range events {
			assert.Contains(t, event.RequestURI, "dryRun=All")
		}
		assert.Equal(t, before, w.fleet())
	})
	rehearsed := len(w.written())

	t.Run("of two runs at once one writes", func(t *testing.T) {
		results := make([]*execute.Result, 2)
		errs := make([]error, 2)
		var group sync.WaitGroup
		for i := range results {
			options := w.options
			options.JournalDir, options.BackupDir = t.TempDir(), filepath.Join(t.TempDir(), "backup")
			group.Go(func() { results[i], errs[i] = execute.Apply(t.Context(), plan, options) })
		}
		group.Wait()
		written := 0
		for i, err := range errs {
			if err != nil {
				assert.Equal(t, migrate.Locked, migrate.OutcomeOf(err), "%v", err)
				continue
			}
			assert.Equal(t, journal.Done, results[i].Outcome)
			written += results[i].Steps.Written
		}
		assert.Equal(t, len(plan.Grants)+steps(plan), written)
	})

	t.Run("nothing is created or deleted, and no Workspace written", func(t *testing.T) {
		for _, write := range w.written()[rehearsed:] {
			verb, resource, _ := strings.Cut(write, " ")
			switch verb {
			case "create":
				assert.Contains(t, []string{"leases", "configmaps", "events"}, resource)
			default:
				assert.Contains(t, []string{"update", "patch"}, verb)
				assert.NotContains(t, []string{"workspaces", "secrets", "providerconfigs"}, resource)
			}
		}
		after := w.fleet()
		for name, object := range before {
			if strings.HasPrefix(name, "Workspace ") {
				assert.Equal(t, object, after[name])
			}
		}
		assert.Len(t, after, len(before))
	})

	t.Run("there is nothing more to adopt", func(t *testing.T) {
		next := w.plan(migrate.ScopeAll)
		assert.Empty(t, next.Grants)
		assert.Empty(t, next.Units)
		before := len(w.written())
		_, err := execute.Apply(t.Context(), plan, w.options)
		require.NoError(t, err)
		assert.Len(t, w.written(), before)
	})

	t.Run("all of it is taken back", func(t *testing.T) {
		result, err := execute.Rollback(t.Context(), plan.ID, "", w.options)
		require.NoError(t, err)
		assert.Equal(t, result.Steps.Total, result.Steps.Written)
		after := w.fleet()
		for name, object := range before {
			assert.JSONEq(t, object, after[name], name)
		}
		assert.Len(t, after, len(before))
		count := len(w.written())
		_, err = execute.Rollback(t.Context(), plan.ID, "", w.options)
		require.NoError(t, err)
		assert.Len(t, w.written(), count)
	})

	t.Run("and done once more", func(t *testing.T) {
		result, err := execute.Apply(t.Context(), plan, w.options)
		require.NoError(t, err)
		assert.Equal(t, result.Steps.Total, result.Steps.Written)
		assert.False(t, slices.ContainsFunc(w.written(), func(write string) bool { return strings.HasPrefix(write, "delete") }))
	})
}

func steps(plan *migrate.Plan) (count int) {
	for _, unit := range plan.Units {
		count += len(unit.Steps)
	}
	return count
}
