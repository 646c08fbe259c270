// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

// summary is a plan in a few words: what is written to what; the members that are not written, although their unit could be; and for each
// finding its reason.
func summary(p *plan.Plan) (lines []string) {
	for i := range p.Units {
		for _, step := range p.Units[i].Steps {
			lines = append(lines, fmt.Sprintf("%s %s: %s", step.Object.Kind, step.Object.Name, paths(step)))
		}
	}
	for _, finding := range p.Findings {
		requireDocumented(finding)
		lines = append(lines, fmt.Sprintf("%s %s %s %s", finding.Severity, finding.Reason, finding.Object.Kind, finding.Object.Name))
	}
	return lines
}

// states of the units by their names.
func states(p *plan.Plan) map[string]plan.UnitState {
	found := map[string]plan.UnitState{}
	for i := range p.Units {
		found[p.Units[i].Name()] = p.Units[i].State
	}
	return found
}

func paths(step plan.Step) string {
	var written []string
	if step.Create != nil {
		written = append(written, "created")
	}
	for _, field := range step.Fields {
		written = append(written, field.Path)
	}
	return strings.Join(written, " ")
}

const spotRole = "demo-spot-role-check"

func TestTopologies(t *testing.T) {
	const (
		vpc         = "WorkspaceTemplateApply demo-vpc: /spec/workspaceName"
		vpcStatus   = "WorkspaceTemplateApply demo-vpc: /status/workspaceRef"
		eks         = "WorkspaceTemplateApply demo-eks-controlplane-apply: /spec/workspaceName"
		eksStatus   = "WorkspaceTemplateApply demo-eks-controlplane-apply: /status/workspaceRef"
		eksEndpoint = "CAPTControlPlane demo: /spec/controlPlaneEndpoint/host"
		eksOwner    = "CAPTControlPlane demo: /spec/workspaceTemplateApplyRef /spec/controlPlaneEndpoint/host"
	)
	for name, row := range map[string]struct {
		change func(s *fixture)
		// after changes the fixture when the Workspaces are there, as CAPT v0.3 rendered them before the change.
		after func(s *fixture)
		want  []string
	}{
		"references are set": {
			nil, nil, []string{vpc, vpcStatus, eks, eksStatus, eksEndpoint}},
		"reference empty, generated name": {
			func(s *fixture) { s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{} }, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksOwner}},
		"reference empty, the fixed name of CAPT v0.3": {
			func(s *fixture) {
				s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
				rename(s, "demo-eks-controlplane-apply")
			}, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksOwner}},
		"reference empty, made by hand, without an owner reference": {
			func(s *fixture) {
				s.plane.Spec.WorkspaceTemplateApplyRef, s.eks.OwnerReferences = infrav1.WorkspaceTemplateApplyReference{}, nil
				rename(s, "production")
			}, nil,
			[]string{vpc, vpcStatus,
				"WorkspaceTemplateApply production: /spec/workspaceName /metadata/ownerReferences",
				"WorkspaceTemplateApply production: /status/workspaceRef", eksOwner}},
		"control plane of another name": {
			func(s *fixture) {
				s.plane.Name = "green"
				s.cluster.Spec.ControlPlaneRef.Name = "green"
				s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
				s.eks.OwnerReferences[0].Name = "green"
				rename(s, "green-eks-controlplane-apply")
			}, nil,
			[]string{vpc, vpcStatus, strings.ReplaceAll(eks, "demo", "green"), strings.ReplaceAll(eksStatus, "demo", "green"),
				"CAPTControlPlane green: /spec/workspaceTemplateApplyRef /spec/controlPlaneEndpoint/host"}},
		"existing VPC": {
			func(s *fixture) {
				s.network.Spec.VPC = infrav1.VPC{ExistingID: "vpc-1"}
				s.network.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
				s.gone[s.vpc] = true
			}, nil,
			[]string{eks, eksStatus, eksEndpoint}},
		"retained VPC": {
			func(s *fixture) { s.network.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain }, nil,
			[]string{vpc + " /spec/deletionPolicy", vpcStatus, eks, eksStatus, eksEndpoint}},
		"status is wiped": {
			func(s *fixture) {
				s.vpc.Status, s.eks.Status = infrav1.WorkspaceTemplateApplyStatus{}, infrav1.WorkspaceTemplateApplyStatus{}
				s.network.Status = infrav1.CAPTClusterStatus{}
			}, nil,
			[]string{vpc, "WorkspaceTemplateApply demo-vpc: /status/workspaceName /status/workspaceRef",
				eks, "WorkspaceTemplateApply demo-eks-controlplane-apply: /status/workspaceName /status/workspaceRef", eksEndpoint}},
		"a VPC without a connection Secret": {
			func(s *fixture) { s.vpcTemplate.Spec.Template.Spec.WriteConnectionSecretToRef = nil }, nil,
			[]string{vpc, vpcStatus, eks, eksStatus, eksEndpoint}},
		"two WorkspaceTemplateApplies, one referred to and one made by the older controller": {
			func(s *fixture) {
				second := s.eks.DeepCopy()
				rename(s, "production")
				s.plane.Spec.WorkspaceTemplateApplyRef.Name = "production"
				s.add(second)
			}, nil,
			[]string{"Ambiguous MultipleCandidates CAPTControlPlane demo"}},
		"a reference to what another has": {
			func(s *fixture) {
				s.eks.OwnerReferences[0].Name, s.eks.OwnerReferences[0].UID = "other", "other"
			}, nil,
			[]string{"Ambiguous MultipleCandidates CAPTControlPlane demo"}},
		"nothing but a Workspace of the name is left": {
			func(s *fixture) {
				s.gone[s.eks] = true
				s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
				s.plane.Spec.ControlPlaneEndpoint.Host = ""
			}, nil,
			[]string{"Blocked WorkspaceTemplateApplyNotFound CAPTControlPlane demo"}},
		"never built": {
			func(s *fixture) {
				s.gone[s.eks] = true
				s.plane.Spec.WorkspaceTemplateApplyRef = infrav1.WorkspaceTemplateApplyReference{}
				s.plane.Spec.ControlPlaneEndpoint.Host = ""
			}, func(s *fixture) { s.gone[s.more[1]] = true },
			[]string{vpc, vpcStatus, "Warning NeverBuilt CAPTControlPlane demo"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "default")
			if row.change != nil {
				row.change(s)
			}
			s.withWorkspaces(t)
			if row.after != nil {
				row.after(s)
			}
			assert.Equal(t, row.want, summary(planFor(t, nil, s)))
		})
	}
}

