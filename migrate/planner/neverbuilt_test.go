// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// CAPT v0.3 added its finalizer, and waited for something before it created the Workspace. No backup has one to restore.
func TestWhatWasNeverBuiltDoesNotBlockItsCluster(t *testing.T) {
	// waiting leaves the control plane as CAPT v0.3 does while it waits for the VPC.
	waiting := func(s *fixture) {
		s.plane.Spec.ControlPlaneEndpoint.Host, s.plane.Spec.ControlPlaneEndpoint.Port = "", 0
		s.eks.Status = infrav1.WorkspaceTemplateApplyStatus{}
		s.gone[s.more[1]] = true
	}
	const never, missing = "Warning NeverBuilt CAPTControlPlane demo", "Blocked WorkspaceNotFound CAPTControlPlane demo"
	for name, row := range map[string]struct {
		change func(s *fixture)
		want   string
		state  plan.UnitState
	}{
		"nothing says that it was built": {func(*fixture) {}, never, plan.Adoptable},
		"its status names the Workspace": {func(s *fixture) { s.eks.Status.WorkspaceName = "demo-eks-controlplane" }, missing, plan.Blocked},
		"it was applied":                 {func(s *fixture) { s.eks.Status.Applied = metav1.ConditionTrue }, missing, plan.Blocked},
		"the owner has an endpoint":      {func(s *fixture) { s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint() }, missing, plan.Blocked},
		"the owner was initialized": {
			func(s *fixture) { s.plane.Status.Initialization.ControlPlaneInitialized = ptr.To(true) }, missing, plan.Blocked,
		},
		"its template has another scope by now, and the Workspace exists": {
			func(s *fixture) {
				s.gone[s.more[1]] = false
				s.eksTemplate.Spec.WorkspaceScope = terraform.ScopeNamespaced
			}, missing, plan.Blocked,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			waiting(s)
			row.change(s)
			got := planFor(t, nil, s)
			assert.Contains(t, summary(got), row.want)
			unit := unitOf(t, got, "team-a/demo")
			assert.Equal(t, row.state, unit.State)
			if row.state != plan.Adoptable {
				return
			}
			for _, step := range unit.Steps {
				assert.NotContains(t, []any{s.eks.UID, s.plane.UID}, step.Object.UID, "nothing is written, so that the manager builds nothing")
			}
			assert.Contains(t, got.Findings[0].Message, "kubectl -n team-a delete workspacetemplateapply "+s.eks.Name)
			for done := range len(unit.Steps) + 1 {
				require.NoError(t, planner.Recheck(written(t, snapshot(t, s), unit.Steps[:done]...), nil, unit), "after %d steps", done)
			}

			// The way out: once it is deleted, the manager creates another one.
			s.gone[s.eks] = true
			s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
			after := unitOf(t, planFor(t, nil, s), "team-a/demo")
			assert.Equal(t, migrate.NothingToAdopt, after.Members[1].State)
		})
	}
}

// A control plane is not built without its VPC: the record of the VPC was lost.
func TestAVPCIsNotCalledNeverBuiltBelowAControlPlane(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.network.Status, s.vpc.Status = infrav1.CAPTClusterStatus{}, infrav1.WorkspaceTemplateApplyStatus{}
	s.gone[s.more[0]] = true
	assert.Contains(t, summary(planFor(t, nil, s)), "Blocked WorkspaceNotFound CAPTCluster demo")
}

// One that a user created, and that CAPT v0.3 never built, cannot be restored either.
func TestAStandaloneOneThatWasNeverBuilt(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	bastion := s.apply("bastion", "vpc", nil)
	bastion.Status = infrav1.WorkspaceTemplateApplyStatus{}
	s.add(bastion)
	assert.Contains(t, summary(planFor(t, nil, s)), "Warning NeverBuilt WorkspaceTemplateApply bastion")
	bastion.Status.WorkspaceName = "bastion"
	assert.Contains(t, summary(planFor(t, nil, s)), "Warning WorkspaceNotFound WorkspaceTemplateApply bastion")
}
