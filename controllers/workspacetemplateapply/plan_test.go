// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/test/builder"
)

// asLive gives the facts a Workspace as the workspace package reads it.
func asLive(t *testing.T, object *unstructured.Unstructured) *workspace.Live {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, scope := range terraform.Scopes() {
		mapper.Add(scope.GroupVersionKind(), meta.RESTScopeNamespace)
	}
	c := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithRESTMapper(mapper).
		WithObjects(object, builder.WorkspaceDefinition(terraform.ScopeNamespaced)).WithReturnManagedFields().Build()
	workspaces := workspace.Client{Client: c, Uncached: c, Watch: func(context.Context, terraform.Scope) error { return nil }}
	live, err := workspaces.Get(context.Background(), terraform.ScopeNamespaced, object.GetNamespace(), object.GetName())
	require.NoError(t, err)
	require.NotNil(t, live)
	return live
}

// scene is a WorkspaceTemplateApply with the facts about it.
type scene struct {
	*testing.T
	apply *infrav1.WorkspaceTemplateApply
	*Facts
}

func newScene(t *testing.T, options ...builder.Option) *scene {
	t.Helper()
	options = append([]builder.Option{
		builder.WithFinalizers(infrav1.WorkspaceTemplateApplyFinalizer), builder.WithWorkspaceName("demo-vpc"),
		builder.WithAnnotation(clusterctlv1.BlockMoveAnnotation, blockUntilPaused), builder.WithAnnotation(naming.ExternalNameAnnotation, "demo-vpc"),
	}, options...)
	s := &scene{T: t, apply: builder.WorkspaceTemplateApply("demo-vpc", options...)}
	s.Facts = &Facts{Now: now, Name: "demo-vpc", MoveBlock: blockUntilPaused, Template: builder.WorkspaceTemplate("vpc")}
	var errs field.ErrorList
	s.Rendered, errs = render.Workspace(render.Input{Apply: s.apply, Template: s.Template, Name: s.Name})
	require.Empty(t, errs)
	return s
}

// shows makes the Workspace exist, as it was rendered, in a row of the table.
func (s *scene) withWorkspace(row builder.Row, options ...builder.Option) *scene {
	s.Helper()
	object := builder.Workspace(s.Name, row)
	object.Object["spec"] = s.Rendered.Object.DeepCopy().Object["spec"]
	for key, value := range s.Rendered.Object.GetAnnotations() {
		builder.WithAnnotation(key, value)(object)
	}
	builder.AppliedBy(naming.WorkspaceTemplateApplyFieldManager)(object)
	for _, option := range options {
		option(object)
	}
	s.Live, s.Ownership = asLive(s.T, object), workspace.Owned
	s.Failure, _ = (&workspace.Client{Uncached: fake.NewClientBuilder().WithScheme(builder.Scheme()).Build()}).Explain(s.Context(), s.Live)
	return s
}

// unrecorded drops the managedFields of a Workspace.
func withoutManagedFields() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) { object.SetManagedFields(nil) })
}

// unclaimed makes a Workspace one that CAPT did not create.
func withoutClaim() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		annotations := object.GetAnnotations()
		delete(annotations, naming.ClaimAnnotation)
		object.SetAnnotations(annotations)
	})
}

// otherwise makes the Workspace differ from what is rendered now.
func withOtherSpec() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		object.Object["spec"] = map[string]any{"forProvider": map[string]any{"source": "Inline", "module": "# before"}}
	})
}

func (s *scene) plan() Plan {
	s.Helper()
	p, err := plan(s.apply, s.Facts)
	require.NoError(s, err)
	return p
}

func (s *scene) with(change func(f *Facts)) *scene {
	change(s.Facts)
	return s
}

