// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// adopted is a live Workspace of CAPT v0.3: as rendered, but without the claim and with another external name.
func adopted(t *testing.T, rendered *render.Rendered, options ...builder.Option) *unstructured.Unstructured {
	t.Helper()
	workspace := asLive(t, rendered)
	workspace.SetAnnotations(map[string]string{render.ExternalNameAnnotation: "demo-vpc"})
	for _, option := range options {
		option(workspace)
	}
	return workspace
}

func TestOwner(t *testing.T) {
	rendered := rendering{}.must(t)
	other := rendering{template: []builder.Option{builder.WithModule("# another")}}.must(t)
	claimed := asLive(t, rendered)
	recorded := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-vpc", append([]builder.Option{builder.WithRecordedWorkspace(claimed)}, options...)...)
	}
	fresh := builder.WorkspaceTemplateApply("demo-vpc")
	confirmed := builder.WorkspaceTemplateApply("demo-vpc", builder.WithAnnotation(naming.AdoptWorkspaceAnnotation, string(claimed.GetUID())))
	restored := builder.WorkspaceTemplateApply("demo-vpc", builder.WithAnnotation(naming.ExternalNameAnnotation, "demo-vpc"))
	older := func(workspace *unstructured.Unstructured) *unstructured.Unstructured {
		workspace = workspace.DeepCopy()
		builder.WithCreation(builder.Created.Add(-time.Hour))(workspace)
		return workspace
	}

	for name, row := range map[string]struct {
		live     *unstructured.Unstructured
		apply    *infrav1.WorkspaceTemplateApply
		rendered *render.Rendered
		want     render.Ownership
	}{
		"claimed by the apply":                               {claimed, fresh, rendered, render.Owned},
		"claimed by it, though its status was lost":          {claimed, fresh, nil, render.Owned},
		"claimed by it, though its template changed":         {claimed, fresh, other, render.Owned},
		"claimed and recreated by it":                        {claimed, recorded(builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef.UID = "old" })), rendered, render.Owned},
		"claimed by an apply of another name":                {claimed, builder.WorkspaceTemplateApply("demo"), rendered, render.Foreign},
		"claimed by an apply of another namespace":           {claimed, builder.WorkspaceTemplateApply("demo-vpc", builder.WithNamespace("other")), rendered, render.Foreign},
		"claimed by another, though its UID was recorded":    {asLive(t, (rendering{apply: []builder.Option{builder.WithNamespace("other")}}).must(t)), recorded(), rendered, render.Foreign},
		"not claimed, its UID recorded":                      {adopted(t, rendered), recorded(), other, render.Owned},
		"not claimed, as it would be rendered":               {adopted(t, rendered), fresh, rendered, render.Undecided},
		"not claimed, as rendered, with defaults besides":    {adopted(t, rendered, with("managementPolicies", []any{"*"})), fresh, rendered, render.Undecided},
		"not claimed, but confirmed by a user":               {adopted(t, rendered), confirmed, rendered, render.Owned},
		"not claimed, confirmed by a user, but different":    {adopted(t, rendered), confirmed, other, render.Foreign},
		"not claimed, restored with its state":               {adopted(t, rendered), restored, rendered, render.Owned},
		"claimed, and older":                                 {older(claimed), fresh, rendered, render.Undecided},
		"claimed, and older, and nothing to compare":         {older(claimed), fresh, nil, render.Undecided},
		"claimed, and older, but confirmed by a user":        {older(claimed), confirmed, other, render.Owned},
		"claimed, and older, another one was confirmed":      {older(claimed), builder.WorkspaceTemplateApply("demo-vpc", builder.WithAnnotation(naming.AdoptWorkspaceAnnotation, "x")), rendered, render.Undecided},
		"claimed, and older than the recorded one":           {older(claimed), recorded(builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceRef.UID = "old" })), rendered, render.Undecided},
		"claimed, and older, but recorded":                   {older(claimed), recorded(), other, render.Owned},
		"claimed by another one, though confirmed by a user": {asLive(t, (rendering{apply: []builder.Option{builder.WithNamespace("other")}}).must(t)), confirmed, rendered, render.Foreign},
		"not claimed, different from what would be rendered": {adopted(t, rendered), fresh, other, render.Foreign},
		"not claimed, no evidence":                           {adopted(t, rendered), fresh, nil, render.Foreign},
		"not claimed, another UID than recorded":             {adopted(t, rendered, builder.WithUID("new")), recorded(), other, render.Replaced},
		"not claimed, another UID, but as it would be made":  {adopted(t, rendered, builder.WithUID("new")), recorded(), rendered, render.Undecided},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.want, mustLive(t, row.live).Owner(row.apply, row.rendered))
		})
	}
}

