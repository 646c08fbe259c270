// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

var errBroken = errors.New("the network is down")

// broken is a client whose patches fail after a number of them.
func (w *world) broken(patches int) client.WithWatch {
	fails := func() bool {
		patches--
		return patches < 0
	}
	return interceptor.NewClient(w.captctl, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if fails() {
				return errBroken
			}
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if fails() {
				return errBroken
			}
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	})
}

// live returns an object of a plan.
func (w *world) live(ref migrate.ObjectRef) *unstructured.Unstructured {
	w.Helper()
	kind, err := ref.GroupVersionKind()
	require.NoError(w, err)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object))
	return object
}

// edit changes an object as a user does.
func (w *world) edit(ref migrate.ObjectRef, change func(*unstructured.Unstructured)) {
	w.Helper()
	object := w.live(ref)
	before := object.DeepCopy()
	change(object)
	require.NoError(w, w.Admin.Patch(w.Context(), object, client.MergeFrom(before)))
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

// While only the webhooks of the manager run, nothing reports what is applied: the run ends with what to do, and another one goes on.
func TestApplyWithoutControllersTimesOutAndIsResumed(t *testing.T) {
	w := newWorld(t, "reference-empty-generated-name", "reference-empty-arbitrary-name")
	require.NoError(t, w.StopComponent(t.Context(), sandbox.Manager))
	require.NoError(t, w.StartManager(t.Context(), legacy.WebhooksOnly))
	p, before := w.plan(), w.fleet()
	unit, other := unitOf(t, p, "reference-empty-generated-name"), unitOf(t, p, "reference-empty-arbitrary-name")
	o := w.optionsFor(p)
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
		for _, known := range w.status().Units {
			if known.Unit == unit.Name() {
				assert.Equal(t, apply.PhaseApplying, known.Phase)
				assert.Contains(t, known.Message, "within 3s")
				assert.False(t, known.Paused)
			}
		}
	})
	t.Run("without the backup, as on another host, each failed write is resumed where it ended", func(t *testing.T) {
		rest := o
		rest.Units = []string{other.Name()}
		state, err := apply.Recorded(t.Context(), w.captctl, journalNamespace, p.ID)
		require.NoError(t, err)
		require.NoError(t, os.Remove(state.Backup.File))
		patched := 0
		for patches := 1; ; patches++ {
			require.Less(t, patches, 50)
			rest.Client = w.broken(1)
			result, err := apply.Apply(t.Context(), p, rest)
			require.Error(t, err)
			w.requireEqual(before, "Workspace ")
			message := result.Units[0].Message
			if !strings.Contains(message, errBroken.Error()) { // It waits for the manager.
				break
			}
			patched++
			assert.Contains(t, message, "Paused with annotation")
		}
		assert.Greater(t, patched, 4)
		assert.NoFileExists(t, state.Backup.File)
	})
	t.Run("a rollback does not need the controllers", func(t *testing.T) {
		rest := o
		rest.Units = []string{other.Name()}
		result, err := apply.Rollback(t.Context(), p, rest)
		require.NoError(t, err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.RolledBack: 1}, outcomes(result))
		for _, member := range other.Members {
			assert.NotContains(t, w.live(member.Object).GetAnnotations(), clusterv1.PausedAnnotation)
		}
		assert.Contains(t, adoptable(w.plan()), other.Name())
		result, err = apply.Apply(t.Context(), p, rest)
		require.Error(t, err)
		require.Contains(t, result.Units[0].Message, "within 3s")
	})
	t.Run("with the controllers it is completed", func(t *testing.T) {
		require.NoError(t, w.StartControllers(t.Context()))
		o.Units, o.Wait = []string{unit.Name(), other.Name()}, time.Minute
		writes := w.objectWrites()
		result := w.applied(p, o)
		assert.Equal(t, writes, w.objectWrites(), "everything was written")
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 2}, outcomes(result))
		w.requireEqual(before, "Workspace ")
		w.requireAdopted(p)
	})
}

