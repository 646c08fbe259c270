// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

// neverBuilt takes away what CAPT v0.3 writes once it has created a Workspace.
func neverBuilt(s *fixture) {
	s.vpc.Status, s.eks.Status = infrav1.WorkspaceTemplateApplyStatus{}, infrav1.WorkspaceTemplateApplyStatus{}
	s.network.Status, s.plane.Spec.ControlPlaneEndpoint.Host = infrav1.CAPTClusterStatus{}, ""
}

// Of equal names in two namespaces, one has built the Workspaces: status records them, and they are rendered from it.
func TestWhatIsRecordedWinsOverWhatHasOnlyTheName(t *testing.T) {
	a, b := newFixture("demo", "a").withWorkspaces(t), newFixture("demo", "b")
	neverBuilt(b)
	got := planFor(t, nil, a, b)
	require.Empty(t, got.Undecided(), "%v", summary(got))
	assert.Equal(t, []string{"Warning NeverBuilt CAPTCluster demo", "Warning NeverBuilt CAPTControlPlane demo"}, summary(got)[5:])
	assert.Equal(t, map[string]plan.UnitState{"a/demo": plan.Adoptable, "b/demo": plan.NeverBuilt}, states(got))
}

// Where the evidence is not clear, a user decides.
func TestWhatIsRecordedWinsOnlyWhenAllElseAgrees(t *testing.T) {
	for name, change := range map[string]func(a, b *fixture){
		"both are recorded":                     func(_, b *fixture) { b.vpc.Status.WorkspaceName = "demo-vpc" },
		"what is recorded renders otherwise":    func(a, _ *fixture) { a.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited" },
		"the owner of the other one was built":  func(_, b *fixture) { b.network.Status.VPC.ID = "vpc-1" },
		"the manager would build the other one": func(_, b *fixture) { b.vpc.Finalizers = nil },
		"only a user gave it the name": func(a, _ *fixture) {
			a.vpc.Spec.WorkspaceName, a.vpc.Status = "demo-vpc", infrav1.WorkspaceTemplateApplyStatus{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newFixture("demo", "a").withWorkspaces(t), newFixture("demo", "b")
			neverBuilt(b)
			change(a, b)
			assert.Contains(t, summary(planFor(t, nil, a, b)), "Ambiguous WorkspaceShared CAPTCluster demo")
		})
	}
}

// CAPT v0.3, finding the reference empty, began a second one, and was stopped before it created anything.
func TestACandidateThatWasNeverBuiltDoesNotConflict(t *testing.T) {
	s := newFixture("demo", "a").withWorkspaces(t)
	second := s.eks.DeepCopy()
	rename(s, "production")
	s.plane.Spec.WorkspaceTemplateApplyRef.Name = "production"
	s.add(second, s.live(t, s.eks, s.eksTemplate, map[string]any{"cluster_endpoint": "https://" + s.endpoint()}))
	s.gone[s.more[1]] = true
	second.Status = infrav1.WorkspaceTemplateApplyStatus{}

	got := planFor(t, nil, s)
	require.Empty(t, got.Undecided(), "%v", summary(got))
	assert.Contains(t, summary(got), "WorkspaceTemplateApply production: /spec/workspaceName")
	assert.Contains(t, summary(got), "Warning WorkspaceNotFound WorkspaceTemplateApply demo-eks-controlplane-apply")

	second.Finalizers = nil
	assert.Contains(t, summary(planFor(t, nil, s)), "Ambiguous MultipleCandidates CAPTControlPlane demo", "the manager would build it")
}

// Clusters behind one proxy have one endpoint.
func TestASharedEndpointDoesNotConflict(t *testing.T) {
	clusters := func() (a, b *fixture) {
		a, b = newFixture("a", "default"), newFixture("b", "default")
		for _, s := range []*fixture{a, b} {
			s.plane.Spec.ControlPlaneEndpoint.Host = "https://proxy.example.com"
			s.add(s.live(t, s.vpc, s.vpcTemplate, map[string]any{"vpc_id": s.vpcID()}),
				s.live(t, s.eks, s.eksTemplate, map[string]any{"cluster_endpoint": "https://proxy.example.com"}))
		}
		return a, b
	}
	a, b := clusters()
	got := planFor(t, nil, a, b)
	require.Empty(t, got.Undecided(), "%v", summary(got))
	assert.Equal(t, map[string]plan.UnitState{"default/a": plan.Adoptable, "default/b": plan.Adoptable}, states(got))

	a, b = clusters()
	a.plane.Spec.WorkspaceTemplateApplyRef, b.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}, infrav1.WorkspaceTemplateApplyReference{}
	require.Empty(t, planFor(t, nil, a, b).Undecided(), "v0.3 left the references empty")

	a, b = clusters()
	a.eks.OwnerReferences = nil
	assert.Contains(t, summary(planFor(t, nil, a, b)), "Ambiguous MultipleCandidates CAPTControlPlane a", "nothing owns the candidate")
}

