// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

func TestStatesOfUnits(t *testing.T) {
	skip := func(s *fixture) *migrate.Decisions {
		return decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Skip: true})
	}
	neverCreated := func(s *fixture) {
		s.gone[s.eks], s.gone[s.vpc] = true, true
		s.network.Spec.WorkspaceTemplateApplyRef, s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}, infrav1.WorkspaceTemplateApplyReference{}
		s.network.Status, s.plane.Spec.ControlPlaneEndpoint.Host = infrav1.CAPTClusterStatus{}, ""
	}
	for name, row := range map[string]struct {
		change    func(s *fixture)
		decisions func(s *fixture) *migrate.Decisions
		want      plan.UnitState
		members   []migrate.OwnerState
	}{
		"everything is adoptable": {func(*fixture) {}, nil, plan.Adoptable, []migrate.OwnerState{migrate.Adoptable, migrate.Adoptable}},
		"one member is blocked": {
			func(s *fixture) { s.plane.Spec.Version = "v1.32.0" }, nil, plan.Blocked, []migrate.OwnerState{migrate.Adoptable, migrate.OwnerBlocked},
		},
		"one member is ambiguous": {
			func(s *fixture) { s.eks.OwnerReferences[0].UID = "other" }, nil, plan.NeedsDecision, []migrate.OwnerState{migrate.Adoptable, migrate.OwnerAmbiguous},
		},
		"one member is ambiguous, the other blocked": {
			func(s *fixture) {
				s.eks.OwnerReferences[0].UID = "other"
				s.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited"
			}, nil, plan.Blocked, []migrate.OwnerState{migrate.OwnerBlocked, migrate.OwnerAmbiguous},
		},
		"one member is skipped": {
			func(s *fixture) { s.plane.Spec.Version = "v1.32.0" }, skip, plan.Adoptable, []migrate.OwnerState{migrate.Adoptable, migrate.OwnerSkipped},
		},
		"one member needs nothing": {
			func(s *fixture) {
				s.network.Spec.VPC, s.network.Spec.WorkspaceTemplateApplyRef = infrav1.VPC{ExistingID: "vpc-1"}, infrav1.WorkspaceTemplateApplyReference{}
				s.gone[s.vpc] = true
			}, nil, plan.Adoptable, []migrate.OwnerState{migrate.NothingToAdopt, migrate.Adoptable},
		},
		"one member is skipped, the other needs nothing": {
			func(s *fixture) {
				s.network.Spec.VPC, s.network.Spec.WorkspaceTemplateApplyRef = infrav1.VPC{ExistingID: "vpc-1"}, infrav1.WorkspaceTemplateApplyReference{}
				s.gone[s.vpc] = true
			}, skip, plan.Skipped, []migrate.OwnerState{migrate.NothingToAdopt, migrate.OwnerSkipped},
		},
		"nothing was built": {
			func(s *fixture) { neverCreated(s); s.gone[s.more[0]], s.gone[s.more[1]] = true, true }, nil,
			plan.NeverBuilt, []migrate.OwnerState{migrate.NothingToAdopt, migrate.NothingToAdopt},
		},
		"everything is adopted": {
			func(s *fixture) { adopt(s.vpc, s.eks); s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint() }, nil,
			plan.Adopted, []migrate.OwnerState{migrate.Adopted, migrate.Adopted},
		},
		"everything is adopted, and is being deleted": {
			func(s *fixture) {
				adopt(s.vpc, s.eks)
				builder.Deleting()(s.plane)
				builder.Deleting()(s.eks)
				builder.Deleting()(s.network)
			}, nil,
			plan.Adopted, []migrate.OwnerState{migrate.Adopted, migrate.Adopted},
		},
		"this version created everything": {
			func(s *fixture) {
				for i, apply := range []*infrav1.WorkspaceTemplateApply{s.vpc, s.eks} {
					apply.Finalizers = []string{infrav1.WorkspaceTemplateApplyFinalizer}
					apply.Status = infrav1.WorkspaceTemplateApplyStatus{}
					s.gone[s.more[i]] = true
				}
			}, nil, plan.Adopted, []migrate.OwnerState{migrate.Adopted, migrate.Adopted},
		},
		"one member is adopted": {
			func(s *fixture) { adopt(s.vpc) }, nil, plan.Adoptable, []migrate.OwnerState{migrate.Adopted, migrate.Adoptable},
		},
		"everything is adopted, but for another one that the control plane owns": {
			func(s *fixture) {
				second := s.eks.DeepCopy()
				rename(s, "production")
				s.plane.Spec.WorkspaceTemplateApplyRef.Name = "production"
				s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint()
				s.add(second)
				adopt(s.vpc, s.eks)
			}, nil, plan.Adoptable, []migrate.OwnerState{migrate.Adopted, migrate.Adopted, migrate.Adoptable},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			row.change(s)
			var decisions *migrate.Decisions
			if row.decisions != nil {
				decisions = row.decisions(s)
			}
			got := planFor(t, decisions, s)
			unit := unitOf(t, got, "team-a/demo")
			assert.Equal(t, row.want, unit.State, "%v", summary(got))
			var members []migrate.OwnerState
			for _, member := range unit.Members {
				members = append(members, member.State)
			}
			assert.Equal(t, row.members, members)
			if unit.State != plan.Adoptable {
				assert.Empty(t, unit.Steps)
				assert.Empty(t, unit.Workspaces)
			}
		})
	}
}