// What users do between, before and after runs is theirs.
func TestChangesByUsersAreKept(t *testing.T) {
	w := worldOf(t, map[string]legacy.Fixture{
		"reference-set": legacy.Named()["reference-set"], "cluster-paused": legacy.Named()["cluster-paused"],
		"reference-empty-arbitrary-name": legacy.Named()["reference-empty-arbitrary-name"],
		"shared": {Clusters: func(names legacy.Names) []legacy.Cluster {
			return []legacy.Cluster{{Namespace: names.Namespace, Name: "one", Helpers: true}, {Namespace: names.Namespace, Name: "two", Helpers: true}}
		}},
	})
	require.NoError(t, w.StartControllers(t.Context()))
	p, before := w.plan(), w.fleet()
	options := w.optionsFor(p)
	named := func(units ...string) apply.Options {
		o := options
		o.Units = units
		return o
	}
	t.Run("pauses", func(t *testing.T) {
		mine, paused := unitOf(t, p, "reference-set"), unitOf(t, p, "cluster-paused")
		plane := memberOf(t, mine, "CAPTControlPlane")
		w.edit(plane.Object, func(object *unstructured.Unstructured) {
			annotations.AddAnnotations(object, map[string]string{clusterv1.PausedAnnotation: "by-me"})
		})
		result := w.applied(p, named(mine.Name(), paused.Name()))
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Applied: 2}, outcomes(result))
		for _, unit := range result.Units {
			assert.Contains(t, unit.Message, "CAPTControlPlane", unit.Unit)
		}
		assert.Equal(t, "by-me", w.live(plane.Object).GetAnnotations()[clusterv1.PausedAnnotation])
		assert.NotContains(t, w.live(*plane.WorkspaceTemplateApply).GetAnnotations(), clusterv1.PausedAnnotation)
		for _, unit := range w.status().Units {
			assert.Equal(t, unit.Unit == mine.Name() || unit.Unit == paused.Name(), unit.Paused, unit.Unit)
		}
		w.requireEqual(before, "Workspace ")
	})
	t.Run("a field that was changed since stays, and is reported by the rollback", func(t *testing.T) {
		mine := unitOf(t, p, "reference-set")
		plane := memberOf(t, mine, "CAPTControlPlane").Object
		w.edit(plane, func(object *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(object.Object, "api.example.com", "spec", "controlPlaneEndpoint", "host"))
		})
		again := w.applied(p, named(mine.Name()))
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 1}, outcomes(again))
		assert.Contains(t, again.Units[0].Message, "/spec/controlPlaneEndpoint/host")
		result, err := apply.Rollback(t.Context(), p, named(mine.Name()))
		assert.Equal(t, migrate.Partly, migrate.OutcomeOf(err), "%v", err)
		assert.Equal(t, map[apply.UnitOutcome]int{apply.RolledBack: 1}, outcomes(result))
		require.Len(t, result.Units[0].Kept, 1)
		assert.Contains(t, result.Units[0].Kept[0], "/spec/controlPlaneEndpoint/host")
		live := w.live(plane)
		host, _, _ := unstructured.NestedString(live.Object, "spec", "controlPlaneEndpoint", "host")
		assert.Equal(t, "api.example.com", host)
		assert.Equal(t, "by-me", live.GetAnnotations()[clusterv1.PausedAnnotation])
		assert.Contains(t, adoptable(w.plan()), mine.Name())
		w.requireEqual(before, "Workspace ")
	})
	t.Run("of two runs at once each unit is written by one", func(t *testing.T) {
		o := named(unitOf(t, p, "reference-empty-arbitrary-name").Name())
		results, failures := make([]*apply.Result, 2), make([]error, 2)
		var runs sync.WaitGroup
		for i := range results {
			runs.Go(func() { results[i], failures[i] = apply.Apply(t.Context(), p, o) })
		}
		runs.Wait()
		counts := map[apply.UnitOutcome]int{}
		for i := range results {
			if failures[i] != nil {
				assert.ErrorContains(t, failures[i], "another run is in progress")
				continue
			}
			counts[results[i].Units[0].Outcome]++
		}
		assert.Equal(t, 1, counts[apply.Applied], "%v %v", failures, counts)
		w.requireEqual(before, "Workspace ")
	})
	t.Run("a permission stays while another Cluster needs it", func(t *testing.T) {
		var units []string
		for _, name := range adoptable(p) {
			if strings.Contains(name, "shared/") {
				units = append(units, name)
			}
		}
		w.applied(p, named(units...))
		kept := 0
		for i := range units {
			result, err := apply.Rollback(t.Context(), p, named(units[i]))
			require.NoError(t, err)
			if strings.Contains(result.Units[0].Message, "still allows namespace shared") {
				kept++
			}
		}
		assert.Positive(t, kept)
		assert.Less(t, kept, len(units))
		w.requireEqual(before, "WorkspaceTemplate ")
		w.requireEqual(before, "Workspace ")
	})
}
