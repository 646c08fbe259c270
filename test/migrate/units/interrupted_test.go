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

// timesOutWithoutControllers applies a unit while only the webhooks of the manager run: nothing reports what is applied. The run ends with what to
// do, and another one resumes it.
func (env *environment) timesOutWithoutControllers(t *testing.T) {
	env = env.in(t)
	require.NoError(t, env.StartControllers(t.Context(), legacy.WebhooksOnly))
	p, before := env.plan(), env.fleet()
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
	p, before := env.plan(), env.fleet()
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
