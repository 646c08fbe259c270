// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package units_test adopts the clusters of CAPT v0.3 one by one on a real API server, while the manager runs, and rolls them back.
package units_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
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

// timesOutWithoutControllers applies a unit while only the webhooks of the manager run: nothing reports what is applied. The run ends with what to
// do, and another one resumes it.
func (env *environment) timesOutWithoutControllers(t *testing.T) {
	env = env.in(t)
	require.NoError(t, env.StartControllers(t.Context(), legacy.WebhooksOnly))
	p, before := env.plan(nil), env.fleet()
	unit := unitOf(t, p, "reference-empty-generated-name")
	o := env.optionsFor(p)
	o.Units, o.Wait = []string{unit.Name()}, 3*time.Second

	t.Run("it times out", func(t *testing.T) {
		result, err := apply.Apply(t.Context(), p, o)
		require.Error(t, err)
		assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
		message := result.Units[0].Message
		assert.Regexp(t, unit.Members[0].Object.String()+": (status.observedGeneration is 0|Condition AdoptionRequired is True)", message)
		assert.Contains(t, message, "kubectl -n "+journalNamespace)
		assert.NotContains(t, message, "Paused with annotation")
	})
	t.Run("the unit stays in phase Applying, and a new plan has nothing to write", func(t *testing.T) {
		for _, known := range env.status().Units {
			if known.Unit == unit.Name() {
				assert.Equal(t, apply.PhaseApplying, known.Phase)
				assert.Contains(t, known.Message, "within 3s")
				assert.False(t, known.Paused)
			}
		}
	})
	t.Run("with the controllers it is completed", func(t *testing.T) {
		require.NoError(t, env.StartControllers(t.Context()))
		o.Wait = time.Minute
		writes := env.objectWrites()
		result := env.applied(p, o)
		assert.Equal(t, writes, env.objectWrites(), "everything was written")
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 1}, outcomes(result))
		env.requireEqual(before, "Workspace ")
		env.requireAdopted(unit)
	})
}

func (env *environment) keepsPausesOfUsers(t *testing.T) {
	env = env.in(t)
	p, before := env.plan(nil), env.fleet()
	mine, paused := unitOf(t, p, "reference-set"), unitOf(t, p, "cluster-paused")
	plane := memberOf(t, mine, "CAPTControlPlane")
	object := env.live(plane.Object)
	unpaused := object.DeepCopy()
	annotations.AddAnnotations(object, map[string]string{clusterv1.PausedAnnotation: "by-me"})
	require.NoError(t, env.Admin.Patch(t.Context(), object, client.MergeFrom(unpaused)))
	o := env.optionsFor(p)
	o.Units = []string{mine.Name(), paused.Name()}
	result := env.applied(p, o)
	assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 2}, outcomes(result))
	for _, unit := range result.Units {
		assert.Contains(t, unit.Message, "CAPTControlPlane", unit.Unit)
	}
	assert.Equal(t, "by-me", env.live(plane.Object).GetAnnotations()[clusterv1.PausedAnnotation])
	assert.NotContains(t, env.live(*plane.WorkspaceTemplateApply).GetAnnotations(), clusterv1.PausedAnnotation)
	for _, unit := range env.status().Units {
		assert.Equal(t, unit.Unit == mine.Name() || unit.Unit == paused.Name(), unit.Paused, unit.Unit)
	}
	env.requireEqual(before, "Workspace ")
}

// writesNothingThatIsNotAsPlanned changes the template of a unit after the plan was made: that stops the unit before its first write. What the
// plan does not adopt is left out. Three units are adopted already.
func (env *environment) writesNothingThatIsNotAsPlanned(t *testing.T) {
	env = env.in(t)
	p, before := env.plan(nil), env.fleet()
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
		assert.NoFileExists(t, filepath.Join(env.directory, apply.DefaultBackupFile(p.ID)))
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

// live returns an object of a plan.
func (env *environment) live(ref migrate.ObjectRef) *unstructured.Unstructured {
	env.Helper()
	kind, err := ref.GroupVersionKind()
	require.NoError(env, err)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	require.NoError(env, env.Admin.Get(env.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object))
	return object
}

// unitOf returns the unit of the only Cluster of a fixture.
func unitOf(t *testing.T, p *plan.Plan, fixture string) *plan.Unit {
	t.Helper()
	for i := range p.Units {
		if p.Units[i].Object.Namespace == legacy.NamesOf(fixture).Namespace && p.Units[i].Object.Kind == "Cluster" {
			return &p.Units[i]
		}
	}
	t.Fatalf("no unit of %s", fixture)
	return nil
}

// memberOf returns the member of a kind.
func memberOf(t *testing.T, unit *plan.Unit, kind string) plan.Member {
	t.Helper()
	for _, member := range unit.Members {
		if member.Object.Kind == kind {
			return member
		}
	}
	t.Fatalf("%s has no %s", unit.Name(), kind)
	return plan.Member{}
}
