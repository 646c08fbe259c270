// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// adopted is a live Workspace of the older CAPT: as it would be rendered, but without the claim and under another
// external name.
func adopted(t *testing.T, rendered *render.Rendered, options ...builder.Option) *unstructured.Unstructured {
	t.Helper()
	workspace := asLive(t, rendered)
	workspace.SetAnnotations(map[string]string{render.ExternalNameAnnotation: "demo-vpc"})
	for _, option := range options {
		option(workspace)
	}
	return workspace
}

func TestWhoseAWorkspaceIs(t *testing.T) {
	rendered := rendering{}.must(t)
	other := rendering{template: []builder.Option{builder.WithModule("# another")}}.must(t)
	claimed := asLive(t, rendered)
	recorded := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return recording(claimed, options...)
	}
	fresh := builder.WorkspaceTemplateApply("demo-vpc")
	chosen := builder.WorkspaceTemplateApply("demo-vpc", builder.WithAnnotation(naming.AdoptWorkspaceAnnotation, string(claimed.GetUID())))
	remembering := builder.WorkspaceTemplateApply("demo-vpc", builder.WithAnnotation(naming.ExternalNameAnnotation, "demo-vpc"))
	older := func(workspace *unstructured.Unstructured) *unstructured.Unstructured {
		workspace = workspace.DeepCopy()
		builder.WithCreation(builder.Created.Add(-time.Hour))(workspace)
		return workspace
	}

	for name, row := range map[string]struct {
		live     *unstructured.Unstructured
		apply    *infrav1.WorkspaceTemplateApply
		rendered *render.Rendered
		want     Ownership
	}{
		"claimed by the apply":                               {claimed, fresh, rendered, Owned},
		"claimed by it, though its status was lost":          {claimed, fresh, nil, Owned},
		"claimed by it, though its template changed":         {claimed, fresh, other, Owned},
		"claimed by it and made anew by it":                  {claimed, recorded(builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef.UID = "old" })), rendered, Owned},
		"claimed by an apply of another name":                {claimed, builder.WorkspaceTemplateApply("demo"), rendered, Foreign},
		"claimed by an apply of another namespace":           {claimed, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("other")), rendered, Foreign},
		"claimed by another, though its UID was recorded":    {asLive(t, (rendering{apply: []builder.Option{builder.WithNamespace("other")}}).must(t)), recorded(), rendered, Foreign},
		"not claimed, its UID recorded":                      {adopted(t, rendered), recorded(), other, Owned},
		"not claimed, as it would be rendered":               {adopted(t, rendered), fresh, rendered, Undecided},
		"not claimed, as rendered, with defaults besides":    {adopted(t, rendered, with("managementPolicies", []any{"*"})), fresh, rendered, Undecided},
		"not claimed, but chosen by a user":                  {adopted(t, rendered), chosen, rendered, Owned},
		"not claimed, chosen by a user, but different":       {adopted(t, rendered), chosen, other, Foreign},
		"not claimed, and remembered from before a move":     {adopted(t, rendered), remembering, rendered, Owned},
		"claimed, and older":                                 {older(claimed), fresh, rendered, Undecided},
		"claimed, and older, and nothing to compare":         {older(claimed), fresh, nil, Undecided},
		"claimed, and older, but chosen by a user":           {older(claimed), chosen, other, Owned},
		"claimed, and older, another one was chosen":         {older(claimed), builder.WorkspaceTemplateApply("demo-vpc", builder.WithAnnotation(naming.AdoptWorkspaceAnnotation, "x")), rendered, Undecided},
		"claimed, and older than the recorded one":           {older(claimed), recorded(builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef.UID = "old" })), rendered, Undecided},
		"claimed, and older, but recorded":                   {older(claimed), recorded(), other, Owned},
		"claimed by another one, though chosen by a user":    {asLive(t, (rendering{apply: []builder.Option{builder.WithNamespace("other")}}).must(t)), chosen, rendered, Foreign},
		"not claimed, different from what would be rendered": {adopted(t, rendered), fresh, other, Foreign},
		"not claimed, and nobody can tell":                   {adopted(t, rendered), fresh, nil, Foreign},
		"not claimed, another UID than recorded":             {adopted(t, rendered, builder.WithUID("new")), recorded(), other, Replaced},
		"not claimed, another UID, but as it would be made":  {adopted(t, rendered, builder.WithUID("new")), recorded(), rendered, Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, mustLive(t, row.live).Owner(row.apply, row.rendered))
		})
	}
}

