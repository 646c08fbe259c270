/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package planner_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

// story is a plan in a few words: for each unit its owner, and what is written to what; for each finding its reason.
func story(plan *migrate.Plan) (told []string) {
	for _, step := range plan.Grants {
		told = append(told, "grant "+step.Object.Name+" "+paths(step))
	}
	for _, unit := range plan.Units {
		for _, step := range unit.Steps {
			told = append(told, fmt.Sprintf("%s %s: %s %s", unit.Owner.Kind, unit.Owner.Name, step.Object.Name, paths(step)))
		}
	}
	for _, finding := range plan.Findings {
		requireDocumented(finding)
		told = append(told, fmt.Sprintf("%s %s %s %s", finding.Severity, finding.Reason, finding.Object.Kind, finding.Object.Name))
	}
	return told
}

func paths(step migrate.Step) string {
	var written []string
	if step.Create != nil {
		written = append(written, "created")
	}
	for _, operation := range step.Patch {
		if operation.Op != "test" {
			written = append(written, operation.Path)
		}
	}
	return strings.Join(written, " ")
}

const spotRole = "demo-spot-role-check"

func TestTopologies(t *testing.T) {
	const (
		vpc         = "CAPTCluster demo: demo-vpc /spec/workspaceName"
		vpcStatus   = "CAPTCluster demo: demo-vpc /status/workspaceRef"
		eks         = "CAPTControlPlane demo: demo-eks-controlplane-apply /spec/workspaceName"
		eksStatus   = "CAPTControlPlane demo: demo-eks-controlplane-apply /status/workspaceRef"
		eksEndpoint = "CAPTControlPlane demo: demo /spec/controlPlaneEndpoint/host"
		eksOwner    = "CAPTControlPlane demo: demo /spec/workspaceTemplateApplyRef /spec/controlPlaneEndpoint/host"
	)
	for name, row := range map[string]struct {
		change func(s *scene)
		// after changes the scene when the Workspaces are there, as the older CAPT rendered them before the change.
		after func(s *scene)
		want  []string
	}{
		"references are set": {
			nil, nil, []string{vpc, vpcStatus, eks, eksStatus, eksEndpoint}},
		"reference empty, generated name": {
			func(s *scene) { s.plane.Spec.WorkspaceTemplateApplyRef = nil }, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksOwner}},
		"reference empty, the fixed name of an older CAPT": {
			func(s *scene) {
				s.plane.Spec.WorkspaceTemplateApplyRef = nil
				rename(s, "demo-eks-controlplane-apply")
			}, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksOwner}},
		"reference empty, made by hand, without an owner reference": {
			func(s *scene) {
				s.plane.Spec.WorkspaceTemplateApplyRef, s.eks.OwnerReferences = nil, nil
				rename(s, "production")
			}, nil,
			[]string{vpc, vpcStatus,
				"CAPTControlPlane demo: production /spec/workspaceName /metadata/ownerReferences",
				"CAPTControlPlane demo: production /status/workspaceRef", eksOwner}},
		"control plane of another name": {
			func(s *scene) {
				s.plane.Name = "green"
				s.cluster.Spec.ControlPlaneRef.Name = "green"
				s.plane.Spec.WorkspaceTemplateApplyRef = nil
				s.eks.OwnerReferences[0].Name = "green"
				rename(s, "green-eks-controlplane-apply")
			}, nil,
			[]string{vpc, vpcStatus, strings.ReplaceAll(eks, "demo", "green"), strings.ReplaceAll(eksStatus, "demo", "green"),
				"CAPTControlPlane green: green /spec/workspaceTemplateApplyRef /spec/controlPlaneEndpoint/host"}},
		"existing VPC": {
			func(s *scene) {
				s.network.Spec.VPC = infrav1.VPC{ExistingID: "vpc-1"}
				s.network.Spec.WorkspaceTemplateApplyRef = nil
				s.gone[s.vpc] = true
			}, nil,
			[]string{eks, eksStatus, eksEndpoint}},
		"retained VPC": {
			func(s *scene) { s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain }, nil,
			[]string{vpc + " /spec/deletionPolicy", vpcStatus, eks, eksStatus, eksEndpoint}},
		"status is wiped": {
			func(s *scene) {
				s.vpc.Status, s.eks.Status = infrav1.WorkspaceTemplateApplyStatus{}, infrav1.WorkspaceTemplateApplyStatus{}
				s.network.Status = infrav1.CAPTClusterStatus{}
			}, nil,
			[]string{vpc, "CAPTCluster demo: demo-vpc /status", eks, "CAPTControlPlane demo: demo-eks-controlplane-apply /status", eksEndpoint}},
		"a VPC without a connection Secret": {
			func(s *scene) { s.vpcTemplate.Spec.Template.Spec.WriteConnectionSecretToRef = nil }, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksEndpoint}},
		"paused": {
			func(s *scene) { s.cluster.Spec.Paused = ptr.To(true) }, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksEndpoint, "Warning Paused CAPTCluster demo", "Warning Paused CAPTControlPlane demo"}},
		"being deleted": {
			func(s *scene) { builder.Deleting()(s.plane) }, nil,
			[]string{vpc, vpcStatus, "Ambiguous BeingDeleted CAPTControlPlane demo"}},
		"a version that never reached Terraform": {
			nil, func(s *scene) { s.plane.Spec.Version = "v1.32.0" },
			[]string{vpc, vpcStatus, "Blocked WorkspaceDiffers CAPTControlPlane demo"}},
		"a template that was edited since": {
			nil, func(s *scene) { s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# more\n" },
			[]string{vpc, vpcStatus, "Blocked WorkspaceDiffers CAPTControlPlane demo"}},
		"two WorkspaceTemplateApplies, one referred to and one made by the older controller": {
			func(s *scene) {
				second := s.eks.DeepCopy()
				rename(s, "production")
				s.plane.Spec.WorkspaceTemplateApplyRef.Name = "production"
				s.add(second)
			}, nil,
			[]string{vpc, vpcStatus, "Ambiguous MultipleCandidates CAPTControlPlane demo"}},
		"a reference to what another has": {
			func(s *scene) {
				s.eks.OwnerReferences[0].Name, s.eks.OwnerReferences[0].UID = "other", "other"
			}, nil,
			[]string{vpc, vpcStatus, "Ambiguous MultipleCandidates CAPTControlPlane demo"}},
		"the WorkspaceTemplateApply is gone": {
			func(s *scene) { s.gone[s.eks] = true }, nil,
			[]string{vpc, vpcStatus, "Blocked WorkspaceTemplateApplyNotFound CAPTControlPlane demo"}},
		"nothing but a Workspace of the name is left": {
			func(s *scene) {
				s.gone[s.eks] = true
				s.plane.Spec.WorkspaceTemplateApplyRef = nil
				s.plane.Spec.ControlPlaneEndpoint.Host = ""
			}, nil,
			[]string{vpc, vpcStatus, "Blocked WorkspaceTemplateApplyNotFound CAPTControlPlane demo"}},
		"never built": {
			func(s *scene) {
				s.gone[s.eks] = true
				s.plane.Spec.WorkspaceTemplateApplyRef = nil
				s.plane.Spec.ControlPlaneEndpoint.Host = ""
			}, func(s *scene) { s.gone[s.more[1]] = true },
			[]string{vpc, vpcStatus, "Warning NeverBuilt CAPTControlPlane demo"}},
		"the Workspace is gone": {
			nil, func(s *scene) { s.gone[s.more[1]] = true },
			[]string{vpc, vpcStatus, "Blocked WorkspaceNotFound CAPTControlPlane demo"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene("demo", "default")
			if row.change != nil {
				row.change(s)
			}
			s.withWorkspaces(t)
			if row.after != nil {
				row.after(s)
			}
			assert.Equal(t, row.want, story(plan(t, nil, s)))
		})
	}
}

