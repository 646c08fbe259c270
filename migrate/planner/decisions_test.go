// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

const (
	sharedVPC = types.UID("Workspace/demo-vpc")
	sharedEKS = types.UID("Workspace/demo-eks-controlplane")
	wrong     = "workspaces[uid=Workspace/demo-vpc].belongsTo in --decisions is wrong for Workspace demo-vpc: "
)

// twins have equal names in two namespaces. Workspaces are rendered from the first one, a.
func twins(t *testing.T) (a, b *fixture) {
	t.Helper()
	a, b = newFixture("demo", "a"), newFixture("demo", "b")
	a.withWorkspaces(t)
	return a, b
}

// giving the VPC to a WorkspaceTemplateApply, and the control plane to its own.
func giving(a *fixture, vpc types.UID, owners ...migrate.OwnerDecision) *migrate.Decisions {
	return &migrate.Decisions{Owners: owners, Workspaces: []migrate.WorkspaceDecision{{UID: sharedVPC, BelongsTo: vpc}, {UID: sharedEKS, BelongsTo: a.eks.UID}}}
}

// A decision that gives a Workspace to a wrong object is reported as that, with what to write instead. A pin does not make it right.
func TestAWrongBelongsToIsReported(t *testing.T) {
	const instead = "Write instead: belongsTo: WorkspaceTemplateApply/a/demo-vpc (WorkspaceTemplateApply a/demo-vpc)"
	for name, row := range map[string]struct {
		belongsTo types.UID
		change    func(a *fixture)
		want      string
	}{
		"nothing": {belongsTo: "typo", want: "no object has UID typo. " + instead + ", or WorkspaceTemplateApply/b/demo-vpc ("},
		"an owner": {
			belongsTo: "CAPTCluster/a/demo", want: "it names CAPTCluster a/demo, which is not a WorkspaceTemplateApply. " + instead,
		},
		"the Workspace": {belongsTo: sharedVPC, want: "it names Workspace demo-vpc, which is not a WorkspaceTemplateApply. " + instead},
		"another WorkspaceTemplateApply": {
			belongsTo: "WorkspaceTemplateApply/a/demo-eks-controlplane-apply",
			want:      "it names WorkspaceTemplateApply a/demo-eks-controlplane-apply, which refers to Workspace demo-eks-controlplane. " + instead,
		},
		"the wrong one of two": {
			belongsTo: "WorkspaceTemplateApply/b/demo-vpc",
			want:      "WorkspaceTemplateApply b/demo-vpc refers to it, but the Workspace differs from what is rendered from it in spec.writeConnectionSecretToRef.namespace, and differs less from what is rendered from another one. " + instead + ". If the decision is right",
		},
		"the wrong one of two that drifted": {
			belongsTo: "WorkspaceTemplateApply/b/demo-vpc",
			change:    func(a *fixture) { a.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n" },
			want:      "in spec.forProvider.module, spec.writeConnectionSecretToRef.namespace, and differs less from what is rendered from another one. " + instead,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := twins(t)
			if row.change != nil {
				row.change(a)
				row.change(b)
			}
			for _, owners := range [][]migrate.OwnerDecision{nil, pinning(a.network.UID, b.network.UID).Owners} {
				got := planFor(t, giving(a, row.belongsTo, owners...), a, b)
				assert.Equal(t, map[string]plan.UnitState{"a/demo": plan.NeedsDecision, "b/demo": plan.NeedsDecision}, states(got))
				undecided := got.Undecided()
				require.Len(t, undecided, 1)
				assert.Equal(t, planner.ReasonWorkspaceShared, undecided[0].Reason)
				assert.Contains(t, undecided[0].Message, wrong)
				assert.Contains(t, undecided[0].Message, row.want)
				assert.NotContains(t, undecided[0].Message, "pin")
				assert.Len(t, undecided[0].Candidates, 2)
				require.NotNil(t, undecided[0].Workspace, "the document with decisions has an entry for it")
				assert.Equal(t, sharedVPC, undecided[0].Workspace.UID)
			}

			a.vpcTemplate.Spec.Template.Spec.ForProvider.Module = moduleOf(t, a)
			assert.Empty(t, planFor(t, giving(a, a.vpc.UID), a, b).Undecided(), "what to write instead is right")
		})
	}
}

// moduleOf the VPC of a fixture, as it is live.
func moduleOf(t *testing.T, s *fixture) string {
	t.Helper()
	for _, object := range s.more {
		if live, isWorkspace := object.(*unstructured.Unstructured); isWorkspace && live.GetUID() == sharedVPC {
			module, _, err := unstructured.NestedString(live.Object, "spec", "forProvider", "module")
			require.NoError(t, err)
			return module
		}
	}
	t.Fatal("no Workspace")
	return ""
}

