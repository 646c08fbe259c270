// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0
package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

func taking(owner, apply metav1.Object) migrate.OwnerDecision {
	return migrate.OwnerDecision{UID: owner.GetUID(), Take: apply.GetUID()}
}

func TestWhatIsUnclearIsNotAdopted(t *testing.T) {
	for name, row := range map[string]struct {
		change func(s, other *fixture) *migrate.Decisions
		want   string
	}{
		// CAPT v0.3 never gave a new template to a VPC that it had made: Terraform would make another VPC of it.
		"another template, decided": {func(s, _ *fixture) *migrate.Decisions {
			s.network.Status.WorkspaceTemplateApply = &infrav1.WorkspaceTemplateApplySummary{Name: s.vpc.Name}
			s.add(s.template("vpc-v2", "cluster_name"))
			s.network.Spec.VPC.Template.Ref.Name = "vpc-v2"
			return decideOwner(taking(s.network, s.vpc))
		}, "Blocked WorkspaceDiffers CAPTCluster demo"},
		// What an earlier plan adopted passes the gate once more: the spec may have changed since.
		"half adopted, and edited": {func(s, _ *fixture) *migrate.Decisions {
			adopt(s.eks)
			s.plane.Spec.WorkspaceTemplateApplyRef, s.plane.Spec.Version = infrav1.WorkspaceTemplateApplyReference{}, "1.32"
			return nil
		}, "Blocked WorkspaceDiffers CAPTControlPlane demo"},
		// That counts even when only one WorkspaceTemplateApply seems to mean the Workspace.
		"a Workspace that belongs to another, as decided": {func(_, other *fixture) *migrate.Decisions {
			return &migrate.Decisions{Workspaces: []migrate.WorkspaceDecision{{UID: sharedEKS, BelongsTo: other.eks.UID}}}
		}, "Ambiguous WorkspaceShared CAPTControlPlane demo"},
		// Only the user can decide whether it belongs to a control plane: to build a second one would be worse.
		"one of its template that has no owner and names no cluster": {func(s, _ *fixture) *migrate.Decisions {
			s.plane.Spec.WorkspaceTemplateApplyRef, s.plane.Spec.ControlPlaneEndpoint.Host = infrav1.WorkspaceTemplateApplyReference{}, ""
			s.eks.OwnerReferences, s.eks.Spec.WriteConnectionSecretToRef = nil, nil
			delete(s.eks.Spec.Variables, "cluster_name")
			s.eks.Name = "production"
			return nil
		}, "Ambiguous MultipleCandidates CAPTControlPlane demo"},
	} {
		t.Run(name, func(t *testing.T) {
			s, other := newFixture("demo", "team-a").withWorkspaces(t), newFixture("other", "team-a").withWorkspaces(t)
			assert.Contains(t, summary(planFor(t, row.change(s, other), s, other)), row.want)
		})
	}
}

func TestTwoOwnersCannotBeDecidedForOne(t *testing.T) {
	s, other := newFixture("demo", "team-a").withWorkspaces(t), newFixture("other", "team-a").withWorkspaces(t)
	s.eks.OwnerReferences = nil
	decisions := &migrate.Decisions{Owners: []migrate.OwnerDecision{taking(s.plane, s.eks), taking(other.plane, s.eks)}}

	got, err := planner.New(snapshot(t, s, other), decisions)
	if err == nil {
		requireOneToOne(t, "two decisions", got, []*fixture{s, other})
	}
}

func TestOnlyAHelperIsTakenForOne(t *testing.T) {
	s := newFixture("helper", "team-a").withWorkspaces(t)
	s.add(s.apply("bastion", "vpc", map[string]string{"cluster_name": "helper"}, builder.OwnedBy(s.plane)))

	for _, line := range summary(planFor(t, nil, s)) {
		assert.NotContains(t, line, "bastion: /spec")
	}
}

// Admission and the manager know a helper by the control plane that controls it. One that they do not know could not be deleted
// with deletionPolicy Retain.
func TestAHelperIsControlledByItsControlPlane(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*infrav1.WorkspaceTemplateApply)
		want   string
	}{
		"controlled": {func(*infrav1.WorkspaceTemplateApply) {}, "Warning WorkspaceDiffers WorkspaceTemplateApply demo-kubeconfig-apply"},
		"owned only": {
			func(helper *infrav1.WorkspaceTemplateApply) { helper.OwnerReferences[0].Controller = nil },
			"Blocked WorkspaceDiffers WorkspaceTemplateApply demo-kubeconfig-apply",
		},
		"of a CAPTCluster": {
			func(helper *infrav1.WorkspaceTemplateApply) { helper.OwnerReferences[0].Kind = "CAPTCluster" },
			"Blocked WorkspaceDiffers WorkspaceTemplateApply demo-kubeconfig-apply",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a").withWorkspaces(t)
			helper, template, _ := withKubeconfigHelper(t, s)
			template.Spec.Template.Spec.ForProvider.Module += "# changed"
			tc.change(helper)
			assert.Contains(t, summary(planFor(t, nil, s)), tc.want)
		})
	}
}

// What the user created for a Fargate profile is independent, unless a control plane asks for that profile by now.
func TestThatOfAFargateProfileIsNotLeftBehind(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	template := s.template("fargate", "cluster_name", "profile_name")
	apply := s.apply("demo-web-fargate-apply", "fargate", map[string]string{"cluster_name": "demo", "profile_name": "web"})
	s.add(template, apply, s.live(t, apply, template, nil))

	got := summary(planFor(t, nil, s))
	assert.Contains(t, got, "WorkspaceTemplateApply demo-web-fargate-apply: /spec/workspaceName")

	s.plane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{Name: "web"}}
	got = summary(planFor(t, nil, s))
	assert.NotContains(t, got, "WorkspaceTemplateApply demo-web-fargate-apply: /spec/workspaceName")
	assert.Contains(t, got, "Blocked FargateProfileConflict WorkspaceTemplateApply demo-web-fargate-apply")

	s.plane.OwnerReferences, s.plane.Labels = nil, nil
	s.plane.Spec.FargateProfiles[0].Name = "web"
	apply.Name = "by-hand"
	assert.Contains(t, summary(planFor(t, nil, s)), "Blocked FargateProfileConflict WorkspaceTemplateApply by-hand", "of which Cluster it is, is not known yet")

	s.plane.Spec.FargateProfiles[0].WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{Name: "another"}
	assert.NotContains(t, summary(planFor(t, nil, s)), "Blocked FargateProfileConflict WorkspaceTemplateApply by-hand")

	s.plane.Spec.FargateProfiles = nil
	apply.Labels = map[string]string{naming.SerializeLabel: naming.FargateProfilesGroup}
	for _, line := range summary(planFor(t, nil, s)) {
		assert.NotContains(t, line, "by-hand", "this version of CAPT created it")
	}
}

// Two owner references of one UID are one too many: the API server would not merge them.
func TestAnOwnerBecomesTheController(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.eks.OwnerReferences[0].Controller = nil

	got := planFor(t, nil, s)
	require.Empty(t, got.Undecided())
	var owner *plan.Field
	for _, step := range got.Units[0].Steps {
		for i := range step.Fields {
			if step.Object.UID == s.eks.UID && step.Fields[i].Path == "/metadata/ownerReferences" {
				require.Nil(t, owner)
				owner = &step.Fields[i]
			}
		}
	}
	require.NotNil(t, owner)
	assert.Equal(t, "uid", owner.Key)
	assert.NotEmpty(t, owner.Before, "it takes the place of the one that there is")
}
