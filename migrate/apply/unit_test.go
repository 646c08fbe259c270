// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/test/builder"
)

func condition(name, status string) any {
	return map[string]any{"type": name, "status": status, "reason": "Because", "message": "of this", "lastTransitionTime": "2026-01-01T00:00:00Z"}
}

func TestTheManagerHasReportedAnObject(t *testing.T) {
	type status map[string]any
	current := func(conditions ...any) status {
		return status{"observedGeneration": int64(3), "writtenGeneration": int64(3), "conditions": conditions}
	}
	for name, tc := range map[string]struct {
		kind       string
		status     status
		rolledBack bool
		want       string
	}{
		"all of it":                     {applyKind, current(condition(infrav1.AdoptionRequiredCondition, "False"), condition(clusterv1.PausedCondition, "False")), false, ""},
		"of an earlier generation":      {"CAPTCluster", status{"observedGeneration": int64(2)}, false, "status.observedGeneration is 2, metadata.generation is 3"},
		"never":                         {"CAPTCluster", status{}, false, "status.observedGeneration is 0"},
		"still as paused":               {"CAPTCluster", current(condition(clusterv1.PausedCondition, "True")), false, "Condition Paused is True (Because): of this"},
		"still as not adopted":          {applyKind, current(condition(infrav1.AdoptionRequiredCondition, "True")), false, "Condition AdoptionRequired is True (Because): of this"},
		"without its Workspace":         {applyKind, status{"observedGeneration": int64(3), "writtenGeneration": int64(2), "conditions": []any{condition(infrav1.ReadyCondition, "False")}}, false, "Condition Ready is False (Because): of this"},
		"without a Workspace, an owner": {"CAPTControlPlane", status{"observedGeneration": int64(3)}, false, ""},
		"rolled back":                   {applyKind, status{"conditions": []any{condition(infrav1.AdoptionRequiredCondition, "True")}}, true, ""},
		"rolled back, not yet":          {applyKind, status{"observedGeneration": int64(2), "writtenGeneration": int64(2)}, true, "status.observedGeneration is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{"kind": tc.kind, "status": map[string]any(tc.status)}}
			object.SetGeneration(3)
			awaited := map[bool]Phase{false: PhaseApplied, true: PhaseRolledBack}[tc.rolledBack]
			why, err := whyUnreported(object, awaited)
			require.NoError(t, err)
			if tc.want == "" {
				assert.Empty(t, why)
			}
			assert.Contains(t, why, tc.want)
		})
	}
	why, err := whyUnreported(nil, PhaseApplied)
	require.NoError(t, err)
	assert.NotEmpty(t, why, "an object that was deleted is not adopted")
}

func TestAPlanIsNotRolledBackUnderALaterOne(t *testing.T) {
	at := func(minute int) metav1.MicroTime { return metav1.NewMicroTime(time.Unix(int64(60*minute), 0)) }
	for name, tc := range map[string]struct {
		other UnitRecord
		want  string
	}{
		"written later":     {UnitRecord{Phase: PhaseApplied, Begun: at(2)}, "other"},
		"begun later":       {UnitRecord{Phase: PhaseApplying, Begun: at(2)}, "other"},
		"written before":    {UnitRecord{Phase: PhaseApplied, Begun: at(0)}, ""},
		"rolled back later": {UnitRecord{Phase: PhaseRolledBack, Begun: at(2)}, ""},
		"of another unit":   {UnitRecord{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{otherPlans: []Journal{{PlanID: "other", Units: map[string]UnitRecord{"team-a/demo": tc.other}}}}
			assert.Equal(t, tc.want, r.laterPlan("team-a/demo", UnitRecord{Phase: PhaseApplied, Begun: at(1)}))
		})
	}
}

// What was as planned before the first write is not the plan's, and the endpoint only if it was asked for.
func TestARollbackRevertsOnlyWhatThePlanWrote(t *testing.T) {
	object := migrate.ObjectRef{Kind: "CAPTControlPlane", Namespace: "team-a", Name: "demo"}
	unit := &plan.Unit{
		Steps:    []plan.Step{{Object: object, Fields: []plan.Field{{Path: "/spec/one"}, {Path: "/spec/two"}}}},
		Endpoint: &plan.Step{Object: migrate.ObjectRef{Kind: clusterKind}},
	}
	steps := writtenSteps(unit, UnitRecord{Found: []string{foundField(&unit.Steps[0], &unit.Steps[0].Fields[0])}})
	require.Len(t, steps, 1)
	assert.Equal(t, []plan.Field{{Path: "/spec/two"}}, steps[0].Fields)
	assert.Len(t, unit.Steps[0].Fields, 2)
	assert.Len(t, writtenSteps(unit, UnitRecord{Endpoint: true}), 2)
}

func TestAPlanOfAnotherManagementClusterIsRejected(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "this"}}).Build()
	p := &plan.Plan{ClusterUID: "another"}
	require.NoError(t, p.Seal())
	none := func(context.Context) error { t.Error("it must not come so far"); return nil }
	options := Options{
		Client: c, Namespace: "capt-system", Check: none,
		Backup: func(ctx context.Context, _ *Backup) (*Backup, error) { return nil, none(ctx) },
		Gate:   func(ctx context.Context, _ *plan.Unit) error { return none(ctx) },
	}
	_, err := Apply(t.Context(), p, options)
	require.ErrorContains(t, err, "created for another management cluster")
}

func TestTheJournalOfALargeFleetIsSmall(t *testing.T) {
	env := newEnvironment(t, interceptor.Funcs{})
	p := env.plan("plan", label("one"))
	env.apply(p)
	j := &journalWriter{reader: env, namespace: namespace, clock: clock.RealClock{}}
	state := UnitRecord{Phase: PhaseApplying, Message: strings.Repeat("m", maxMessage), Found: []string{strings.Repeat("f", 1000)}}
	j.state.Units = map[string]UnitRecord{}
	for i := range 2000 {
		j.state.Units[strings.Repeat("n", i%60)+string(rune('a'+i))] = state
	}
	data, err := j.state.Encode()
	require.NoError(t, err)
	assert.Less(t, len(data[stateKey]), partSize)
}

func TestTheGateFailsOnceTheOlderVersionRunsAgain(t *testing.T) {
	plane := &controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "demo"}}
	since := time.Now().Add(-time.Minute)
	wrote := metav1.NewTime(since.Add(-time.Minute))
	plane.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "manager", APIVersion: controlplanev1.GroupVersion.Group + "/v1beta1", Subresource: "status", Time: &wrote}}
	read := func() error {
		c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(builder.Scheme()).Build(), interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
				object.SetManagedFields(plane.ManagedFields)
				return nil
			},
		})
		return legacyGuard{c, since}.Get(t.Context(), client.ObjectKeyFromObject(plane), plane.DeepCopy())
	}
	require.NoError(t, read())
	wrote = metav1.NewTime(since.Add(time.Second))
	require.ErrorContains(t, read(), "CAPT v0.3 runs again")
}
