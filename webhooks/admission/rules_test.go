// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/webhooks/admission/lookup"
)

// write is a new object, or a change of an old one, and the fields for which it is refused. The rules themselves are tested in
// api/validation; these rows prove that each kind is held to its rules, and objects that were stored before a rule only to what they change.
type write struct {
	old, object client.Object
	want        []string
}

func (r write) validated(t *testing.T, w lookup.Reader) admission.Response {
	t.Helper()
	switch object := r.object.(type) {
	case *infrav1.CAPTCluster:
		return validated(t, captClusterRules(w), as[*infrav1.CAPTCluster](r.old), object)
	case *infrav1.CAPTClusterTemplate:
		return validated(t, captClusterTemplateRules(w), as[*infrav1.CAPTClusterTemplate](r.old), object)
	case *controlplanev1.CAPTControlPlane:
		return validated(t, captControlPlaneRules(w), as[*controlplanev1.CAPTControlPlane](r.old), object)
	case *controlplanev1.CAPTControlPlaneTemplate:
		return validated(t, captControlPlaneTemplateRules(w), as[*controlplanev1.CAPTControlPlaneTemplate](r.old), object)
	case *infrav1.WorkspaceTemplate:
		return validated(t, workspaceTemplateRules(w), as[*infrav1.WorkspaceTemplate](r.old), object)
	default:
		return validated(t, workspaceTemplateApplyRules(w), as[*wta](r.old), object.(*wta))
	}
}

// as is the object, or a nil pointer when there is none.
func as[T client.Object](object client.Object) T {
	typed, _ := object.(T)
	return typed
}