// rename gives the WorkspaceTemplateApply of the control plane another name, which its Workspace has from it.
func rename(s *fixture, name string) {
	s.eks.Name, s.eks.UID = name, types.UID("WorkspaceTemplateApply/"+s.namespace+"/"+name)
	s.eks.Status.WorkspaceName = strings.TrimSuffix(name, "-apply")
}

func TestHelpersAreAdoptedAndTheSpotRoleIsRetained(t *testing.T) {
	s := newFixture("demo", "default")
	spot := s.template("spot", "unused")
	spot.Spec.Template.Spec.ForProvider.Vars = nil
	check := s.apply(spotRole, "spot", nil, builder.OwnedBy(s.plane))
	never := s.apply("demo-spot-role-create", "missing", nil, builder.OwnedBy(s.plane))
	never.Status = infrav1.WorkspaceTemplateApplyStatus{}
	s.add(spot, check, never)
	s.withWorkspaces(t)
	s.add(s.live(t, check, spot, nil))
	assert.Equal(t, []string{
		"WorkspaceTemplateApply demo-spot-role-check: /spec/workspaceName /spec/deletionPolicy",
		"WorkspaceTemplateApply demo-spot-role-check: /status/workspaceRef",
		"WorkspaceTemplateApply demo-spot-role-create: /spec/deletionPolicy",
	}, summary(planFor(t, nil, s))[5:])

	for _, replaced := range []*infrav1.WorkspaceTemplateApply{check, never} { // As kubectl replace does with an exported manifest.
		replaced.OwnerReferences, replaced.Finalizers = nil, nil
	}
	assert.Subset(t, summary(planFor(t, nil, s)), []string{
		"WorkspaceTemplateApply demo-spot-role-check: /spec/workspaceName /spec/deletionPolicy",
		"WorkspaceTemplateApply demo-spot-role-create: /spec/deletionPolicy",
	})
}

func TestEqualNamesInTwoNamespacesNeedADecision(t *testing.T) {
	a, b := newFixture("demo", "a"), newFixture("demo", "b")
	a.withWorkspaces(t)
	const vpc, eks = "Workspace/demo-vpc", "Workspace/demo-eks-controlplane"
	undecided := planFor(t, nil, a, b)
	assert.Equal(t, []string{"Ambiguous WorkspaceShared CAPTCluster demo", "Ambiguous WorkspaceShared CAPTControlPlane demo"}, summary(undecided))
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
	decided := planFor(t, decisions, a, b)
	assert.Equal(t, []string{"Skipped Skipped CAPTCluster demo", "Skipped Skipped CAPTControlPlane demo"}, summary(decided)[5:], "the others need no decision")
	assert.Equal(t, map[string]plan.UnitState{"a/demo": plan.Adoptable, "b/demo": plan.Skipped}, states(decided))
}