// rename gives the WorkspaceTemplateApply of the control plane another name, which its Workspace has from it.
func rename(s *scene, name string) {
	s.eks.Name, s.eks.UID = name, types.UID("WorkspaceTemplateApply/"+s.namespace+"/"+name)
	s.eks.Status.WorkspaceName = strings.TrimSuffix(name, "-apply")
}

func TestHelpersAreAdoptedAndTheSpotRoleIsRetained(t *testing.T) {
	s := newScene("demo", "default")
	spot := s.template("spot", "unused")
	spot.Spec.Template.Spec.ForProvider.Vars = nil
	check := s.apply(spotRole, "spot", nil, builder.OwnedBy(s.plane))
	never := s.apply("demo-spot-role-create", "missing", nil, builder.OwnedBy(s.plane))
	never.Status = infrav1.WorkspaceTemplateApplyStatus{}
	s.add(spot, check, never)
	s.withWorkspaces(t)
	s.add(s.live(t, check, spot, nil))
	assert.Equal(t, []string{
		"WorkspaceTemplateApply demo-spot-role-check: demo-spot-role-check /spec/workspaceName /spec/deletionPolicy",
		"WorkspaceTemplateApply demo-spot-role-check: demo-spot-role-check /status/workspaceRef",
		"WorkspaceTemplateApply demo-spot-role-create: demo-spot-role-create /spec/deletionPolicy",
	}, story(plan(t, nil, s))[5:])
}