// Otherwise a user with access to one namespace could take over, and destroy, any cluster-wide Workspace of CAPT v0.3 or another user.
func TestAClusterWideWorkspaceCannotBeTakenOverByRenderingTheSame(t *testing.T) {
	wide := builder.WithScope(terraform.ScopeCluster)
	connected := builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "outputs"}
	})
	rendered := func(namespace string, template ...builder.Option) *render.Rendered {
		return rendering{apply: []builder.Option{builder.WithNamespace(namespace)}, template: append(template, wide)}.must(t)
	}
	apply := func(options ...builder.Option) *infrav1.WorkspaceTemplateApply {
		return builder.WorkspaceTemplateApply("demo-vpc", options...)
	}
	recorded := builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Status.WorkspaceName = "demo-vpc" })
	ours := mustLive(t, adopted(t, rendered("default", connected)))
	unowned := mustLive(t, adopted(t, rendered("default")))
	more := mustLive(t, adopted(t, rendered("default", connected), with("deletionPolicy", "Orphan")))

	confirmed := builder.WithAnnotation(naming.AdoptWorkspaceAnnotation, string(ours.GetUID()))
	assert.Equal(t, render.Undecided, ours.Owner(apply(), rendered("default", connected)), "its outputs go into this namespace")
	assert.Equal(t, render.Owned, ours.Owner(apply(confirmed), rendered("default", connected)))
	assert.Equal(t, render.Foreign, ours.Owner(apply(confirmed, builder.WithNamespace("other")), rendered("other", connected)), "confirmed by another tenant")
	assert.Equal(t, render.Foreign, unowned.Owner(apply(confirmed), rendered("default")), "confirmed by another tenant")
	assert.Equal(t, render.Foreign, ours.Owner(apply(builder.WithNamespace("other")), rendered("other", connected)))
	assert.Equal(t, render.Foreign, ours.Owner(apply(builder.WithNamespace("other")), rendered("other")), "a subset is not equal")
	assert.Equal(t, render.Foreign, unowned.Owner(apply(), rendered("default")), "no evidence")
	assert.Equal(t, render.Owned, unowned.Owner(apply(recorded), rendered("default")), "users cannot write status")
	assert.Equal(t, render.Foreign, more.Owner(apply(), rendered("default", connected)))
	assert.Equal(t, render.Owned, more.Owner(apply(recorded), rendered("default", connected)))
}

func with(name string, value any) builder.Option {
	return builder.With(func(workspace *unstructured.Unstructured) { workspace.Object["spec"].(map[string]any)[name] = value })
}

// A user who changes the external name imports or moves state.
func TestAWorkspaceKeepsItsMetadata(t *testing.T) {
	rendered := rendering{}.must(t)
	before := rendered.Object.DeepCopy()
	claimed := asLive(t, rendered)
	moved := claimed.DeepCopy()
	builder.WithAnnotation(render.ExternalNameAnnotation, "another")(moved)
	for workspace, want := range map[*unstructured.Unstructured]map[string]string{
		adopted(t, rendered): nil, claimed: claimed.GetAnnotations(), moved: moved.GetAnnotations(),
	} {
		live := mustLive(t, workspace)
		assert.False(t, rendered.Differs(live.Unstructured))
		assert.Equal(t, want, rendered.For(workspace).GetAnnotations())
	}
	assert.Equal(t, "default/demo-vpc", claimed.GetAnnotations()[naming.ClaimAnnotation])
	assert.Equal(t, before, rendered.Object, "the rendered Workspace is not modified")
}

func TestARemovedVariableIsADifference(t *testing.T) {
	r := rendering{template: []builder.Option{builder.WithParameters(func(p *terraform.WorkspaceParameters) {
		p.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"kept": "x"}`)}
	})}}.must(t)
	workspace := asLive(t, r)
	assert.NoError(t, unstructured.SetNestedField(workspace.Object, "x", "spec", "forProvider", "varmap", "gone"))
	fields := `{"f:spec": {"f:forProvider": {"f:varmap": {"f:kept": {}, "f:gone": {}}}}}`

	assert.False(t, r.Differs(mustLive(t, workspace).Unstructured), "set by another client")
	writtenBy(naming.WorkspaceTemplateApplyFieldManager, builder.Created, fields)(workspace)
	assert.True(t, r.Differs(mustLive(t, workspace).Unstructured), "set by an earlier apply")
}

func TestReference(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.Destroying)
	live := mustLive(t, workspace)
	assert.Equal(t, &infrav1.WorkspaceReference{
		APIVersion: "tf.m.upbound.io/v1beta1", Kind: "Workspace", Namespace: "default", Name: "demo-vpc", UID: workspace.GetUID(),
		ExternalName: "demo-vpc",
	}, render.ReferenceTo(live.Unstructured))
	assert.True(t, live.Deleting())

	plain := mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, builder.InClusterScope()))
	assert.False(t, plain.Deleting())
	assert.Empty(t, render.ReferenceTo(plain.Unstructured).Namespace)
}

// rendering is an apply with a template, to be rendered to the Workspace "demo-vpc".
type rendering struct {
	apply    []builder.Option
	template []builder.Option
}

func (r rendering) must(t *testing.T) *render.Rendered {
	t.Helper()
	rendered, errs := render.Workspace(render.Input{
		Apply:    builder.WorkspaceTemplateApply("demo-vpc", r.apply...),
		Template: builder.WorkspaceTemplate("vpc", r.template...),
		Name:     "demo-vpc",
	})
	require.Empty(t, errs)
	return rendered
}

func mustLive(t *testing.T, object *unstructured.Unstructured) *Live {
	t.Helper()
	live, err := newLive(object)
	require.NoError(t, err)
	return live
}

// asLive is what the API server has after it accepted a rendered Workspace.
func asLive(t *testing.T, rendered *render.Rendered) *unstructured.Unstructured {
	t.Helper()
	data, err := rendered.Object.MarshalJSON()
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	require.NoError(t, object.UnmarshalJSON(data))
	object.SetUID(builder.UID(terraform.WorkspaceKind, object.GetName()))
	object.SetGeneration(1)
	return object
}
