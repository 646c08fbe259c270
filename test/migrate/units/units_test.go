// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package units_test adopts the clusters of CAPT v0.3 one by one on a real API server, while the manager runs, and rolls them back.
package units_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

// journalNamespace is where CAPT is installed.
const journalNamespace = "capt-system"

// world is a fleet of CAPT v0.3 under this version's manager.
type world struct {
	*testing.T
	*legacy.World
	captctl client.WithWatch
	options apply.Options
}

func newWorld(t *testing.T, fixtures ...string) *world {
	t.Helper()
	started, err := legacy.Start(t.Context(), sandbox.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(started.Logs(sandbox.Manager, 60))
		}
		require.NoError(t, started.Stop(context.Background()))
	})
	w := &world{T: t, World: started}
	for _, name := range fixtures {
		fixture, found := legacy.Named()[name]
		require.True(t, found, name)
		_, err := w.Create(t.Context(), fixture, legacy.NamesOf(name))
		require.NoError(t, err)
	}
	require.NoError(t, w.Upgrade(t.Context()))
	require.NoError(t, w.StartControllers(t.Context()))
	w.captctl, err = w.Client(sandbox.Captctl)
	require.NoError(t, err)
	w.options = apply.Options{
		Client: w.captctl, Reader: w.captctl, Namespace: journalNamespace, LeaseDuration: time.Second, Wait: time.Minute,
		Backup: func(context.Context, *apply.Backup) (*apply.Backup, error) {
			return &apply.Backup{File: "backup.tar.gz"}, nil
		},
		Check: func(context.Context) error { return nil },
		Gate: func(ctx context.Context, unit *plan.Unit) error {
			snapshot, err := migrate.ReadObjects(ctx, w.captctl, unit.Objects(), time.Now())
			if err != nil {
				return err
			}
			return planner.Recheck(snapshot, nil, unit)
		},
	}
	return w
}

func (w *world) plan() *plan.Plan {
	w.Helper()
	snapshot, err := migrate.Read(w.Context(), w.captctl, "", time.Now())
	require.NoError(w, err)
	p, err := planner.Units(snapshot, planner.Options{Now: time.Now()})
	require.NoError(w, err)
	return p
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
	before, p := w.fleet(), w.plan()
	require.NoError(t, p.Seal())
	require.Greater(t, len(p.Units), 3)
	first := w.options
	first.Units = []string{p.Units[0].Name()}

	t.Run("a dry run keeps nothing", func(t *testing.T) {
		o := w.options
		o.DryRun = true
		result := w.applied(p, o)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: len(p.Units)}, outcomes(result))
		w.requireEqual(before, "")
	})
	t.Run("one Cluster first", func(t *testing.T) {
		result := w.applied(p, first)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 1}, outcomes(result))
		state, err := apply.Recorded(t.Context(), w.captctl, journalNamespace, p.ID)
		require.NoError(t, err)
		assert.Len(t, state.Units, 1)
		assert.Equal(t, apply.PhaseApplied, state.Units[p.Units[0].Name()].Phase)
	})
	t.Run("then the rest", func(t *testing.T) {
		result := w.applied(p, w.options)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 1, apply.Applied: len(p.Units) - 1}, outcomes(result))
		w.requireEqual(before, "Workspace ")
		assert.Empty(t, w.plan().Units)
	})
	t.Run("again writes nothing", func(t *testing.T) {
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: len(p.Units)}, outcomes(w.applied(p, w.options)))
	})
	t.Run("the plan is in the cluster", func(t *testing.T) {
		loaded, err := apply.LoadPlan(t.Context(), w.captctl, journalNamespace, p.ID)
		require.NoError(t, err)
		assert.Equal(t, p.Checksum, loaded.Checksum)
	})
	t.Run("one is rolled back and adopted again", func(t *testing.T) {
		result, err := apply.Rollback(t.Context(), p, first)
		require.NoError(t, err)
		require.Empty(t, result.Units[0].Message)
		assert.Len(t, w.plan().Units, 1)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 1}, outcomes(w.applied(p, first)))
	})
	t.Run("all of it is rolled back after the manager has run", func(t *testing.T) {
		result, err := apply.Rollback(t.Context(), p, w.options)
		require.NoError(t, err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.RolledBack: len(p.Units)}, outcomes(result))
		for _, unit := range result.Units {
			assert.Empty(t, unit.Message, unit.Unit)
		}
		w.requireEqual(before, "Workspace ")
		w.requireReverted(p)
		assert.Len(t, w.plan().Units, len(p.Units))
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

// What changed after the plan was made stops the unit that it belongs to, before the first write of it.
func TestWhatChangedSinceThePlanIsNotWritten(t *testing.T) {
	w := newWorld(t, "reference-set", "reference-empty-arbitrary-name", "hand-made-without-owner-reference")
	p, before := w.plan(), w.fleet()
	require.Len(t, p.Units, 3)
	changed := p.Units[0].Members[0].WorkspaceTemplateApply
	used := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Namespace: changed.Namespace, Name: changed.Name}, used))
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(t, w.Admin.Get(t.Context(), used.TemplateKey(), template))
	template.Spec.Template.Spec.ForProvider.Module += "\n# edited\n"
	require.NoError(t, w.Admin.Update(t.Context(), template))
	result, err := apply.Apply(t.Context(), p, w.options)
	require.Error(t, err)
	assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err))
	assert.Equal(t, map[apply.UnitOutcome]int{apply.Failed: 1, apply.NotStarted: 2}, outcomes(result))
	w.requireEqual(before, "Workspace ")
	w.requireEqual(before, "CAPT")

	o := w.options
	o.MaxFailures = 1
	result, err = apply.Apply(t.Context(), p, o)
	require.Error(t, err)
	assert.Equal(t, map[apply.UnitOutcome]int{apply.Failed: 1, apply.Applied: 2}, outcomes(result))
}
