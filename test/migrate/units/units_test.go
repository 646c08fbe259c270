// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package units_test adopts the clusters of CAPT v0.3 one by one on a real API server, while the manager runs, and rolls them back.
package units_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// journalNamespace is where CAPT is installed.
const journalNamespace = "capt-system"

// world is a fleet of CAPT v0.3 under this version's manager.
type world struct {
	*testing.T
	*legacy.World
	captctl   client.WithWatch
	directory string
}

func newWorld(t *testing.T, fixtures ...string) *world {
	t.Helper()
	named := map[string]legacy.Fixture{}
	for _, name := range fixtures {
		fixture, found := legacy.Named()[name]
		require.True(t, found, name)
		named[name] = fixture
	}
	return worldOf(t, named)
}

func worldOf(t *testing.T, fixtures map[string]legacy.Fixture) *world {
	t.Helper()
	return upgraded(t, sandbox.Options{}, func(w *world) {
		for name, fixture := range fixtures {
			_, err := w.Create(t.Context(), fixture, legacy.NamesOf(name))
			require.NoError(t, err)
		}
	})
}

// upgraded is a world with what was created under CAPT v0.3.
func upgraded(t *testing.T, options sandbox.Options, create func(*world)) *world {
	t.Helper()
	started, err := legacy.Start(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(started.Logs(sandbox.Manager, 60))
		}
		require.NoError(t, started.Stop(context.Background()))
	})
	w := &world{T: t, World: started}
	create(w)
	require.NoError(t, w.Upgrade(t.Context()))
	w.captctl, err = w.Client(sandbox.Captctl)
	require.NoError(t, err)
	return w
}

// optionsFor are the options of a run as captctl migrate sets them, with a backup in a directory of the test.
func (w *world) optionsFor(p *plan.Plan) apply.Options {
	w.Helper()
	file := filepath.Join(w.backups(), backup.DefaultFile(p.ID))
	return apply.Options{
		Client: w.captctl, Reader: w.captctl, Namespace: journalNamespace, LeaseDuration: 10 * time.Second, Wait: time.Minute,
		Backup: backup.Writer(w.captctl, file, p, clock.RealClock{}),
		Check:  func(context.Context) error { return nil },
		Gate:   apply.Gate(w.captctl, p, clock.RealClock{}),
	}
}

func (w *world) backups() string {
	if w.directory == "" {
		w.directory = w.TempDir()
	}
	return w.directory
}

func (w *world) plan() *plan.Plan {
	w.Helper()
	snapshot, err := migrate.Read(w.Context(), w.captctl, "", time.Now())
	require.NoError(w, err)
	p, err := planner.New(snapshot, planner.Options{Now: time.Now()})
	require.NoError(w, err)
	return p
}

// adoptable are the names of the units that a plan adopts.
func adoptable(p *plan.Plan) (names []string) {
	for i := range p.Units {
		if p.Units[i].State == plan.Adoptable {
			names = append(names, p.Units[i].Name())
		}
	}
	return names
}

func (w *world) status() *status.Status {
	w.Helper()
	s, err := status.Read(w.Context(), status.Options{Reader: w.captctl, JournalNamespace: journalNamespace, Clock: clock.RealClock{}})
	require.NoError(w, err)
	return s
}

// spec is what the plan may write of every object, and what it must not change of Workspaces.
func (w *world) fleet() map[string]string {
	w.Helper()
	fleet := map[string]string{}
	take := func(object *unstructured.Unstructured) error {
		content := map[string]any{"spec": object.Object["spec"], "owners": object.GetOwnerReferences(), "uid": object.GetUID(), "annotations": object.GetAnnotations()}
		ref, found, _ := unstructured.NestedMap(object.Object, "status", "workspaceRef")
		if found {
			content["ref"] = ref
		}
		if object.GetKind() == terraform.WorkspaceKind {
			content["metadata"] = object.Object["metadata"]
		}
		text, err := json.Marshal(content)
		fleet[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
		return err
	}
	kinds := []migrate.Kind{{GroupVersionKind: clusterv1.GroupVersion.WithKind("Cluster")}}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, migrate.Kind{GroupVersionKind: scope.GroupVersionKind()})
	}
	for _, kind := range append(kinds, migrate.Kinds()...) {
		require.NoError(w, migrate.Each(w.Context(), w.Admin, kind.GroupVersionKind, "", take))
	}
	return fleet
}

func (w *world) requireEqual(want map[string]string, prefix string) {
	w.Helper()
	live := w.fleet()
	for name, object := range want {
		if strings.HasPrefix(name, prefix) {
			assert.JSONEq(w, object, live[name], name)
		}
	}
	assert.Len(w, live, len(want))
}

// requireReverted fails if a field that the plan wrote is not as it was before.
func (w *world) requireReverted(p *plan.Plan) {
	w.Helper()
	for _, unit := range p.Units {
		for _, step := range unit.Steps {
			kind, err := step.Object.GroupVersionKind()
			require.NoError(w, err)
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(kind)
			require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Namespace: step.Object.Namespace, Name: step.Object.Name}, live))
			for _, field := range step.Fields {
				state, err := field.State(live.Object)
				require.NoError(w, err)
				assert.Equal(w, plan.Pending, state, "%s %s", step.Object, field.Path)
			}
		}
	}
}

// requireAdopted fails if the manager reports an object of a Workspace as not adopted.
func (w *world) requireAdopted(p *plan.Plan) {
	w.Helper()
	for _, unit := range p.Units {
		for _, member := range unit.Members {
			if member.Workspace == nil {
				continue
			}
			used := &infrav1.WorkspaceTemplateApply{}
			require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Namespace: member.WorkspaceTemplateApply.Namespace, Name: member.WorkspaceTemplateApply.Name}, used))
			assert.False(w, meta.IsStatusConditionTrue(used.Status.Conditions, infrav1.AdoptionRequiredCondition), used.Name)
			assert.Equal(w, used.Generation, used.Status.WrittenGeneration, used.Name)
			assert.Equal(w, member.Workspace.UID, used.Status.WorkspaceRef.UID, used.Name)
			assert.NotContains(w, used.Annotations, clusterv1.PausedAnnotation, used.Name)
		}
	}
}

// objectWrites counts the writes of captctl but those of its journal and Lease.
func (w *world) objectWrites() (count int) {
	w.Helper()
	events, err := w.Writes(sandbox.CaptctlUser)
	require.NoError(w, err)
	for _, event := range events {
		if event.ObjectRef.Resource != "configmaps" && event.ObjectRef.Resource != "leases" {
			count++
		}
	}
	return count
}

func outcomes(result *apply.Result) map[apply.UnitOutcome]int {
	counts := map[apply.UnitOutcome]int{}
	for _, unit := range result.Units {
		counts[unit.Outcome]++
	}
	return counts
}

func (w *world) applied(p *plan.Plan, o apply.Options) *apply.Result {
	w.Helper()
	result, err := apply.Apply(w.Context(), p, o)
	require.NoError(w, err)
	return result
}

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