// Cluster API writes them anew when our definitions come.
func TestTheClusterAmongTheOwnersDoesNotMakeAPlanStale(t *testing.T) {
	s := newScene("demo", "default")
	before := contentHash(t, s, s.plane.UID)
	s.plane.OwnerReferences[0].BlockOwnerDeletion = ptr.To(true)
	assert.Equal(t, before, contentHash(t, s, s.plane.UID))
}

func TestEqualNamesInTwoNamespacesAreDecidedByAPerson(t *testing.T) {
	a, b := newScene("demo", "a"), newScene("demo", "b")
	a.withWorkspaces(t)
	const vpc, eks = "Workspace/demo-vpc", "Workspace/demo-eks-controlplane"
	undecided := plan(t, nil, a, b)
	assert.Equal(t, []string{"Ambiguous WorkspaceShared CAPTCluster demo", "Ambiguous WorkspaceShared CAPTControlPlane demo"}, story(undecided))
	assert.Len(t, undecided.Undecided(), 2, "a finding for each Workspace")
	for _, finding := range undecided.Findings {
		require.Len(t, finding.AlsoAbout, 1)
		assert.Equal(t, "b", finding.AlsoAbout[0].Namespace)
		require.Len(t, finding.Candidates, 2)
		require.NotNil(t, finding.Workspace)
		assert.Contains(t, finding.Candidates[0].For, "the Workspace is exactly what is rendered from it", "evidence for %s", finding.Candidates[0].Object)
		assert.NotEmpty(t, finding.Candidates[1].Against)
	}

	decisions := &migrate.Decisions{
		Workspaces: []migrate.WorkspaceDecision{{UID: vpc, BelongsTo: a.vpc.UID}, {UID: eks, BelongsTo: a.eks.UID}},
	}
	decided := plan(t, decisions, a, b)
	assert.Equal(t, []string{"Skipped Skipped CAPTCluster demo", "Skipped Skipped CAPTControlPlane demo"}, story(decided)[5:], "the others need no decision")
	require.Len(t, decided.Units, 2)
	for _, unit := range decided.Units {
		assert.Equal(t, "a", unit.Owner.Namespace)
	}
}

