// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package units_test adopts the clusters of CAPT v0.3 one by one on a real API server, while the manager runs, and rolls them back.
package units_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// One fleet lives through all of it, step by step.
func TestClustersAreAdoptedOneByOneAndRolledBack(t *testing.T) {
	w := newWorld(t, "reference-set", "reference-empty-arbitrary-name", "hand-made-without-owner-reference", "helpers-present", "templates-in-default")
	require.NoError(t, w.StartControllers(t.Context()))
	before, p := w.fleet(), w.plan()
	all := adoptable(p)
	require.Greater(t, len(all), 3)
	options := w.optionsFor(p)
	first := options
	first.Units = all[:1]

	t.Run("a dry run keeps nothing", func(t *testing.T) {
		o := options
		o.DryRun = true
		result := w.applied(p, o)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: len(all)}, outcomes(result))
		w.requireEqual(before, "")
		assert.NoFileExists(t, filepath.Join(w.directory, backup.DefaultFile(p.ID)))
	})
	t.Run("one Cluster first", func(t *testing.T) {
		result := w.applied(p, first)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 1}, outcomes(result))
		state, err := apply.Recorded(t.Context(), w.captctl, journalNamespace, p.ID)
		require.NoError(t, err)
		assert.Len(t, state.Units, 1)
		assert.Equal(t, apply.PhaseApplied, state.Units[all[0]].Phase)
		about, sum, err := backup.Verify(state.Backup.File)
		require.NoError(t, err)
		assert.Equal(t, state.Backup.Checksum, sum)
		assert.Equal(t, p.Checksum, about.PlanChecksum)
		assert.Positive(t, about.Objects["Workspace.tf.upbound.io"])
	})
	t.Run("then the rest", func(t *testing.T) {
		result := w.applied(p, options)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 1, apply.Applied: len(all) - 1}, outcomes(result))
		w.requireEqual(before, "Workspace ")
		assert.Empty(t, adoptable(w.plan()))
		w.requireAdopted(p)
	})
	t.Run("again writes nothing", func(t *testing.T) {
		requests := w.objectWrites()
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: len(all)}, outcomes(w.applied(p, options)))
		assert.Equal(t, requests, w.objectWrites())
	})
	t.Run("the plan is in the cluster, and status shows it", func(t *testing.T) {
		loaded, err := apply.LoadPlan(t.Context(), w.captctl, journalNamespace, p.ID)
		require.NoError(t, err)
		assert.Equal(t, p.Checksum, loaded.Checksum)
		s := w.status()
		require.Len(t, s.Plans, 1)
		assert.Equal(t, map[apply.Phase]int{apply.PhaseApplied: len(all)}, s.Plans[0].Units)
		assert.Len(t, s.Definitions, len(migrate.Kinds()))
		for _, unit := range s.Units {
			assert.Empty(t, unit.PendingChange, unit.Unit)
			assert.False(t, unit.Paused, unit.Unit)
		}
	})
	t.Run("one is rolled back and adopted again", func(t *testing.T) {
		result, err := apply.Rollback(t.Context(), p, first)
		require.NoError(t, err)
		require.Empty(t, result.Units[0].Message)
		assert.Equal(t, all[:1], adoptable(w.plan()))
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 1}, outcomes(w.applied(p, first)))
	})
	t.Run("all of it is rolled back after the manager has run", func(t *testing.T) {
		result, err := apply.Rollback(t.Context(), p, options)
		require.NoError(t, err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.RolledBack: len(all)}, outcomes(result))
		for _, unit := range result.Units {
			assert.Empty(t, unit.Message, unit.Unit)
		}
		w.requireEqual(before, "Workspace ")
		w.requireReverted(p)
		assert.Equal(t, all, adoptable(w.plan()))
	})
	t.Run("what was rolled back is not adopted again unless it is named", func(t *testing.T) {
		requests := w.objectWrites()
		result := w.applied(p, options)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.LeftOut: len(all)}, outcomes(result))
		assert.Contains(t, result.Units[0].Message, "name it with --cluster")
		assert.Equal(t, requests, w.objectWrites())
	})
	t.Run("captctl writes no Workspace and deletes nothing", func(t *testing.T) {
		events, err := w.Writes(sandbox.CaptctlUser)
		require.NoError(t, err)
		require.NotEmpty(t, events)
		for _, event := range events {
			assert.NotContains(t, []string{"workspaces", "secrets", "providerconfigs", "clusters"}, event.ObjectRef.Resource)
			assert.NotContains(t, []string{"delete", "deletecollection"}, event.Verb)
		}
	})
}

