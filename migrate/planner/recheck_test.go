// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

// An interruption may be after every step. What is left is still what the unit says.
func TestRecheckPassesAfterEveryStep(t *testing.T) {
	pinned := func(s *fixture) *migrate.Decisions {
		s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
		s.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
		return pinning(s.plane.UID, s.network.UID)
	}
	for name, decide := range map[string]func(s *fixture) *migrate.Decisions{
		"without decisions": func(*fixture) *migrate.Decisions { return nil },
		"references are empty": func(s *fixture) *migrate.Decisions {
			s.plane.Spec.WorkspaceTemplateApplyRef, s.network.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}, infrav1.WorkspaceTemplateApplyReference{}
			s.eks.OwnerReferences = nil
			return nil
		},
		"pinned": pinned,
		"taken": func(s *fixture) *migrate.Decisions {
			second := s.eks.DeepCopy()
			second.Name, second.UID = "demo-2", "second"
			s.add(second)
			return &migrate.Decisions{Owners: []migrate.OwnerDecision{taking(s.plane, s.eks)}, Workspaces: []migrate.WorkspaceDecision{
				{UID: "Workspace/demo-eks-controlplane", BelongsTo: s.eks.UID},
			}}
		},
		"a member is skipped": func(s *fixture) *migrate.Decisions {
			s.plane.Spec.Version = "v1.32.0"
			return decideOwner(migrate.OwnerDecision{UID: s.plane.UID, Skip: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			helper, _, _ := withKubeconfigHelper(t, s)
			helper.Spec.WriteConnectionSecretToRef.Name = "another" // It is left alone.
			decisions := decide(s)
			unit := unitOf(t, fromFile(t, planFor(t, decisions, s)), "team-a/demo")
			require.Equal(t, plan.Adoptable, unit.State)
			for done := range len(unit.Steps) + 1 {
				require.NoError(t, planner.Recheck(written(t, snapshot(t, s), unit.Steps[:done]...), decisions, unit), "after %d steps", done)
			}
		})
	}
}

// fromFile is a plan after it was written and read.
func fromFile(t *testing.T, p *plan.Plan) *plan.Plan {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, p.Write(&file))
	read, err := plan.Read(&file)
	require.NoError(t, err)
	return read
}

func TestRecheckFindsWhatChanged(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s *fixture)
		want   string
	}{
		"a template was edited": {
			func(s *fixture) { s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited" },
			"WorkspaceTemplate team-a/eks changed since the plan was created (WorkspaceDiffers): Terraform would run for Workspace demo-eks-controlplane, in spec.forProvider.module. captctl migrate check -n team-a shows the differences",
		},
		"the WorkspaceTemplateApply is gone": {func(s *fixture) { s.gone[s.eks] = true }, "there is no WorkspaceTemplateApply with UID"},
		"the Workspace is gone":              {func(s *fixture) { s.gone[s.more[1]] = true }, "WorkspaceNotFound"},
		"more would be written": {
			func(s *fixture) { s.eks.OwnerReferences = nil }, "would now also write /metadata/ownerReferences",
		},
		"less would be written": {
			func(s *fixture) { s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyDelete }, "would no longer write /spec/deletionPolicy",
		},
		"the owner is being deleted": {func(s *fixture) { builder.Deleting()(s.plane) }, "BeingDeleted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain
			unit := unitOf(t, planFor(t, nil, s), "team-a/demo")
			require.NoError(t, planner.Recheck(snapshot(t, s), nil, unit))
			row.change(s)
			require.ErrorContains(t, planner.Recheck(snapshot(t, s), nil, unit), row.want)
		})
	}
}

// The manager writes a Workspace as soon as the objects of an interrupted unit are resumed: what is adopted already passes the gate, too.
func TestRecheckFindsAnEditAfterEveryStep(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(h *helped)
		want string
	}{
		"the template of the VPC":         {func(h *helped) { h.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited" }, "WorkspaceDiffers"},
		"the template of the EKS cluster": {func(h *helped) { h.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited" }, "WorkspaceDiffers"},
		"the version":                     {func(h *helped) { h.plane.Spec.Version = "v1.32.0" }, "WorkspaceDiffers"},
		"an invalid version":              {func(h *helped) { h.plane.Spec.Version = "latest" }, "RenderFailed"},
		"the VPC is no longer retained":   {func(h *helped) { h.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyDelete }, "deletionPolicy"},
		"the template of a helper": {
			func(h *helped) { h.template.Spec.Template.Spec.ForProvider.Entrypoint = "modules/x" }, "WorkspaceDiffers",
		},
		"the WorkspaceTemplateApply": {func(h *helped) { h.vpc.Spec.Variables["vpc_name"] = infrav1.TextValue("another") }, "WorkspaceDiffers"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a")
			s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain
			_, template, _ := withKubeconfigHelper(t, s.withWorkspaces(t))
			unit := unitOf(t, planFor(t, nil, s), "team-a/demo")
			require.NotEmpty(t, unit.Steps)
			row.edit(&helped{fixture: s, template: template})
			for done := range len(unit.Steps) + 1 {
				edited := written(t, snapshot(t, s), unit.Steps[:done]...)
				require.ErrorContains(t, planner.Recheck(edited, nil, unit), row.want, "after %d steps", done)
			}
		})
	}
}

// What a unit had adopted before the plan was made is the user's: an edit of that is reported by the plan, and its unit can be adopted.
func TestRecheckLeavesAnEditOfWhatWasAdoptedBefore(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	adopt(s.vpc)
	s.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited"
	p := planFor(t, nil, s)
	unit := unitOf(t, p, "team-a/demo")
	require.Equal(t, plan.Adoptable, unit.State)
	require.Contains(t, summary(p), "Warning PendingChange CAPTCluster demo")
	require.Len(t, unit.Workspaces, 2, "the adoption must change neither")
	for done := range len(unit.Steps) + 1 {
		require.NoError(t, planner.Recheck(written(t, snapshot(t, s), unit.Steps[:done]...), nil, unit), "after %d steps", done)
	}
}

// What was decided to stay, or lost against another object, is not in the way of the rest of its unit.
func TestRecheckLeavesWhatThePlanLeaves(t *testing.T) {
	a, b := newFixture("demo", "a").withWorkspaces(t), newFixture("demo", "b")
	neverBuilt(b)
	own := b.live(t, b.eks, b.eksTemplate, map[string]any{"cluster_endpoint": "https://" + b.endpoint()})
	own.SetName("b-eks")
	own.SetUID("Workspace/b-eks")
	b.eks.Status.WorkspaceName = "b-eks"
	b.add(own)
	p := planFor(t, nil, a, b)
	unit := unitOf(t, p, "b/demo")
	require.Equal(t, plan.Adoptable, unit.State, "%v", summary(p))
	require.Equal(t, migrate.NothingToAdopt, unit.Members[0].State, "its VPC is that of the other")
	alone := snapshot(t, b)
	alone.Workspaces = snapshot(t, a, b).Workspaces
	require.NoError(t, planner.Recheck(alone, nil, unit))
}