func TestOnlyPausesOfTheUserAreReported(t *testing.T) {
	for value, want := range map[string]bool{"true": true, naming.MigrationPause: false} {
		s := newFixture("demo", "team-a").withWorkspaces(t)
		builder.WithAnnotation(clusterv1.PausedAnnotation, value)(s.plane)
		builder.WithAnnotation(clusterv1.PausedAnnotation, value)(s.network)
		got := planFor(t, nil, s)
		assert.Equal(t, plan.Adoptable, unitOf(t, got, "team-a/demo").State)
		assert.Equal(t, want, slices.Contains(reasonsOf(got), planner.ReasonPaused), "%s: %v", value, summary(got))
	}
}

func unitOf(t *testing.T, p *plan.Plan, name string) *plan.Unit {
	t.Helper()
	for i := range p.Units {
		if p.Units[i].Name() == name {
			return &p.Units[i]
		}
	}
	require.Fail(t, "the plan has no such unit", "%s: %v", name, states(p))
	return nil
}

// A WorkspaceTemplateApply without an owner is a unit of its own, and stays in the plan when it is adopted.
func TestStatesOfWorkspaceTemplateAppliesWithoutAnOwner(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	machine := withMachine(t, s)
	template := s.template("bastion", "cluster_name")
	byHand, bare := s.apply("bastion", "bastion", map[string]string{"cluster_name": "other"}), s.apply("bare", "bastion", nil)
	s.add(template, byHand, bare, s.live(t, byHand, template, nil))
	const kind = "WorkspaceTemplateApply/team-a/"
	got := planFor(t, nil, s)
	assert.Equal(t, map[string]plan.UnitState{
		"team-a/demo": plan.Adoptable, kind + machine.Name: plan.Skipped, kind + "bastion": plan.Adoptable, kind + "bare": plan.NeverBuilt,
	}, states(got))
	assert.Equal(t, []migrate.OwnerState{migrate.Adoptable}, []migrate.OwnerState{unitOf(t, got, kind+"bastion").Members[0].State})

	adopt(byHand)
	assert.Equal(t, plan.Adopted, unitOf(t, planFor(t, nil, s), kind+"bastion").State)
}

// The endpoint of a Cluster is repaired by its unit, when the user asks for that.
func TestTheEndpointOfAClusterBelongsToItsUnit(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.cluster.Spec.ControlPlaneRef.Kind = "CAPTControlPlane"
	s.cluster.Spec.ControlPlaneEndpoint.Host = "https://" + s.endpoint()
	for name, change := range map[string]func(){
		"adoptable": func() {}, "adopted": func() { adopt(s.vpc, s.eks); s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint() },
	} {
		change()
		unit := unitOf(t, planFor(t, nil, s), "team-a/demo")
		require.NotNil(t, unit.Endpoint, name)
		assert.Equal(t, s.cluster.UID, unit.Endpoint.Object.UID)
		assert.Equal(t, "/spec/controlPlaneEndpoint/host /spec/controlPlaneEndpoint/port", paths(*unit.Endpoint))
		assert.JSONEq(t, `443`, string(unit.Endpoint.Fields[1].After))
		assert.Empty(t, unit.Endpoint.Fields[1].Before, "the port was not stored")
	}
	s.cluster.Spec.ControlPlaneEndpoint.Host, s.cluster.Spec.ControlPlaneEndpoint.Port = s.endpoint(), 443
	assert.Nil(t, unitOf(t, planFor(t, nil, s), "team-a/demo").Endpoint)
	s.cluster.Spec.ControlPlaneEndpoint.Host = "https://" + s.endpoint()
	s.cluster.Spec.ControlPlaneRef.Kind = "OtherControlPlane"
	assert.Nil(t, unitOf(t, planFor(t, nil, s), "team-a/demo").Endpoint, "it is not CAPT's")
}

// CAPT v0.3 built the cluster, and the owner got another template since. The manager would build a second cluster for it.
func TestAnUnadoptedCandidateOfAnotherTemplateIsDecided(t *testing.T) {
	for name, change := range map[string]func(s *fixture){
		"owned": func(s *fixture) {
			delete(s.eks.Spec.Variables, "cluster_name")
			s.eks.OwnerReferences[0].Controller = nil
		},
		"of the cluster, not owned": func(s *fixture) { s.eks.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			s.plane.Spec.WorkspaceTemplateApplyRef, s.plane.Spec.ControlPlaneEndpoint.Host = infrav1.WorkspaceTemplateApplyReference{}, ""
			s.eks.Spec.WriteConnectionSecretToRef = nil
			s.gone[s.more[1]] = true
			rename(s, "production")
			s.add(s.template("eks-v2", "cluster_name", "kubernetes_version", "region"), s.live(t, s.eks, s.eksTemplate, nil))
			s.plane.Spec.WorkspaceTemplateRef.Name = "eks-v2"
			change(s)
			got := planFor(t, nil, s)
			require.Equal(t, []string{"Ambiguous MultipleCandidates CAPTControlPlane demo"}, summary(got))
			require.Len(t, got.Findings[0].Candidates, 1)
			assert.Equal(t, s.eks.UID, got.Findings[0].Candidates[0].Object.UID)

			decided := planFor(t, &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: s.plane.UID, Take: s.eks.UID, Pin: true}}}, s)
			assert.Equal(t, map[string]plan.UnitState{"team-a/demo": plan.Adoptable}, states(decided), "%v", summary(decided))
		})
	}
}