// Whoever may write in one namespace could otherwise take, and destroy, any cluster-wide Workspace that an older CAPT or a
// person made.
func TestAClusterWideWorkspaceIsNotTakenByRenderingTheSame(t *testing.T) {
	wide := builder.WithScope(terraform.ScopeCluster)
	connected := builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "outputs"}
	})
	render := func(namespace string, template ...builder.Option) *render.Rendered {
		return rendering{apply: []builder.Option{builder.WithNamespace(namespace)}, template: append(template, wide)}.must(t)
	}
	apply := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-vpc", options...)
	}
	noted := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceName = "demo-vpc" })
	ours := mustLive(t, adopted(t, render("default", connected)))
	nobodys := mustLive(t, adopted(t, render("default")))
	more := mustLive(t, adopted(t, render("default", connected), with("deletionPolicy", "Orphan")))

	chosen := builder.WithAnnotation(naming.AdoptWorkspaceAnnotation, string(ours.UID()))
	assert.Equal(t, Undecided, ours.Owner(apply(), render("default", connected)), "its outputs go into this namespace")
	assert.Equal(t, Owned, ours.Owner(apply(chosen), render("default", connected)))
	assert.Equal(t, Foreign, ours.Owner(apply(chosen, builder.WithNamespace("other")), render("other", connected)), "a tenant chooses it")
	assert.Equal(t, Foreign, nobodys.Owner(apply(chosen), render("default")), "a tenant chooses it")
	assert.Equal(t, Foreign, ours.Owner(apply(builder.WithNamespace("other")), render("other", connected)))
	assert.Equal(t, Foreign, ours.Owner(apply(builder.WithNamespace("other")), render("other")), "less is not the same")
	assert.Equal(t, Foreign, nobodys.Owner(apply(), render("default")), "nothing says whose it is")
	assert.Equal(t, Owned, nobodys.Owner(apply(noted), render("default")), "status does, which users can not write")
	assert.Equal(t, Foreign, more.Owner(apply(), render("default", connected)))
	assert.Equal(t, Owned, more.Owner(apply(noted), render("default", connected)))
}

func with(name string, value any) builder.Option {
	return builder.With(func(workspace *unstructured.Unstructured) { workspace.Object["spec"].(map[string]any)[name] = value })
}

// Its external name is where its state is.
func TestAnAdoptedWorkspaceKeepsItsMetadata(t *testing.T) {
	rendered := rendering{}.must(t)
	live := mustLive(t, adopted(t, rendered))
	assert.False(t, live.Differs(rendered))
	assert.Empty(t, live.applicable(rendered).GetAnnotations())
	assert.NotEmpty(t, rendered.Object.GetAnnotations(), "what was rendered is not changed")
}

func TestAClaimedWorkspaceKeepsItsClaim(t *testing.T) {
	rendered := rendering{}.must(t)
	live := mustLive(t, asLive(t, rendered))
	assert.Equal(t, "default/demo-vpc", live.applicable(rendered).GetAnnotations()[naming.ClaimAnnotation])
}

// It is where the state is. Who changes it imports or moves state, and knows why.
func TestAnExternalNameThatSomebodyChangedStays(t *testing.T) {
	rendered := rendering{}.must(t)
	workspace := asLive(t, rendered)
	builder.WithAnnotation(render.ExternalNameAnnotation, "another")(workspace)
	live := mustLive(t, workspace)
	assert.False(t, live.Differs(rendered))
	assert.Equal(t, "another", live.applicable(rendered).GetAnnotations()[render.ExternalNameAnnotation])
}

func TestAVariableThatIsNoLongerRenderedIsADifference(t *testing.T) {
	r := rendering{template: params(func(p *terraform.WorkspaceParameters) { p.VarMap = varmap(`{"kept": "x"}`) })}.must(t)
	workspace := asLive(t, r)
	assert.NoError(t, unstructured.SetNestedField(workspace.Object, "x", "spec", "forProvider", "varmap", "gone"))
	fields := `{"f:spec": {"f:forProvider": {"f:varmap": {"f:kept": {}, "f:gone": {}}}}}`

	assert.False(t, mustLive(t, workspace).Differs(r), "somebody else's")
	builder.WrittenBy(naming.WorkspaceTemplateApplyFieldManager, builder.Created, fields)(workspace)
	assert.True(t, mustLive(t, workspace).Differs(r), "our own of an earlier apply")
}

func TestWhatALiveWorkspaceTells(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.Destroying)
	live := mustLive(t, workspace)
	assert.Equal(t, &infrav1.WorkspaceReference{
		APIVersion: "tf.m.upbound.io/v1beta1", Kind: "Workspace", Namespace: "default", Name: "demo-vpc", UID: workspace.GetUID(),
		ExternalName: "demo-vpc",
	}, live.Reference())
	assert.True(t, live.Deleting())

	plain := mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, builder.InClusterScope()))
	assert.False(t, plain.Deleting())
	assert.Empty(t, plain.Reference().Namespace)
}