func TestTwoControlPlanesThatClaimOneGetNone(t *testing.T) {
	s := newFixture("demo", "default")
	second := s.plane.DeepCopy()
	second.Name, second.UID = "second", "second"
	s.add(second)
	s.withWorkspaces(t)
	got := planFor(t, nil, s)
	assert.Equal(t, []string{"Ambiguous MultipleCandidates CAPTControlPlane demo"}, summary(got))
	require.Len(t, got.Findings[0].AlsoAbout, 1)
	assert.Equal(t, "second", got.Findings[0].AlsoAbout[0].Name)
	require.Len(t, got.Findings[0].Candidates, 2, "the evidence for each owner")
	assert.Equal(t, "second", got.Findings[0].Candidates[1].Owner.Name)

	decided := planFor(t, &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: s.plane.UID, Take: s.eks.UID}, {UID: "second", Skip: true}}}, s)
	assert.Empty(t, decided.Undecided())
	assert.Equal(t, map[string]plan.UnitState{"default/demo": plan.Adoptable}, states(decided))
}

// No cluster has the endpoint of another EKS cluster. In a sandbox all are on one host.
func TestEndpointsOnOneHostAreTwo(t *testing.T) {
	a, b := newFixture("a", "default"), newFixture("b", "default")
	a.plane.Spec.ControlPlaneEndpoint.Host, a.plane.Spec.ControlPlaneEndpoint.Port = "https://127.0.0.1:6001", 6001
	b.plane.Spec.ControlPlaneEndpoint.Host, b.plane.Spec.ControlPlaneEndpoint.Port = "https://127.0.0.1:6002", 6002
	rename(a, "one")
	rename(b, "two")
	for _, s := range []*fixture{a, b} {
		s.plane.Spec.WorkspaceTemplateApplyRef, s.eks.OwnerReferences = infrav1.WorkspaceTemplateApplyReference{}, nil
		s.add(s.live(t, s.vpc, s.vpcTemplate, nil), s.live(t, s.eks, s.eksTemplate, map[string]any{"cluster_endpoint": s.plane.Spec.ControlPlaneEndpoint.Host}))
	}
	got := planFor(t, nil, a, b)
	assert.Empty(t, got.Undecided())
	assert.Equal(t, map[string]plan.UnitState{"default/a": plan.Adoptable, "default/b": plan.Adoptable}, states(got))
}

func TestADecisionAboutNothingIsAnError(t *testing.T) {
	s := newFixture("demo", "default").withWorkspaces(t)
	_, err := planner.New(snapshot(t, s), &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: "gone", Skip: true}}})
	require.ErrorContains(t, err, "gone")
}

func TestTemplatesOfAnotherNamespaceAreGranted(t *testing.T) {
	s := newFixture("demo", "tenant")
	for _, template := range []*infrav1.WorkspaceTemplate{s.vpcTemplate, s.eksTemplate} {
		template.Namespace = "default"
	}
	s.vpcTemplate.Spec.AllowedNamespaces = infrav1.AllowedNamespaces{Names: []string{"others"}}
	ref := infrav1.WorkspaceTemplateReference{Name: "vpc", Namespace: "default"}
	s.vpc.Spec.TemplateRef, s.network.Spec.VPC.Template.Ref = ref, ref
	ref.Name = "eks"
	s.eks.Spec.TemplateRef, s.plane.Spec.WorkspaceTemplateRef = ref, ref
	s.withWorkspaces(t)
	got := planFor(t, nil, s)
	lines := summary(got)
	assert.Subset(t, lines, []string{
		"WorkspaceTemplate eks: /spec/allowedNamespaces/names", "WorkspaceTemplate vpc: /spec/allowedNamespaces/names",
		"Warning PermissionGranted WorkspaceTemplate eks", "Warning PermissionGranted WorkspaceTemplate vpc",
	})
	assert.JSONEq(t, `{"path":"/spec/allowedNamespaces/names","element":true,"after":"tenant"}`, string(encoded(t, got.Units[0].Steps[0].Fields[0])))
	assert.Empty(t, got.Undecided())

	other := newFixture("other", "tenant")
	other.vpcTemplate, other.eksTemplate = s.vpcTemplate, s.eksTemplate
	other.vpc.Spec.TemplateRef, other.network.Spec.VPC.Template.Ref = s.vpc.Spec.TemplateRef, s.vpc.Spec.TemplateRef
	other.eks.Spec.TemplateRef, other.plane.Spec.WorkspaceTemplateRef = s.eks.Spec.TemplateRef, s.eks.Spec.TemplateRef
	both := summary(planFor(t, nil, s, other.withWorkspaces(t)))
	granted := slices.DeleteFunc(slices.Clone(both), func(line string) bool { return line != lines[0] })
	assert.Len(t, granted, 2, "each unit has its own permission, so that none depends on another")
}