// What changed after the plan was made stops the unit that it belongs to, before the first write of it. What the plan does not adopt is left out.
func TestWhatIsNotAsPlannedIsNotWritten(t *testing.T) {
	w := newWorld(t, "reference-set", "reference-empty-arbitrary-name", "hand-made-without-owner-reference", "two-claimants")
	require.NoError(t, w.StartControllers(t.Context()))
	p, before := w.plan(), w.fleet()
	options := w.optionsFor(p)
	require.Len(t, adoptable(p), 3)
	left := len(p.Units) - 3
	require.Positive(t, left)
	handMade := unitOf(t, p, "hand-made-without-owner-reference")
	module := w.templateOf(handMade).Spec.Template.Spec.ForProvider.Module
	write := func(t *testing.T, module string) {
		t.Helper()
		template := w.templateOf(handMade)
		before := template.DeepCopy()
		template.Spec.Template.Spec.ForProvider.Module = module
		require.NoError(t, w.Admin.Patch(t.Context(), template, client.MergeFrom(before)))
	}
	unchanged := func(t *testing.T) {
		t.Helper()
		w.requireEqual(before, "Workspace ")
		w.requireEqual(before, "CAPT")
	}

	t.Run("to name a unit that is not adopted is an error", func(t *testing.T) {
		undecided := options
		undecided.Units = append(adoptable(p)[:1:1], nameOf(p, plan.NeedsDecision))
		_, err := apply.Apply(t.Context(), p, undecided)
		assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)
		require.ErrorContains(t, err, undecided.Units[1]+" is NeedsDecision: ")
		unchanged(t)
	})
	t.Run("the first failure stops the run", func(t *testing.T) {
		write(t, module+"\n# edited\n")
		result, err := apply.Apply(t.Context(), p, options)
		require.Error(t, err)
		assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err), "nothing was written")
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Failed: 1, apply.NotStarted: 2, apply.LeftOut: left}, outcomes(result), "%v", result.Units)
		unchanged(t)
	})
	t.Run("unless some may fail", func(t *testing.T) {
		o := options
		o.MaxFailures = 1
		result, err := apply.Apply(t.Context(), p, o)
		assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Failed: 1, apply.Applied: 2, apply.LeftOut: left}, outcomes(result), "%v", result.Units)
		w.requireEqual(before, "Workspace ")
	})
	t.Run("what is left out needs a decision when everything else is applied", func(t *testing.T) {
		write(t, module)
		result, err := apply.Apply(t.Context(), p, options)
		assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 1, apply.Unchanged: 2, apply.LeftOut: left}, outcomes(result), "%v", result.Units)
		w.requireEqual(before, "Workspace ")
	})
	t.Run("status shows what the manager would change, and what is undecided", func(t *testing.T) {
		require.NoError(t, w.StopComponent(t.Context(), sandbox.Manager))
		require.NoError(t, w.StartManager(t.Context(), legacy.WebhooksOnly))
		write(t, module+"\n# edited\n")
		for _, unit := range w.status().Units {
			assert.Equal(t, unit.Unit == handMade.Name(), unit.PendingChange != "", "%v", unit)
			assert.Equal(t, unit.State == plan.NeedsDecision || unit.State == plan.Blocked, unit.Message != "", "%v", unit)
		}
	})
}

func nameOf(p *plan.Plan, state plan.UnitState) string {
	for i := range p.Units {
		if p.Units[i].State == state {
			return p.Units[i].Name()
		}
	}
	return "no unit is " + string(state)
}

// templateOf returns the template of the control plane of a unit.
func (w *world) templateOf(unit *plan.Unit) *infrav1.WorkspaceTemplate {
	w.Helper()
	ref := memberOf(w.T, unit, "CAPTControlPlane").WorkspaceTemplateApply
	used, template := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
	require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, used))
	require.NoError(w, w.Admin.Get(w.Context(), used.TemplateKey(), template))
	return template
}