func TestTwoControlPlanesThatClaimOneGetNone(t *testing.T) {
	s := newScene("demo", "default")
	second := s.plane.DeepCopy()
	second.Name, second.UID = "second", "second"
	s.add(second)
	s.withWorkspaces(t)
	got := plan(t, nil, s)
	assert.Equal(t, []string{"Ambiguous MultipleCandidates CAPTControlPlane demo"}, story(got)[2:])
	require.Len(t, got.Findings[0].AlsoAbout, 1)
	assert.Equal(t, "second", got.Findings[0].AlsoAbout[0].Name)
	require.Len(t, got.Findings[0].Candidates, 2, "the evidence for each owner")
	assert.Equal(t, "second", got.Findings[0].Candidates[1].Owner.Name)

	decided := plan(t, &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: s.plane.UID, Take: s.eks.UID}, {UID: "second", Skip: true}}}, s)
	assert.Empty(t, decided.Undecided())
	assert.Len(t, decided.Units, 2)
}

func TestOnlyWhatSpeaksOfAnOlderVersionIsRewritten(t *testing.T) {
	s := newScene("demo", "default").withWorkspaces(t)
	fleet := snapshot(t, s)
	fleet.Older[s.plane.UID] = false
	got, err := planner.New(fleet, planner.Options{Scope: migrate.ScopeStorage, Now: now})
	require.NoError(t, err)
	var kinds []string
	for _, item := range got.Storage {
		kinds = append(kinds, item.Kind)
	}
	assert.Equal(t, []string{"WorkspaceTemplate", "WorkspaceTemplate", "WorkspaceTemplateApply", "WorkspaceTemplateApply", "CAPTCluster"}, kinds)
	assert.Empty(t, got.Units)
}

// Nobody has the endpoint of another EKS cluster. In a sandbox all are on one host.
func TestEndpointsOnOneHostAreTwo(t *testing.T) {
	a, b := newScene("a", "default"), newScene("b", "default")
	a.plane.Spec.ControlPlaneEndpoint.Host, a.plane.Spec.ControlPlaneEndpoint.Port = "https://127.0.0.1:6001", 6001
	b.plane.Spec.ControlPlaneEndpoint.Host, b.plane.Spec.ControlPlaneEndpoint.Port = "https://127.0.0.1:6002", 6002
	rename(a, "one")
	rename(b, "two")
	for _, s := range []*scene{a, b} {
		s.plane.Spec.WorkspaceTemplateApplyRef, s.eks.OwnerReferences = nil, nil
		s.add(s.live(t, s.vpc, s.vpcTemplate, nil), s.live(t, s.eks, s.eksTemplate, map[string]any{"cluster_endpoint": s.plane.Spec.ControlPlaneEndpoint.Host}))
	}
	got := plan(t, nil, a, b)
	assert.Empty(t, got.Undecided())
	assert.Len(t, got.Units, 4)
}

func TestADecisionAboutNothingIsAnError(t *testing.T) {
	s := newScene("demo", "default").withWorkspaces(t)
	_, err := planner.New(snapshot(t, s), planner.Options{Decisions: &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: "gone", Skip: true}}}})
	require.ErrorContains(t, err, "gone")
}

func TestTemplatesOfAnotherNamespaceAreGranted(t *testing.T) {
	s := newScene("demo", "tenant")
	for _, template := range []*infrav1.WorkspaceTemplate{s.vpcTemplate, s.eksTemplate} {
		template.Namespace = "default"
	}
	s.vpcTemplate.Spec.AllowedNamespaces = &infrav1.AllowedNamespaces{Names: []string{"others"}}
	ref := infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "default"}
	s.vpc.Spec.TemplateRef, s.network.Spec.VPC.Template.Ref = ref, ref
	ref.Name = "eks"
	s.eks.Spec.TemplateRef, s.plane.Spec.WorkspaceTemplateRef = ref, ref
	s.withWorkspaces(t)
	got := plan(t, nil, s)
	assert.Equal(t, []string{"grant eks /spec/allowedNamespaces", "grant vpc /spec/allowedNamespaces/names"}, story(got)[:2])
	assert.JSONEq(t, `["others","tenant"]`, string(got.Grants[1].Patch[1].Value))
	assert.Empty(t, got.Undecided())
}

