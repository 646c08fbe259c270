// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/test/builder"
)

func pinning(owners ...types.UID) *migrate.Decisions {
	decisions := &migrate.Decisions{}
	for _, uid := range owners {
		decisions.Owners = append(decisions.Owners, migrate.OwnerDecision{UID: uid, Pin: true})
	}
	return decisions
}

// created are the templates that a plan creates.
func created(t *testing.T, got *plan.Plan) (templates []*infrav1.WorkspaceTemplate) {
	t.Helper()
	for _, unit := range got.Units {
		for i, step := range unit.Steps {
			if step.Create == nil {
				continue
			}
			for _, before := range unit.Steps[:i] {
				require.NotContains(t, string(encoded(t, before)), step.Object.Name, "what is referred to is created first")
			}
			template := &infrav1.WorkspaceTemplate{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(step.Create, template))
			require.Equal(t, step.Object.Name, template.Name)
			templates = append(templates, template)
		}
	}
	return templates
}

// Two clusters of one template, built with different versions of it: what one is edited to, the other differs from.
func TestTwoClustersOfOneTemplateWithDriftArePinned(t *testing.T) {
	a, b := newFixture("a", "default"), newFixture("b", "default")
	b.eksTemplate, b.vpcTemplate = a.eksTemplate, a.vpcTemplate
	a.withWorkspaces(t)
	a.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# second edition\n"
	b.withWorkspaces(t)
	a.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# third edition\n"
	b.plane.Spec.Version = "v1.33.0"
	require.Len(t, planFor(t, nil, a, b).Undecided(), 2)

	decisions := pinning(a.plane.UID, b.plane.UID)
	got := planFor(t, decisions, a, b)
	require.Empty(t, got.Undecided(), "%v", summary(got))
	templates := created(t, got)
	require.Len(t, templates, 2)
	assert.NotEqual(t, templates[0].Name, templates[1].Name)
	assert.Equal(t, "CAPTControlPlane default/a", templates[0].Annotations[naming.PinnedForAnnotation])
	assert.Equal(t, "true", templates[0].Labels[naming.PinnedLabel])
	assert.NotContains(t, templates[0].Spec.Template.Spec.ForProvider.Module, "edition")
	assert.True(t, strings.HasSuffix(templates[1].Spec.Template.Spec.ForProvider.Module, "# second edition\n"))
	version := func(template *infrav1.WorkspaceTemplate) string {
		return template.Spec.Template.Spec.ForProvider.Vars[1].Value
	}
	assert.Equal(t, "${kubernetes_version}", version(templates[0]), "the version did not drift: the next one reaches Terraform")
	assert.Equal(t, "1.31", version(templates[1]))
	assert.Equal(t, got, planFor(t, decisions, a, b), "the same snapshot gives the same plan")

	// Once the plan is applied, nothing differs, with the decisions or without.
	for i, s := range []*fixture{a, b} {
		ref := infrav1.WorkspaceTemplateReference{Name: templates[i].Name, Namespace: "default"}
		templates[i].UID = types.UID(templates[i].Name)
		s.add(templates[i])
		s.plane.Spec.WorkspaceTemplateRef, s.eks.Spec.TemplateRef = ref, ref
		s.plane.Spec.ControlPlaneEndpoint.Host = s.endpoint()
		adopt(s.vpc, s.eks)
	}
	for _, decisions := range []*migrate.Decisions{decisions, nil} {
		again := planFor(t, decisions, a, b)
		assert.Equal(t, map[string]plan.UnitState{"default/a": plan.Adopted, "default/b": plan.Adopted}, states(again), "%v", summary(again))
		assert.Empty(t, again.Findings)
	}
}

// The owner refers to its template before the WorkspaceTemplateApply is adopted: in between, the manager writes nothing.
func TestAPinPointsOwnerAndWorkspaceTemplateApplyToTheTemplate(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
	s.vpcTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
	got := planFor(t, pinning(s.plane.UID, s.network.UID), s)
	require.Empty(t, got.Undecided(), "%v", summary(got))
	templates := created(t, got)
	require.Len(t, templates, 2)
	assert.Equal(t, []string{
		"WorkspaceTemplate " + templates[0].Name + ": created",
		"CAPTCluster demo: /spec/vpc/template/ref",
		"WorkspaceTemplateApply demo-vpc: /spec/templateRef /spec/workspaceName",
		"WorkspaceTemplateApply demo-vpc: /status/workspaceRef",
		"WorkspaceTemplate " + templates[1].Name + ": created",
		"CAPTControlPlane demo: /spec/workspaceTemplateRef /spec/controlPlaneEndpoint/host",
		"WorkspaceTemplateApply demo-eks-controlplane-apply: /spec/templateRef /spec/workspaceName",
		"WorkspaceTemplateApply demo-eks-controlplane-apply: /status/workspaceRef",
	}, summary(got))

	// A rollback left the templates in place: they are used again, by a plan that names them so that they are read before it is applied.
	for _, template := range templates {
		template.UID = types.UID(template.Name)
		s.add(template)
	}
	again := planFor(t, pinning(s.plane.UID, s.network.UID), s)
	require.Empty(t, again.Undecided(), "%v", summary(again))
	unit := unitOf(t, fromFile(t, again), "team-a/demo")
	assert.Equal(t, got.Units[0].Steps, again.Units[0].Steps)
	reader := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithObjects(append(s.objects(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})...).Build()
	read, err := migrate.ReadObjects(t.Context(), reader, unit.Objects(), now)
	require.NoError(t, err)
	for done := range len(unit.Steps) + 1 {
		steps := slices.DeleteFunc(slices.Clone(unit.Steps[:done]), func(step plan.Step) bool { return step.Create != nil })
		require.NoError(t, planner.Recheck(written(t, read, steps...), again.Decisions, unit), "after %d steps", done)
	}
}