// A WorkspaceTemplateApply of a CaptMachine is adopted only by decision, and retained then.
func TestAMachineIsAdoptedByDecisionOnly(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	apply := withMachine(t, s)
	assert.Equal(t, []string{"Warning MachineNotAdopted WorkspaceTemplateApply worker-machine"}, summary(planFor(t, nil, s))[5:])

	got := summary(planFor(t, decideOwner(migrate.OwnerDecision{UID: apply.UID, Take: apply.UID}), s))
	assert.Subset(t, got, []string{
		"WorkspaceTemplateApply worker-machine: /spec/workspaceName /spec/deletionPolicy",
		"WorkspaceTemplateApply worker-machine: /status/workspaceRef",
	})
}

// withMachine adds what CAPT v0.3 creates for a CaptMachine.
func withMachine(t *testing.T, s *fixture) *infrav1.WorkspaceTemplateApply {
	t.Helper()
	template := s.template("nodes", "cluster_name")
	apply := s.apply("worker-machine", "nodes", map[string]string{"cluster_name": s.name})
	apply.OwnerReferences = []metav1.OwnerReference{{APIVersion: "infrastructure.cluster.x-k8s.io/v1beta1", Kind: "CaptMachine", Name: "worker", UID: "machine"}}
	s.add(template, apply, s.live(t, apply, template, nil))
	return apply
}

// Users' templates name literal namespaces, as those of CAPT v0.3's own helpers do. What the Workspace has already is accepted.
func TestALiteralReferenceOfTheLiveWorkspaceIsAccepted(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	files := func(name string) []terraform.VarFile {
		return []terraform.VarFile{{Source: "SecretKey", Format: terraform.FormatHCL, SecretKeyRef: &terraform.KeyReference{Name: name, Namespace: "default", Key: "vars"}}}
	}
	s.eksTemplate.Spec.Template.Spec.ForProvider.VarFiles = files("shared")
	live := s.more[1].(*unstructured.Unstructured)
	require.NoError(t, unstructured.SetNestedSlice(live.Object, []any{map[string]any{
		"source": "SecretKey", "format": "HCL", "secretKeyRef": map[string]any{"name": "shared", "namespace": "default", "key": "vars"},
	}}, "spec", "forProvider", "varFiles"))
	require.Empty(t, planFor(t, nil, s).Undecided())

	s.eksTemplate.Spec.Template.Spec.ForProvider.VarFiles = files("another")
	assert.Contains(t, summary(planFor(t, nil, s)), "Blocked RenderFailed CAPTControlPlane demo")
}

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