func TestAPlanOfWhatIsAdoptedIsEmpty(t *testing.T) {
	s := newScene("demo", "default").withWorkspaces(t)
	snapshot := snapshot(t, s)
	first, err := planner.New(snapshot, planner.Options{Scope: migrate.ScopeAdopt, Now: now})
	require.NoError(t, err)
	require.NotEmpty(t, first.Units)
	for _, unit := range first.Units {
		for _, step := range unit.Steps {
			if step.Subresource == "" {
				patched, err := migrate.Patched(raw(t, snapshot, step.Object.UID), step.Patch)
				require.NoError(t, err)
				hash, err := migrate.ContentHash(patched)
				require.NoError(t, err)
				assert.Equal(t, step.Precondition.After, hash)
				back, err := migrate.Patched(patched, step.Inverse)
				require.NoError(t, err)
				assert.Equal(t, raw(t, snapshot, step.Object.UID).Object, back.Object, "the inverse takes back what the step did")
			}
		}
	}
	s.vpc.Spec.WorkspaceName, s.eks.Spec.WorkspaceName = "demo-vpc", "demo-eks-controlplane"
	builder.WithRecordedWorkspace(s.more[0])(s.vpc)
	builder.WithRecordedWorkspace(s.more[1])(s.eks)
	s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint()
	again, err := planner.New(snapshotAgain(t, s), planner.Options{Scope: migrate.ScopeAdopt, Now: now})
	require.NoError(t, err)
	assert.True(t, again.Empty(), "%v", story(again))
	assert.Empty(t, again.Findings)
}

func snapshotAgain(t *testing.T, s *scene) *migrate.Snapshot { t.Helper(); return snapshot(t, s) }

func TestAPlanIsTheSameEveryTimeAndNobodyChangesIt(t *testing.T) {
	s := newScene("demo", "default").withWorkspaces(t)
	first, second := plan(t, nil, s), plan(t, nil, s)
	assert.Equal(t, first, second)
	var file bytes.Buffer
	require.NoError(t, first.Write(&file))
	read, err := migrate.ReadPlan(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, first.Checksum, read.Checksum)
	_, err = migrate.ReadPlan(strings.NewReader(strings.Replace(file.String(), "demo-vpc", "demo-vpn", 1)))
	require.ErrorContains(t, err, "checksum")
}

func TestChurnDoesNotMakeAPlanStaleAndAnEditDoes(t *testing.T) {
	s := newScene("demo", "default")
	hash := func(change func(*infrav1.WorkspaceTemplateApply)) string {
		apply := s.vpc.DeepCopy()
		change(apply)
		s := newScene("demo", "default")
		s.vpc = apply
		got, err := migrate.ContentHash(raw(t, snapshot(t, s), apply.UID))
		require.NoError(t, err)
		return got
	}
	as := hash(func(*infrav1.WorkspaceTemplateApply) {})
	assert.Equal(t, as, hash(func(a *infrav1.WorkspaceTemplateApply) { a.Status.Applied = ptr.To(true) }))
	assert.Equal(t, as, hash(func(a *infrav1.WorkspaceTemplateApply) {
		a.OwnerReferences[0].APIVersion = "infrastructure.cluster.x-k8s.io/v1beta1"
	}))
	assert.Equal(t, as, hash(func(a *infrav1.WorkspaceTemplateApply) { a.Annotations = map[string]string{"touched": "yes"} }))
	assert.NotEqual(t, as, hash(func(a *infrav1.WorkspaceTemplateApply) { a.Spec.Variables["cluster_name"] = "other" }))
	assert.NotEqual(t, as, hash(func(a *infrav1.WorkspaceTemplateApply) { a.OwnerReferences = nil }))
	assert.NotEqual(t, as, hash(func(a *infrav1.WorkspaceTemplateApply) { a.DeletionTimestamp = &metav1.Time{Time: now} }))
}

func contentHash(t *testing.T, s *scene, uid types.UID) string {
	t.Helper()
	hash, err := migrate.ContentHash(raw(t, snapshot(t, s), uid))
	require.NoError(t, err)
	return hash
}
