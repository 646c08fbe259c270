// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// clusters are a fleet of adoptable Clusters in namespace a, each with a control plane that works and one Workspace that is up to date.
func clusters(names ...string) *Fleet {
	f := &Fleet{Plan: &plan.Plan{ID: "new"}, Snapshot: &migrate.Snapshot{}}
	for _, name := range names {
		plane := controlplanev1.CAPTControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID("plane-" + name)}}
		plane.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		f.Snapshot.ControlPlanes = append(f.Snapshot.ControlPlanes, plane)
		condition := func(kind string) any { return map[string]any{"type": kind, "status": "True"} }
		workspace := unstructured.Unstructured{Object: map[string]any{
			"kind":     "Workspace",
			"metadata": map[string]any{"name": name, "uid": "workspace-" + name}, "status": map[string]any{"conditions": []any{condition("Synced"), condition("Ready")}},
		}}
		f.Snapshot.Workspaces = append(f.Snapshot.Workspaces, workspace)
		object, live := migrate.Ref("CAPTControlPlane", &plane), migrate.RefOf(&workspace)
		f.Units = append(f.Units, plan.Unit{
			Object: migrate.ObjectRef{Kind: "Cluster", Namespace: "a", Name: name}, State: plan.Adoptable,
			Members: []plan.Member{{Object: object, State: migrate.Adoptable, Workspace: &live}},
			Steps:   []plan.Step{{Object: object, Fields: []plan.Field{{Path: "/spec/version", After: json.RawMessage(`"1.31"`)}}}},
		})
	}
	return f
}

func TestTheStateOfAUnitIsFromPlanAndJournals(t *testing.T) {
	for name, tc := range map[string]struct {
		planned plan.UnitState
		phase   apply.Phase
		holder  string
		skipped bool
		want    plan.UnitState
	}{
		"never written":                   {planned: plan.Adoptable, want: plan.Adoptable},
		"half-written, early":             {planned: plan.Adoptable, phase: apply.PhaseApplying, want: plan.Interrupted},
		"half-written, nearly adopted":    {planned: plan.Adopted, phase: apply.PhaseApplying, want: plan.Interrupted},
		"reverted in part":                {planned: plan.Adopted, phase: apply.PhaseRollingBack, want: plan.Interrupted},
		"being written":                   {planned: plan.Adopted, phase: apply.PhaseApplying, holder: "laptop-1", want: plan.InProgress},
		"half-written while another runs": {planned: plan.Adopted, phase: apply.PhaseApplying, holder: "laptop-2", want: plan.Interrupted},
		"applied":                         {planned: plan.Adopted, phase: apply.PhaseApplied, want: plan.Adopted},
		"rolled back":                     {planned: plan.Adoptable, phase: apply.PhaseRolledBack, want: plan.Adoptable},
		"applied but for what is skipped": {planned: plan.Adopted, phase: apply.PhaseApplied, skipped: true, want: plan.PartlyAdopted},
		"to be adopted in part":           {planned: plan.Adoptable, skipped: true, want: plan.Adoptable},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusters("demo")
			f.Units[0].State = tc.planned
			if tc.phase != "" {
				f.Journals = []apply.Journal{{PlanID: "old", Run: "laptop-1", Units: map[string]apply.UnitRecord{"a/demo": {Phase: tc.phase}}}}
			}
			if tc.holder != "" {
				f.Lock = &lock.Holder{Identity: tc.holder}
			}
			if tc.skipped {
				f.Findings = []migrate.Finding{{Severity: migrate.Skipped, Reason: planner.ReasonSkipped, Object: f.Units[0].Members[0].Object}}
			}
			f.setStatuses()
			assert.Equal(t, tc.want, f.StatusOf("a/demo").State)
			assert.Len(t, f.StatusOf("a/demo").Skipped, len(f.Findings))
		})
	}
}

