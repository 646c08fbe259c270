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
)

// TestUnitsAreAdoptedOneByOne adopts the clusters of one fleet, in the order of these subtests.
func TestUnitsAreAdoptedOneByOne(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, "reference-empty-generated-name", "reference-set", "cluster-paused", "reference-empty-arbitrary-name", "hand-made-without-owner-reference", "two-claimants")
	t.Run("without controllers, a run times out and is resumed", env.timesOutWithoutControllers)
	t.Run("pauses of users are kept", env.keepsPausesOfUsers)
	t.Run("what is not as planned is not written", env.writesNothingThatIsNotAsPlanned)
}

// writesNothingThatIsNotAsPlanned changes the template of a unit after the plan was made: that stops the unit before its first write. What the
// plan does not adopt is left out. Three units are adopted already.
func (env *environment) writesNothingThatIsNotAsPlanned(t *testing.T) {
	env = env.in(t)
	p, before := env.plan(), env.fleet()
	options := env.optionsFor(p)
	require.Len(t, adoptable(p), 2)
	left := len(p.Units) - 5
	require.Positive(t, left)
	handMade := unitOf(t, p, "hand-made-without-owner-reference")
	module := env.templateOf(handMade).Spec.Template.Spec.ForProvider.Module
	write := func(t *testing.T, module string) {
		t.Helper()
		template := env.templateOf(handMade)
		before := template.DeepCopy()
		template.Spec.Template.Spec.ForProvider.Module = module
		require.NoError(t, env.Admin.Patch(t.Context(), template, client.MergeFrom(before)))
	}
	unchanged := func(t *testing.T) {
		t.Helper()
		env.requireEqual(before, "Workspace ")
		env.requireEqual(before, "CAPT")
	}

	t.Run("a dry run keeps nothing", func(t *testing.T) {
		o := options
		o.DryRun = true
		result, err := apply.Apply(t.Context(), p, o)
		assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 2, apply.Unchanged: 3, apply.LeftOut: left}, outcomes(result))
		env.requireEqual(before, "")
		assert.NoFileExists(t, filepath.Join(env.directory, backup.DefaultFile(p.ID)))
	})
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
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 1, apply.Failed: 1, apply.NotStarted: 3, apply.LeftOut: left}, outcomes(result), "%v", result.Units)
		unchanged(t)
	})
	t.Run("unless some may fail", func(t *testing.T) {
		o := options
		o.MaxFailures = 1
		result, err := apply.Apply(t.Context(), p, o)
		assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Failed: 1, apply.Applied: 1, apply.Unchanged: 3, apply.LeftOut: left}, outcomes(result), "%v", result.Units)
		env.requireEqual(before, "Workspace ")
	})
	t.Run("what is left out needs a decision when everything else is applied", func(t *testing.T) {
		write(t, module)
		result, err := apply.Apply(t.Context(), p, options)
		assert.Equal(t, migrate.NeedsDecision, migrate.OutcomeOf(err), "%v", err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 1, apply.Unchanged: 4, apply.LeftOut: left}, outcomes(result), "%v", result.Units)
		env.requireEqual(before, "Workspace ")
	})
	t.Run("status shows what the manager would change, and what is undecided", func(t *testing.T) {
		require.NoError(t, env.StartControllers(t.Context(), legacy.WebhooksOnly))
		write(t, module+"\n# edited\n")
		for _, unit := range env.status().Units {
			assert.Equal(t, unit.Unit == handMade.Name(), unit.PendingChange != "", "%v", unit)
			if !unit.Paused {
				assert.Equal(t, unit.State == plan.NeedsDecision || unit.State == plan.Blocked, unit.Message != "", "%v", unit)
			}
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
func (env *environment) templateOf(unit *plan.Unit) *infrav1.WorkspaceTemplate {
	env.Helper()
	ref := memberOf(env.T, unit, "CAPTControlPlane").WorkspaceTemplateApply
	used, template := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplate{}
	require.NoError(env, env.Admin.Get(env.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, used))
	require.NoError(env, env.Admin.Get(env.Context(), used.TemplateKey(), template))
	return template
}