func TestPlan(t *testing.T) {
	for name, row := range map[string]struct {
		scene *scene
		want  Action
	}{
		"nothing there yet":                        {newScene(t), Create},
		"as rendered":                              {newScene(t).withWorkspace(builder.AtRest), Observe},
		"its managedFields were lost":              {newScene(t).withWorkspace(builder.AtRest, withoutManagedFields()), Restore},
		"adopted, and its managedFields were lost": {newScene(t).withWorkspace(builder.AtRest, withoutManagedFields(), withoutClaim()), Observe},
		"different":                                {newScene(t).withWorkspace(builder.AtRest, withOtherSpec()), Update},
		"different, while it fails":                {newScene(t).withWorkspace(builder.PlanFailed, withOtherSpec()), Update},
		"paused":                                   {newScene(t).with(func(f *Facts) { f.Paused = "Cluster is paused" }), Observe},
		"paused and different":                     {newScene(t).withWorkspace(builder.AtRest, withOtherSpec()).with(func(f *Facts) { f.Paused = "Cluster is paused" }), Observe},
		"no template":                              {newScene(t).with(func(f *Facts) { f.Template, f.Rendered = nil, nil }), Observe},
		"template that is not rendered":            {newScene(t).with(func(f *Facts) { f.Rendered = nil }), Observe},
		"something is waited for":                  {newScene(t).with(func(f *Facts) { f.Missing = lacking("Secret x does not exist") }), Observe},
		"something is waited for before a change": {
			newScene(t).withWorkspace(builder.AtRest, withOtherSpec()).with(func(f *Facts) { f.Missing = lacking("Secret x does not exist") }), Observe},
		"an older one names the same Workspace": {newScene(t).with(func(f *Facts) { f.OlderClaim = "WorkspaceTemplateApply demo" }), Observe},
		"the kind is not installed":             {newScene(t).with(func(f *Facts) { f.KindMissing = true }), WaitForKind},
		"of another owner":                      {newScene(t).withWorkspace(builder.AtRest, withOtherSpec()).with(func(f *Facts) { f.Ownership = workspace.Foreign }), Observe},
		"recreated by another client":           {newScene(t).withWorkspace(builder.AtRest, withOtherSpec()).with(func(f *Facts) { f.Ownership = workspace.Replaced }), Observe},
		"being deleted by another client":       {newScene(t).withWorkspace(builder.Destroying, withOtherSpec()), Observe},
		"ours, but nothing holds it": {
			newScene(t, builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil })).withWorkspace(builder.AtRest), Protect},
		"ours, held by CAPT v0.3's finalizer": {
			newScene(t, builder.With(func(a *infrav1.WorkspaceTemplateApply) {
				a.Finalizers = []string{infrav1.LegacyWorkspaceTemplateApplyFinalizer}
			})).withWorkspace(builder.AtRest), Protect},
		"one of another owner is not held": {
			newScene(t, builder.With(func(a *infrav1.WorkspaceTemplateApply) { a.Finalizers = nil })).withWorkspace(builder.AtRest).
				with(func(f *Facts) { f.Ownership = workspace.Foreign }), Observe},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, row.scene.plan().Action) })
	}
}

func TestPlanDuringDeletion(t *testing.T) {
	deleting := func(options ...builder.Option) *scene { return newScene(t, append(options, builder.Deleting())...) }
	retain := builder.WithDeletionPolicy(infrav1.DeletionPolicyRetain)
	for name, row := range map[string]struct {
		scene *scene
		want  Action
	}{
		"the Workspace is there":                        {deleting().withWorkspace(builder.AtRest), Destroy},
		"by the explicit policy":                        {deleting(builder.WithDeletionPolicy(infrav1.DeletionPolicyDelete)).withWorkspace(builder.AtRest), Destroy},
		"in the middle of the first apply":              {deleting().withWorkspace(builder.FirstApplyRunning), Destroy},
		"though its template is gone":                   {deleting().withWorkspace(builder.AtRest).with(func(f *Facts) { f.Template, f.Rendered = nil, nil }), Destroy},
		"though what it waited for is gone":             {deleting().withWorkspace(builder.AtRest).with(func(f *Facts) { f.Missing = lacking("x") }), Destroy},
		"it is being destroyed":                         {deleting().withWorkspace(builder.Destroying), WaitForDestroy},
		"destroy fails, and the provider tries again":   {deleting().withWorkspace(builder.DestroyFailed), WaitForDestroy},
		"the Workspace is gone":                         {deleting(), Release},
		"the Workspace has another owner":               {deleting().withWorkspace(builder.AtRest).with(func(f *Facts) { f.Ownership = workspace.Foreign }), Release},
		"it was recreated by another client":            {deleting().withWorkspace(builder.AtRest).with(func(f *Facts) { f.Ownership = workspace.Replaced }), Release},
		"retained (defect 1)":                           {deleting(retain).withWorkspace(builder.AtRest), Release},
		"retained, though the kind is not installed":    {deleting(retain).with(func(f *Facts) { f.KindMissing = true }), Release},
		"the kind is not installed":                     {deleting().with(func(f *Facts) { f.KindMissing = true }), WaitForKind},
		"paused: nothing is destroyed":                  {deleting().withWorkspace(builder.AtRest).with(func(f *Facts) { f.Paused = "annotation" }), Observe},
		"paused, and nothing is left: still not let go": {deleting(retain).with(func(f *Facts) { f.Paused = "annotation" }), Observe},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, row.want, row.scene.plan().Action) })
	}
}

const refused = "spec.forProvider.module: Invalid value"