func TestAPinnedTemplateThatWasEditedIsNotUsed(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
	template := created(t, planFor(t, pinning(s.plane.UID), s))[0]
	template.Spec.Template.Spec.ForProvider.Module += "# by a user\n"
	s.add(template)
	got := planFor(t, pinning(s.plane.UID), s)
	require.Contains(t, summary(got), "Blocked PinFailed CAPTControlPlane demo")
	assert.Contains(t, got.Undecided()[0].Message, "WorkspaceTemplate team-a/"+template.Name+", which an earlier plan created")
	assert.Contains(t, got.Undecided()[0].Message, "Delete it, or keep the edit under another name")
}

func TestAPinWithoutADifferenceChangesNothing(t *testing.T) {
	s := newFixture("demo", "team-a").withWorkspaces(t)
	assert.Equal(t, summary(planFor(t, nil, s)), summary(planFor(t, pinning(s.plane.UID, s.network.UID), s)))
}

// A template of another namespace may name objects of that namespace literally, so that the one that replaces it is there, too.
func TestATemplateOfAnotherNamespaceIsPinnedThere(t *testing.T) {
	s := newFixture("demo", "team-a")
	s.eksTemplate.Namespace = "shared"
	s.eksTemplate.Spec.Template.Spec.ForProvider.Env = []terraform.EnvVar{{Name: "A", SecretKeyRef: &terraform.KeyReference{Name: "s", Namespace: "shared", Key: "k"}}}
	s.eks.Spec.TemplateRef.Namespace, s.plane.Spec.WorkspaceTemplateRef.Namespace = "shared", "shared"
	s.withWorkspaces(t)
	s.eksTemplate.Spec.Template.Spec.ForProvider.Module += "# edited\n"
	got := planFor(t, pinning(s.plane.UID), s)
	require.Empty(t, got.Undecided(), "%v", summary(got))
	templates := created(t, got)
	require.Len(t, templates, 1)
	assert.Equal(t, "shared", templates[0].Namespace)
	assert.Equal(t, []string{"team-a"}, templates[0].Spec.AllowedNamespaces.Names)
	for _, step := range got.Units[0].Steps {
		assert.True(t, step.Object.Kind != "WorkspaceTemplate" || step.Create != nil, "the new template permits the namespace")
	}
}

// What a template cannot say stays blocked, and the message names the field.
func TestWhatATemplateCannotSayIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after func(s *fixture)
		want          string
	}{
		"the Secret of the WorkspaceTemplateApply": {
			after: func(s *fixture) { s.eks.Spec.WriteConnectionSecretToRef.Name = "another" }, want: "spec.writeConnectionSecretToRef.name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture("demo", "team-a")
			if tc.before != nil {
				tc.before(s)
			}
			s.withWorkspaces(t)
			tc.after(s)
			got := planFor(t, pinning(s.plane.UID), s)
			require.Contains(t, summary(got), "Blocked PinFailed CAPTControlPlane demo")
			assert.Contains(t, got.Undecided()[0].Message, tc.want)
		})
	}
}

func TestADecisionIsOneOfThem(t *testing.T) {
	const head = "apiVersion: " + migrate.APIVersion + "\nkind: Decisions\nowners:\n"
	for owners, want := range map[string]string{
		"{uid: a, pin: true}": "", "{uid: a, pin: true, take: x}": "", "{uid: a}": "", "{uid: a, skip: true, pin: true}": "set either skip, or any of take, pin and permit",
		"{uid: a, take: x}\n- {uid: b, take: x}": "take x has two entries", "{uid: a, pin: true}\n- {uid: a, skip: true}": "uid a has two entries", "{pin: true}": "owners[0].uid is required",
	} {
		_, err := migrate.ParseDecisions([]byte(head + "- " + owners + "\n"))
		assert.Equal(t, want == "", err == nil, "%s: %v", owners, err)
		assert.True(t, err == nil || strings.Contains(err.Error(), want), "%s: %v", owners, err)
	}
}