// This version refers to the WorkspaceTemplateApply of a new control plane before it creates it.
func TestAControlPlaneOfThisVersionThatWaitsBlocksNothing(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.plane.Spec.ControlPlaneEndpoint.Host, s.plane.Spec.ControlPlaneEndpoint.Port = "", 0
	s.plane.Spec.WorkspaceTemplateApplyRef.Name = s.eks.Name
	s.gone[s.eks], s.gone[s.more[1]] = true, true
	assert.Contains(t, summary(planFor(t, nil, s)), "Blocked WorkspaceTemplateApplyNotFound CAPTControlPlane demo", "CAPT v0.3 wrote the reference when it had created it")
	s.plane.Status = controlplanev1.CAPTControlPlaneStatus{ObservedGeneration: 1}
	assert.NotContains(t, summary(planFor(t, nil, s)), "CAPTControlPlane demo")
	s.gone[s.more[1]] = false
	assert.Contains(t, summary(planFor(t, nil, s)), "Blocked WorkspaceTemplateApplyNotFound CAPTControlPlane demo", "a Workspace of CAPT v0.3 is left")
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

// forgedClaim is a WorkspaceTemplateApply of team-b that a user wrote so that exactly the Workspace of team-a's EKS cluster is rendered from it. All
// objects of team-a but its templates are gone. more is what else the user wrote.
func forgedClaim(t *testing.T, more func(s *fixture, forged *infrav1.WorkspaceTemplateApply)) (*fixture, *infrav1.WorkspaceTemplateApply) {
	t.Helper()
	s := newFixture("demo", "team-a").withWorkspaces(t)
	forged := s.eks.DeepCopy()
	forged.Namespace, forged.UID, forged.OwnerReferences, forged.Status = "team-b", "forged", nil, infrav1.WorkspaceTemplateApplyStatus{}
	for _, object := range []client.Object{s.cluster, s.network, s.plane, s.vpc, s.eks} {
		s.gone[object] = true
	}
	more(s, forged)
	s.add(forged)
	return s, forged
}

func TestTextThatAnyUserCanWriteIsNoEvidence(t *testing.T) {
	const notRecorded = "Ambiguous WorkspaceNotRecorded "
	for name, row := range map[string]struct {
		write func(s *fixture, forged *infrav1.WorkspaceTemplateApply)
		want  string
	}{
		"the name": {func(*fixture, *infrav1.WorkspaceTemplateApply) {}, notRecorded + "WorkspaceTemplateApply demo-eks-controlplane-apply"},
		"spec": {func(_ *fixture, forged *infrav1.WorkspaceTemplateApply) {
			forged.Name, forged.Spec.WorkspaceName = "another", "demo-eks-controlplane"
		}, notRecorded + "WorkspaceTemplateApply another"},
		"annotations": {func(_ *fixture, forged *infrav1.WorkspaceTemplateApply) {
			forged.Annotations = map[string]string{
				naming.AdoptWorkspaceAnnotation: "Workspace/demo-eks-controlplane", naming.ExternalNameAnnotation: "demo-eks-controlplane",
			}
		}, notRecorded + "WorkspaceTemplateApply demo-eks-controlplane-apply"},
		"an owner with the endpoint": {func(s *fixture, forged *infrav1.WorkspaceTemplateApply) {
			owner := s.plane.DeepCopy()
			owner.Namespace, owner.UID, owner.OwnerReferences = "team-b", "owner", nil
			owner.Spec.WorkspaceTemplateRef = infrav1.WorkspaceTemplateReference{Name: "eks", Namespace: "team-a"}
			builder.OwnedBy(owner)(forged)
			s.add(owner)
		}, notRecorded + "CAPTControlPlane demo"},
	} {
		t.Run(name, func(t *testing.T) {
			s, forged := forgedClaim(t, row.write)
			got := planFor(t, nil, s)
			require.Equal(t, []string{row.want}, summary(got))
			finding := got.Findings[0]
			assert.Equal(t, "Workspace/demo-eks-controlplane", string(finding.Workspace.UID))
			require.Len(t, finding.Candidates, 1)
			assert.Equal(t, forged.UID, finding.Candidates[0].Object.UID)
			assert.Contains(t, finding.Message, "team-b/"+forged.Name)
		})
	}
}

func TestWhatCAPTRecordedIsEvidence(t *testing.T) {
	for name, record := range map[string]func(s *fixture, apply *infrav1.WorkspaceTemplateApply){
		"the name in status": func(_ *fixture, apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.WorkspaceName = "demo-eks-controlplane"
		},
		"the reference in status": func(_ *fixture, apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: "demo-eks-controlplane", UID: "Workspace/demo-eks-controlplane"}
		},
		"the namespace of the connection Secret": func(s *fixture, apply *infrav1.WorkspaceTemplateApply) {
			ref := map[string]string{"name": "demo-eks-connection", "namespace": "team-b"}
			require.NoError(t, unstructured.SetNestedStringMap(s.more[1].(*unstructured.Unstructured).Object, ref, "spec", "writeConnectionSecretToRef"))
			apply.Spec.WriteConnectionSecretToRef.Namespace = "team-b"
			s.eksTemplate.Spec.AllowedNamespaces.Names = []string{"team-b"}
		},
		"the claim of the Workspace": func(s *fixture, apply *infrav1.WorkspaceTemplateApply) {
			s.more[1].SetAnnotations(map[string]string{naming.ClaimAnnotation: "team-b/" + apply.Name})
			s.eksTemplate.Spec.AllowedNamespaces.Names = []string{"team-b"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, forged := forgedClaim(t, record)
			assert.Equal(t, plan.Adoptable, unitOf(t, planFor(t, nil, s), "WorkspaceTemplateApply/team-b/"+forged.Name).State)
		})
	}
}