// The right one of two can have drifted. It is pinned, after a look at the others.
func TestTheRightOneOfTwoThatDriftedIsPinned(t *testing.T) {
	a, b := twins(t)
	a.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
	got := planFor(t, giving(a, a.vpc.UID), a, b)
	require.Len(t, got.Undecided(), 1)
	assert.Equal(t, planner.ReasonWorkspaceDiffers, got.Undecided()[0].Reason)
	assert.Contains(t, got.Undecided()[0].Message, "2 WorkspaceTemplateApplies refer to this Workspace: before you pin it, make sure that belongsTo in --decisions names the right one")
	assert.Len(t, got.Undecided()[0].Candidates, 2)

	pinned := planFor(t, giving(a, a.vpc.UID, pinning(a.network.UID).Owners...), a, b)
	assert.Equal(t, map[string]plan.UnitState{"a/demo": plan.Adoptable, "b/demo": plan.Skipped}, states(pinned))
}

// What is adopted is not disputed any more, whatever is edited later.
func TestTheDecisionAboutAnAdoptedWorkspaceStaysRight(t *testing.T) {
	a, b := twins(t)
	b.vpcTemplate = a.vpcTemplate
	b.vpc.Spec.TemplateRef, b.network.Spec.VPC.Template.Ref = a.vpc.Spec.TemplateRef, a.vpc.Spec.TemplateRef
	decisions := giving(a, a.vpc.UID)
	require.Empty(t, planFor(t, decisions, a, b).Undecided())
	adopt(a.vpc, a.eks)
	a.vpc.Spec.Variables["vpc_name"] = infrav1.TextValue("edited")
	got := planFor(t, decisions, a, b)
	assert.Empty(t, got.Undecided(), "%v", summary(got))
	assert.Contains(t, summary(got), "Warning PendingChange CAPTCluster demo")
}

func TestADecisionAboutAWorkspaceWithoutReferenceIsReported(t *testing.T) {
	s := newFixture("demo", "a").withWorkspaces(t)
	s.add(builder.Workspace("alone", builder.AtRest, builder.InClusterScope(), builder.WithUID("Workspace/alone")))
	decisions := &migrate.Decisions{Workspaces: []migrate.WorkspaceDecision{{UID: "Workspace/alone", BelongsTo: s.vpc.UID}}}
	got := planFor(t, decisions, s)
	assert.Empty(t, got.Undecided())
	require.NotEmpty(t, got.Findings)
	assert.Equal(t, "Workspace alone", got.Findings[0].Object.String())
	assert.Contains(t, got.Findings[0].Message, "workspaces[uid=Workspace/alone].belongsTo in --decisions has no effect")
}

// What was decided for an earlier plan may be about objects that are gone, or that a later plan adopted without that decision.
func TestDecisionsOfEarlierPlansCountAsLongAsTheyFit(t *testing.T) {
	s, other := newFixture("demo", "team-a").withWorkspaces(t), newFixture("other", "team-a").withWorkspaces(t)
	fits := &migrate.Decisions{
		Owners: []migrate.OwnerDecision{
			{UID: s.plane.UID, Take: s.eks.UID}, {UID: s.network.UID, Pin: true}, {UID: other.plane.UID, Skip: true}, {UID: other.network.UID, Take: other.vpc.UID},
		},
		Workspaces: []migrate.WorkspaceDecision{{UID: sharedVPC, BelongsTo: s.vpc.UID}, {UID: "Workspace/other-vpc", BelongsTo: s.vpc.UID}},
	}
	all := &migrate.Decisions{
		Owners:     append([]migrate.OwnerDecision{{UID: "gone", Skip: true}, {UID: s.vpc.UID, Take: "gone"}}, fits.Owners...),
		Workspaces: append([]migrate.WorkspaceDecision{{UID: "gone", BelongsTo: s.vpc.UID}, {UID: sharedEKS, BelongsTo: "gone"}}, fits.Workspaces...),
	}
	assert.Equal(t, fits, planner.Current(snapshot(t, s, other), all))
	assert.Nil(t, planner.Current(snapshot(t, s, other), nil))

	adopt(s.vpc, s.eks, other.vpc, other.eks)
	s.plane.Spec.ControlPlaneEndpoint.Host, other.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint(), other.endpoint()
	fits.Owners = append(fits.Owners[:2:2], fits.Owners[3])
	fits.Workspaces = fits.Workspaces[:1]
	for _, more := range []migrate.OwnerDecision{{UID: s.plane.UID, Take: other.eks.UID}, {UID: s.plane.UID, Skip: true}, {UID: s.vpc.UID, Skip: true}} {
		tried := *all
		tried.Owners = append(tried.Owners, more)
		current := planner.Current(snapshot(t, s, other), &tried)
		require.Equal(t, fits, current, "%v", more)
	}
	assert.Equal(t, map[string]plan.UnitState{"team-a/demo": plan.Adopted, "team-a/other": plan.Adopted}, states(planFor(t, fits, s, other)))
}