func TestTheFirstClusterToAdoptIsOneThatWorks(t *testing.T) {
	f := clusters("a-broken", "b-failed", "c-paused", "d-half", "e-good", "f-good")
	f.Snapshot.ControlPlanes[0].Status.Initialization.ControlPlaneInitialized = nil
	condition := f.Snapshot.Workspaces[1].Object["status"].(map[string]any)["conditions"].([]any)[0].(map[string]any)
	condition["status"], condition["reason"] = "False", "ReconcileError"
	f.Findings = []migrate.Finding{
		{Severity: migrate.Warning, Reason: planner.ReasonPaused, Object: f.Units[2].Members[0].Object},
		{Severity: migrate.Warning, Reason: planner.ReasonInvalidClusterEndpoint, Object: f.Units[4].Object},
	}
	f.Journals = []apply.Journal{{PlanID: "old", Units: map[string]apply.UnitRecord{"a/d-half": {Phase: apply.PhaseApplying}}}}
	f.setStatuses()
	assert.Equal(t, "a/e-good", f.FirstCluster(), "most Clusters of CAPT v0.3 have an endpoint to repair")
	assert.Equal(t, []string{"Workspace b-failed: Synced is False (ReconcileError)"}, f.NotUpToDate(&f.Units[1]))
	f.Units = f.Units[:4]
	assert.Empty(t, f.FirstCluster())
}

func TestTheRestOfAPlanIsWhatIsLeftToAdopt(t *testing.T) {
	f := clusters("done", "left", "reverted")
	f.Last = &plan.Plan{ID: "old", Units: clusters("done", "left", "reverted").Units}
	f.Journals = []apply.Journal{{PlanID: "old", Units: map[string]apply.UnitRecord{"a/done": {Phase: apply.PhaseApplied}, "a/reverted": {Phase: apply.PhaseRolledBack}}}}
	f.Units[0].State = plan.Adopted
	f.setStatuses()
	assert.Equal(t, []string{"a/left"}, f.NotYetApplied())
}

func TestWritesAreThoseThatAreLeft(t *testing.T) {
	f := clusters("demo")
	unit := &f.Units[0]
	endpoint := unit.Steps[0]
	unit.Endpoint = &endpoint
	writes := func(revert, named, endpoints bool) int {
		return f.RemainingWrites(f.Plan, unit, Run{revert, named, endpoints})
	}
	assert.Equal(t, []int{1, 2, 0}, []int{writes(false, false, false), writes(false, false, true), writes(true, false, false)})

	journal := func(phase apply.Phase) {
		f.Journals = []apply.Journal{{PlanID: f.ID, Units: map[string]apply.UnitRecord{"a/demo": {Phase: phase}}}}
	}
	journal(apply.PhaseRolledBack)
	assert.Equal(t, []int{0, 1, 0}, []int{writes(false, false, false), writes(false, true, false), writes(true, true, false)}, "a unit that was rolled back is left out unless it is named")
	journal(apply.PhaseApplied)
	assert.Equal(t, []int{0, 1}, []int{writes(false, false, false), writes(false, false, true)}, "what was changed since is not written again")
	f.Snapshot.ControlPlanes[0].Spec.Version = "1.31"
	assert.Equal(t, 1, writes(true, false, false))
	journal(apply.PhaseApplying)
	assert.Equal(t, 0, writes(false, false, false), "it is written already")
}

func TestOnlyTheUnitsThatAreNamedAreReported(t *testing.T) {
	f := clusters("one", "two")
	f.Findings = []migrate.Finding{{Object: f.Units[0].Object}, {Object: f.Units[1].Object, Reason: "two"}}
	f.Journals = []apply.Journal{{PlanID: "old", Units: map[string]apply.UnitRecord{"a/gone": {Phase: apply.PhaseApplied}}}}
	require.ErrorContains(t, f.Only([]string{"a/typo"}), "CAPT has no such Cluster: a/typo")
	f.Selected = []string{"a/two"}
	require.NoError(t, f.Only(f.Selected))
	f.setStatuses()
	require.Len(t, f.Statuses, 1)
	assert.Equal(t, "a/two", f.Statuses[0].Unit)
	require.Len(t, f.Findings, 1)
	assert.Equal(t, "two", f.Findings[0].Reason)
}
