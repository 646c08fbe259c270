// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/legacy"
)

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

// timesOutWithoutControllers applies a unit while only the webhooks of the manager run: nothing reports what is applied. The run ends with what to
// do, and another one resumes it.
func (w *world) timesOutWithoutControllers(t *testing.T) {
	w = w.in(t)
	require.NoError(t, w.StartControllers(t.Context(), legacy.WebhooksOnly))
	p, before := w.plan(), w.fleet()
	unit := unitOf(t, p, "reference-empty-generated-name")
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
	t.Run("with the controllers it is completed", func(t *testing.T) {
		require.NoError(t, w.StartControllers(t.Context()))
		o.Wait = time.Minute
		writes := w.objectWrites()
		result := w.applied(p, o)
		assert.Equal(t, writes, w.objectWrites(), "everything was written")
		assert.Equal(t, map[apply.UnitOutcome]int{apply.Unchanged: 1}, outcomes(result))
		w.requireEqual(before, "Workspace ")
		w.requireAdopted(unit)
	})
}

func (w *world) keepsPausesOfUsers(t *testing.T) {
	w = w.in(t)
	p, before := w.plan(), w.fleet()
	mine, paused := unitOf(t, p, "reference-set"), unitOf(t, p, "cluster-paused")
	plane := memberOf(t, mine, "CAPTControlPlane")
	object := w.live(plane.Object)
	unpaused := object.DeepCopy()
	annotations.AddAnnotations(object, map[string]string{clusterv1.PausedAnnotation: "by-me"})
	require.NoError(t, w.Admin.Patch(t.Context(), object, client.MergeFrom(unpaused)))
	o := w.optionsFor(p)
	o.Units = []string{mine.Name(), paused.Name()}
	result := w.applied(p, o)
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
}