// A template can name 256 namespaces. The units that need more are blocked, all of them.
func TestTooManyNamespacesBlockTheirUnits(t *testing.T) {
	a, b := newFixture("a", "one"), newFixture("b", "two")
	names := make([]string, 255)
	for i := range names {
		names[i] = fmt.Sprint("other-", i)
	}
	b.eksTemplate = a.eksTemplate
	a.eksTemplate.Namespace, a.eksTemplate.Spec.AllowedNamespaces = "default", infrav1.AllowedNamespaces{Names: names}
	ref := infrav1.WorkspaceTemplateReference{Name: "eks", Namespace: "default"}
	for _, s := range []*fixture{a, b} {
		s.eks.Spec.TemplateRef, s.plane.Spec.WorkspaceTemplateRef = ref, ref
		s.withWorkspaces(t)
	}
	assert.Equal(t, map[string]plan.UnitState{"one/a": plan.Adoptable}, states(planFor(t, nil, a)))
	got := planFor(t, nil, a, b)
	assert.Equal(t, map[string]plan.UnitState{"one/a": plan.Blocked, "two/b": plan.Blocked}, states(got))
	assert.Equal(t, []string{"Blocked TooManyNamespaces WorkspaceTemplate eks"}, summary(got))
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return data
}

// What the plan writes is written to the objects, and planned again.
func TestAPlanOfWhatIsAdoptedIsEmpty(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	helper, _, _ := withKubeconfigHelper(t, s)
	first := planFor(t, nil, s)
	require.Equal(t, map[string]plan.UnitState{"team-a/demo": plan.Adoptable}, states(first))
	after := written(t, snapshot(t, s), first.Units[0].Steps...)
	again, err := planner.New(after, nil)
	require.NoError(t, err)
	assert.Equal(t, map[string]plan.UnitState{"team-a/demo": plan.Adopted}, states(again), "%v", summary(again))
	assert.Empty(t, again.Findings)
	members := again.Units[0].Members
	require.Len(t, members, 3, "a helper is reported after its adoption, too")
	assert.Equal(t, helper.UID, members[2].Object.UID)
	assert.Equal(t, "kubeconfig helper of CAPTControlPlane demo", members[2].Role)
}

// written is a snapshot after some steps.
func written(t *testing.T, s *migrate.Snapshot, steps ...plan.Step) *migrate.Snapshot {
	t.Helper()
	after := *s
	after.CAPTClusters, after.ControlPlanes = slices.Clone(s.CAPTClusters), slices.Clone(s.ControlPlanes)
	after.Applies, after.Templates = slices.Clone(s.Applies), slices.Clone(s.Templates)
	objects := map[string]any{}
	for i := range after.CAPTClusters {
		objects["CAPTCluster"+after.CAPTClusters[i].Namespace+after.CAPTClusters[i].Name] = &after.CAPTClusters[i]
	}
	for i := range after.ControlPlanes {
		objects["CAPTControlPlane"+after.ControlPlanes[i].Namespace+after.ControlPlanes[i].Name] = &after.ControlPlanes[i]
	}
	for i := range after.Applies {
		objects["WorkspaceTemplateApply"+after.Applies[i].Namespace+after.Applies[i].Name] = &after.Applies[i]
	}
	for i := range after.Templates {
		objects["WorkspaceTemplate"+after.Templates[i].Namespace+after.Templates[i].Name] = &after.Templates[i]
	}
	for _, step := range steps {
		if step.Create != nil {
			var template infrav1.WorkspaceTemplate
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(step.Create, &template))
			template.UID = types.UID(template.Name)
			after.Templates = append(after.Templates, template)
			continue
		}
		object := objects[step.Object.Kind+step.Object.Namespace+step.Object.Name]
		require.NotNil(t, object, step.Object)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		require.NoError(t, err)
		for i := range step.Fields {
			state, err := step.Fields[i].State(content)
			require.NoError(t, err)
			require.Equal(t, plan.Pending, state, "%s %s", step.Object, step.Fields[i].Path)
			require.NoError(t, step.Fields[i].Set(content))
		}
		reflect.ValueOf(object).Elem().SetZero()
		require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, object))
	}
	return &after
}

func TestAPlanIsTheSameEveryTime(t *testing.T) {
	s := newFixture("demo", "default").withWorkspaces(t)
	first, second := planFor(t, nil, s), planFor(t, nil, s)
	assert.Equal(t, first, second)
	var file bytes.Buffer
	require.NoError(t, first.Write(&file))
	read, err := plan.Read(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	assert.Equal(t, first.Checksum, read.Checksum)
	_, err = plan.Read(strings.NewReader(strings.Replace(file.String(), "demo-vpc", "demo-vpn", 1)))
	require.ErrorContains(t, err, "checksum")
}