func TestEachKindIsHeldToItsRules(t *testing.T) {
	variables := func(names ...string) builder.Option {
		variables := map[string]string{}
		for _, name := range names {
			variables[name] = ""
		}
		return builder.WithVariables(variables)
	}
	tag := func(key string) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.AdditionalTags = map[string]controlplanev1.TagValue{key: ""}
		})
	}
	version := func(text string) builder.Option {
		return builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.Version = text })
	}
	class := func(labels map[string]string, options ...builder.Option) *infrav1.CAPTClusterTemplate {
		template := &infrav1.CAPTClusterTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
		template.Spec.Template.ObjectMeta.Labels = labels
		template.Spec.Template.Spec = builder.CAPTCluster("demo", options...).Spec.CAPTClusterTemplateResourceSpec
		return template
	}
	planes := func(options ...builder.Option) *controlplanev1.CAPTControlPlaneTemplate {
		template := &controlplanev1.CAPTControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: builder.Namespace, Name: "class"}}
		template.Spec.Template.Spec = builder.CAPTControlPlane("demo", options...).Spec.CAPTControlPlaneTemplateResourceSpec
		return template
	}
	cluster, plane, template, apply := builder.CAPTCluster, builder.CAPTControlPlane, builder.WorkspaceTemplate, builder.WorkspaceTemplateApply
	const ref, module = "demo-eks-controlplane-apply", "spec.template.spec.forProvider.module"
	refers, elsewhere, deleting, finalizer := builder.WithApplyRef(ref), builder.WithRegion("us-east-1"), builder.Deleting(), builder.WithFinalizers("f")
	broken := builder.WithModule("locals {")
	args := builder.WithParameters(func(params *terraform.WorkspaceParameters) { params.InitArgs = []string{"-backend=false"} })
	url := builder.WithEndpoint("https://a.example.com", 443) // CAPT v0.3 wrote it so.
	named, recorded := builder.WithWorkspaceName, builder.WithRecordedWorkspace(builder.Workspace("b", builder.AtRest))
	bad := func(more ...builder.Option) *wta {
		return apply("a", append([]builder.Option{named("b"), builder.WithConnectionSecret("s", "other"), variables("a-b"), builder.WaitingForWorkspace("b", "")}, more...)...)
	}
	w := newWorld(t, template("vpc"), template("eks"), template("fargate"), template("wide", builder.WithScope(terraform.ScopeCluster)),
		builder.Cluster("demo"), cluster("demo"), cluster("other", builder.WithApplyRef("by-hand")), plane("demo", refers), apply("b", named("b"), builder.WaitingForWorkspace("a", "")),
		apply(ref, builder.OwnedBy(plane("demo")), builder.UpToDate(nil), ofTemplate("eks"),
			builder.WithVariables(map[string]string{"cluster_name": "demo", "kubernetes_version": "1.31", "region": builder.Region})))
	for name, row := range map[string]write{
		"CAPTCluster":                                         {nil, cluster("demo", builder.WithApplyRef("demo-vpc")), nil},
		"CAPTCluster with what another has":                   {nil, cluster("demo", builder.WithApplyRef("by-hand")), []string{"spec.workspaceTemplateApplyRef.name"}},
		"CAPTCluster, bad before, labeled":                    {cluster("demo", variables("a-b")), cluster("demo", variables("a-b"), builder.WithLabel("a", "b")), nil},
		"CAPTCluster, bad before, changed elsewhere":          {cluster("demo", variables("a-b")), cluster("demo", variables("a-b", "size")), nil},
		"CAPTCluster, bad before, and now good":               {cluster("demo", variables("a-b")), cluster("demo"), nil},
		"CAPTCluster, one more mistake of the same kind":      {cluster("demo", variables("a-b")), cluster("demo", variables("a-b", "c-d")), []string{"spec.vpc.template.variables[c-d]"}},
		"CAPTCluster, bad, and being deleted":                 {cluster("demo"), cluster("demo", variables("a-b"), deleting, finalizer), nil},
		"CAPTClusterTemplate":                                 {nil, class(nil), nil},
		"CAPTClusterTemplate, bad":                            {nil, class(nil, variables("a-b")), []string{"spec.template.spec.vpc.template.variables[a-b]"}},
		"CAPTClusterTemplate, changed":                        {class(nil), class(nil, elsewhere), []string{"spec.template.spec"}},
		"CAPTClusterTemplate, bad before, and labeled":        {class(nil, variables("a-b")), class(map[string]string{"a": "b"}, variables("a-b")), nil},
		"CAPTControlPlane":                                    {nil, plane("demo", refers), nil},
		"CAPTControlPlane, two mistakes":                      {nil, plane("demo", refers, tag("a;b"), elsewhere), []string{"spec.additionalTags[a;b]", "spec.region"}},
		"CAPTControlPlane, the next version":                  {plane("demo", refers, version("1.31")), plane("demo", refers, version("1.32")), nil},
		"CAPTControlPlane, two versions, from the first":      {plane("demo", refers, version("1.32")), plane("demo", refers, version("1.33")), []string{"spec.version"}},
		"CAPTControlPlane, another region, built nowhere":     {plane("new", elsewhere), plane("new", builder.WithRegion("us-east-2")), nil},
		"CAPTControlPlane, bad before, changed elsewhere":     {plane("demo", refers, tag("a;b")), plane("demo", refers, tag("a;b"), profiles("a", "")), nil},
		"CAPTControlPlane, bad before, and another one":       {plane("demo", refers, tag("a;b")), plane("demo", refers, tag("c;d")), []string{"spec.additionalTags[c;d]"}},
		"CAPTControlPlane, bad before, finalizer removed":     {plane("demo", refers, tag("a;b"), finalizer), plane("demo", refers, tag("a;b")), nil},
		"CAPTControlPlane, its endpoint repaired":             {plane("demo", refers, url), plane("demo", refers, builder.WithEndpoint("a.example.com", 443)), nil},
		"CAPTControlPlaneTemplate":                            {nil, planes(), nil},
		"CAPTControlPlaneTemplate, bad":                       {nil, planes(variables("a-b")), []string{"spec.template.spec.variables[a-b]"}},
		"CAPTControlPlaneTemplate, changed from bad":          {planes(variables("a-b")), planes(), []string{"spec.template.spec"}},
		"WorkspaceTemplate":                                   {nil, template("vpc"), nil},
		"WorkspaceTemplate, bad":                              {template("vpc"), template("vpc", broken), []string{module}},
		"WorkspaceTemplate, bad before, allowed to others":    {template("vpc", broken), template("vpc", broken, allowing("team")), nil},
		"WorkspaceTemplate, bad before, another mistake":      {template("vpc", broken), template("vpc", broken, args), []string{"spec.template.spec.forProvider.initArgs[0]"}},
		"WorkspaceTemplateApply":                              {nil, apply("a", named("a")), nil},
		"WorkspaceTemplateApply, a name that is kept":         {nil, apply("demo-vpc", of("", "small")), []string{"metadata.name"}},
		"WorkspaceTemplateApply, bad":                         {nil, bad(), []string{"spec.writeConnectionSecretToRef.namespace", "spec.variables[a-b]", "spec.workspaceName", "spec.waitForWorkspaces[0]"}},
		"WorkspaceTemplateApply, bad before, another field":   {bad(), bad(builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)), nil},
		"WorkspaceTemplateApply, bad before, another mistake": {bad(), bad(variables("a-b", "c-d")), []string{"spec.variables[c-d]"}},
		"WorkspaceTemplateApply, to another scope":            {bad(recorded), bad(recorded, of("", "wide")), []string{"spec.templateRef"}},
	} {
		t.Run(name, func(t *testing.T) { assert.ElementsMatch(t, row.want, refusedFields(t, row.validated(t, w))) })
	}
}

func TestWhatALaterObjectCanResolveIsAWarning(t *testing.T) {
	for object, warning := range map[client.Object]string{
		builder.CAPTCluster("demo", builder.WithApplyRef("demo-vpc")):               "spec.vpc.template.ref: WorkspaceTemplate vpc does not exist yet. Nothing is created until it exists",
		builder.WorkspaceTemplateApply("a"):                                         "spec.templateRef: WorkspaceTemplate vpc does not exist yet. Nothing is created until it exists",
		builder.WorkspaceTemplate("vpc", builder.WithModule("variable \"a\" {}\n")): `variable "a" has neither a value nor a default`,
	} {
		response := write{object: object}.validated(t, newWorld(t))
		require.True(t, response.Allowed)
		require.Len(t, response.Warnings, 1)
		assert.Contains(t, response.Warnings[0], warning)
	}
}