// Otherwise the manager would build a second cluster for the control plane that lost its WorkspaceTemplateApply.
func TestAForgedClaimDoesNotShowThatNothingWasBuilt(t *testing.T) {
	s, _ := forgedClaim(t, func(s *fixture, _ *infrav1.WorkspaceTemplateApply) {
		delete(s.gone, s.plane)
		s.plane.Spec.WorkspaceTemplateApplyRef, s.plane.Spec.ControlPlaneEndpoint.Host = infrav1.WorkspaceTemplateApplyReference{}, ""
	})
	assert.Contains(t, summary(planFor(t, nil, s)), "Blocked WorkspaceTemplateApplyNotFound CAPTControlPlane demo")
}

// A permission for another namespace is stated if CAPT v0.3 evidently used the template from there, and decided otherwise.
func TestAPermissionThatV03DoesNotShowIsDecided(t *testing.T) {
	s, forged := forgedClaim(t, func(*fixture, *infrav1.WorkspaceTemplateApply) {})
	decisions := &migrate.Decisions{Workspaces: []migrate.WorkspaceDecision{{UID: "Workspace/demo-eks-controlplane", BelongsTo: forged.UID}}}
	unit := "WorkspaceTemplateApply/team-b/" + forged.Name
	got := planFor(t, decisions, s)
	require.Equal(t, []string{"Ambiguous PermissionRequired WorkspaceTemplateApply " + forged.Name}, summary(got))
	assert.Contains(t, got.Findings[0].Message, "team-a/eks")

	decisions.Owners = []migrate.OwnerDecision{{UID: forged.UID, Permit: true}}
	got = planFor(t, decisions, s)
	require.Subset(t, summary(got), []string{"WorkspaceTemplate eks: /spec/allowedNamespaces/names", "Warning PermissionGranted WorkspaceTemplate eks"})
	require.NoError(t, planner.Recheck(snapshot(t, s), decisions, unitOf(t, got, unit)), "with the decisions of the plan")

	forged.Status.WorkspaceName = "demo-eks-controlplane"
	got = planFor(t, nil, s)
	assert.Subset(t, summary(got), []string{"WorkspaceTemplate eks: /spec/allowedNamespaces/names", "Warning PermissionGranted WorkspaceTemplate eks"})

	s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited"
	assert.Equal(t, []string{"Blocked WorkspaceDiffers WorkspaceTemplateApply " + forged.Name}, summary(planFor(t, nil, s)), "another content was not used")
}

// Who removed the permission of a namespace after the adoption gets no other plan that adds it again.
func TestNoPermissionIsGrantedForWhatIsAdopted(t *testing.T) {
	s := newFixture("demo", "team-a")
	s.eksTemplate.Namespace, s.eks.Spec.TemplateRef.Namespace, s.plane.Spec.WorkspaceTemplateRef.Namespace = "shared", "shared", "shared"
	s.withWorkspaces(t)
	assert.Contains(t, summary(planFor(t, nil, s)), "WorkspaceTemplate eks: /spec/allowedNamespaces/names")
	adopt(s.eks)
	got := summary(planFor(t, nil, s))
	assert.Contains(t, got, "CAPTControlPlane demo: /spec/controlPlaneEndpoint/host")
	assert.NotContains(t, got, "WorkspaceTemplate eks: /spec/allowedNamespaces/names")
}
