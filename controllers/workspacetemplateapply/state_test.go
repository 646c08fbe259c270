// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/planlog"
	"github.com/capt-provider/capt/test/builder"
)

// takesOver lets a WorkspaceTemplateApply take a Terraform state over.
func takesOver(state string) builder.Option {
	return builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TerraformState = infrav1.TerraformState{Name: state, ProviderConfig: "ClusterProviderConfig/aws"}
	})
}

func newTaking(t *testing.T, objects ...client.Object) *previewing {
	t.Helper()
	env := newEnvironment(t, append(objects, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", takesOver("shop"), builder.WithAnnotation(naming.ProveAnnotation, "first")))...)
	return &previewing{environment: env}
}

// planOf is what Terraform would change, as the log has it.
type planOf planlog.Changes

func (p planOf) Plan(context.Context, string, time.Time) (*planlog.Changes, error) {
	changes := planlog.Changes(p)
	return &changes, nil
}

// changes makes the provider report a plan that is not empty.
func (p *previewing) changes(changes planlog.Changes) {
	p.Helper()
	p.reconciler.Plans = planOf(changes)
	p.look()
	p.shows(builder.ResourcesExist, "")
	p.look()
	p.shows(builder.ResourcesExist, "abc")
	p.look()
	p.look()
}

func TestAStateIsTakenOverAfterAnEmptyPlan(t *testing.T) {
	p := newTaking(t)
	p.look()
	preview := p.preview()
	require.NotNil(t, preview)
	assert.True(t, render.OnlyObserves(preview))
	assert.Equal(t, "shop", preview.GetAnnotations()[render.ExternalNameAnnotation])
	assert.Nil(t, p.workspace("demo-vpc"), "nothing is created before the plan")
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForProof: Terraform state shop is adopted when a plan shows that Terraform would change no resource")

	p.shows(builder.AtRest, "abc")
	p.look()
	created := p.workspace("demo-vpc")
	require.NotNil(t, created)
	assert.Equal(t, "shop", created.GetAnnotations()[render.ExternalNameAnnotation])
	assert.False(t, render.OnlyObserves(created))

	p.provide("demo-vpc", builder.ResourcesExist)
	p.look()
	assert.Equal(t, "adopted", p.workspace("demo-vpc").GetAnnotations()[naming.ResumedAnnotation], "the provider must report before its next poll")
	p.look()
	assert.NotContains(t, p.Writes, "patch", "once")
	p.provide("demo-vpc", builder.AtRest)
	p.look()
	assert.Equal(t, "True UpToDate: ", p.ready("demo-vpc"))
	p.look()
	assert.Nil(t, p.preview())
	assert.Equal(t, "shop", p.get("demo-vpc").Status.WorkspaceRef.ExternalName)
}

func TestAPlanWithChangesKeepsAStateAndAnotherContentIsPlannedAgain(t *testing.T) {
	p := newTaking(t)
	p.changes(planlog.Changes{Counts: planlog.Counts{Update: 1}, Total: 1, Resources: []planlog.Resource{{Address: "aws_eks_cluster.this", Type: "aws_eks_cluster", Action: planlog.Update}}})
	assert.Nil(t, p.workspace("demo-vpc"))
	assert.Contains(t, p.ready("demo-vpc"), "False NotProven: Terraform state shop is not adopted: Terraform would update aws_eks_cluster.this. Nothing is applied.")
	assert.Equal(t, "first", p.get("demo-vpc").Status.Preview.Proof)
	assert.Nil(t, p.preview())
	p.look()
	require.Nil(t, p.preview(), "the same content is not planned again without a request")

	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Annotations[naming.ProveAnnotation] = "second" })
	p.look()
	require.NotNil(t, p.preview(), "a request plans again")
	p.shows(builder.AtRest, "abc")
	p.look()
	require.NotNil(t, p.workspace("demo-vpc"))
}

func TestAChangedContentIsNotProvenByTheOldPlan(t *testing.T) {
	p := newTaking(t)
	p.changes(planlog.Changes{Counts: planlog.Counts{Update: 1}, Total: 1})
	p.template(builder.WithModule("# corrected"))
	p.look()
	require.NotNil(t, p.preview())
	assert.Nil(t, p.workspace("demo-vpc"))
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForProof")
}

func TestImportsAndOutputsTouchNoResource(t *testing.T) {
	for name, row := range map[string]struct {
		changes planlog.Changes
		want    bool
	}{
		"imports":            {planlog.Changes{Counts: planlog.Counts{Import: 2}, Total: 2, OutputTotal: 1}, true},
		"outputs":            {planlog.Changes{OutputTotal: 3}, true},
		"import and update":  {planlog.Changes{Counts: planlog.Counts{Import: 1, Update: 1}, Total: 1}, false},
		"move":               {planlog.Changes{Counts: planlog.Counts{Move: 1}, Total: 1}, false},
		"forget":             {planlog.Changes{Counts: planlog.Counts{Forget: 1}, Total: 1}, false},
		"drift":              {planlog.Changes{DriftTotal: 1}, false},
		"nothing is listed":  {planlog.Changes{}, false},
		"create and outputs": {planlog.Changes{Counts: planlog.Counts{Create: 1}, Total: 1, OutputTotal: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTaking(t)
			p.changes(row.changes)
			assert.Equal(t, row.want, p.workspace("demo-vpc") != nil)
		})
	}
}

// inUse is a Workspace with the state, in a namespace.
func inUse(namespace, config string) *unstructured.Unstructured {
	workspace := builder.Workspace("other", builder.AtRest, builder.WithNamespace(namespace), builder.WithAnnotation(render.ExternalNameAnnotation, "shop"))
	workspace.SetUID(uuid.NewUUID())
	must(unstructured.SetNestedStringMap(workspace.Object, map[string]string{"kind": "ClusterProviderConfig", "name": config}, "spec", "providerConfigRef"))
	return workspace
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func configWith(name, bucket string) *unstructured.Unstructured {
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": "terraform {\n  backend \"s3\" {\n    bucket = \"" + bucket + "\"\n  }\n}\n"}}}
	config.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind().GroupVersion().WithKind("ClusterProviderConfig"))
	config.SetName(name)
	return config
}

func TestAStateThatAnotherObjectHasIsNotPlanned(t *testing.T) {
	derived := naming.ExternalName("", types.NamespacedName{Namespace: "team-b", Name: "eks"})
	recorded := builder.WorkspaceTemplateApply("eks", builder.WithNamespace("team-b"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{APIVersion: "tf.m.upbound.io/v1beta1", Name: "gone", Namespace: "team-b", UID: "gone", ExternalName: "shop"}
	}))
	for name, row := range map[string]struct {
		objects []client.Object
		state   string
		want    string
	}{
		"a Workspace of the namespace":        {[]client.Object{inUse(builder.Namespace, "aws")}, "shop", "Workspace other"},
		"a Workspace of another namespace":    {[]client.Object{inUse("team-b", "aws")}, "shop", "a Workspace of another namespace"},
		"another ProviderConfig, not known":   {[]client.Object{inUse("team-b", "copy")}, "shop", "a Workspace of another namespace"},
		"another ProviderConfig, same place":  {[]client.Object{inUse("team-b", "copy"), configWith("aws", "one"), configWith("copy", "one")}, "shop", "a Workspace of another namespace"},
		"another backend":                     {[]client.Object{inUse("team-b", "copy"), configWith("aws", "one"), configWith("copy", "two")}, "shop", ""},
		"a record without a Workspace":        {[]client.Object{recorded}, "shop", "a WorkspaceTemplateApply of another namespace"},
		"the future state of another object":  {[]client.Object{builder.WorkspaceTemplateApply("eks", builder.WithNamespace("team-b"))}, derived, "a WorkspaceTemplateApply of another namespace"},
		"an older object that takes it over":  {[]client.Object{builder.WorkspaceTemplateApply("eks", takesOver("shop"), builder.WithCreation(builder.Created.Add(-time.Hour)))}, "shop", "WorkspaceTemplateApply eks"},
		"a younger object that takes it over": {[]client.Object{builder.WorkspaceTemplateApply("eks", takesOver("shop"), builder.WithCreation(builder.Created.Add(time.Hour)))}, "shop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTaking(t, row.objects...)
			p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.TerraformState.Name = row.state })
			p.look()
			if row.want == "" {
				require.NotNil(t, p.preview())
				return
			}
			assert.Contains(t, p.ready("demo-vpc"), "False WorkspaceConflict: Terraform state "+row.state+" of spec.terraformState is in use by "+row.want+":")
			assert.Nil(t, p.preview())
			assert.NotContains(t, strings.ReplaceAll(p.ready("demo-vpc"), row.state, ""), "team-b")
		})
	}
}

// The cache may lack what another manager, or another worker, has just created.
func TestAStateThatAnotherObjectGotMeanwhileIsNotTakenOver(t *testing.T) {
	p := newTaking(t)
	p.look()
	p.shows(builder.AtRest, "abc")
	stale := p.reconciler.Uncached
	p.reconciler.Uncached = withWorkspace{stale, inUse("team-b", "aws")}
	_, err := p.reconcile("demo-vpc")
	require.ErrorContains(t, err, "Terraform state shop is in use by a Workspace of another namespace")
	assert.Nil(t, p.workspace("demo-vpc"))
}

// withWorkspace is a reader that has another Workspace.
type withWorkspace struct {
	client.Reader
	more *unstructured.Unstructured
}

func (w withWorkspace) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := w.Reader.List(ctx, list, options...)
	if found, ok := list.(*unstructured.UnstructuredList); ok && found.GroupVersionKind() == w.more.GroupVersionKind() {
		found.Items = append(found.Items, *w.more)
	}
	return err
}

func TestAnotherBackendThanThePermittedOneIsNotPlanned(t *testing.T) {
	p := newTaking(t)
	p.template(builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) { spec.ProviderConfigRef.Name = "other" }))
	p.look()
	assert.Contains(t, p.ready("demo-vpc"), "False ProviderConfigConflict: spec.terraformState is in the backend of ProviderConfig ClusterProviderConfig/aws, and WorkspaceTemplate default/vpc has ClusterProviderConfig/other")
	assert.Nil(t, p.preview())
}

// The owner adds variables: a plan without them would be about another content.
func TestAStateIsNotPlannedBeforeTheOwnerHasWrittenTheObject(t *testing.T) {
	p := newTaking(t)
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo"}
	})
	p.look()
	assert.Contains(t, p.ready("demo-vpc"), "False WaitingForOwner: waiting until an owner in Cluster demo refers to this object")
	assert.Nil(t, p.preview())
	assert.Nil(t, p.workspace("demo-vpc"))
}

func TestARetainedStateIsReleasedWithoutTerraform(t *testing.T) {
	p := newTaking(t)
	p.look()
	p.shows(builder.AtRest, "abc")
	p.look()
	p.provide("demo-vpc", builder.AtRest)
	p.look()
	p.look()
	p.edit("demo-vpc", func(apply *infrav1.WorkspaceTemplateApply) { apply.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
	p.look()
	p.remove(p.get("demo-vpc"))
	p.look()
	workspace := p.workspace("demo-vpc")
	require.NotNil(t, workspace)
	assert.NotNil(t, workspace.GetDeletionTimestamp())
	assert.True(t, render.OnlyObserves(workspace), "the provider must not destroy anything")
	assert.Equal(t, []string{"patch", "delete Workspace", "status"}, p.Writes, "in this order")
	p.destroyed("demo-vpc")
	p.look()
	require.Nil(t, p.workspace("demo-vpc"))
}

// newRestoring is an object of a management cluster that is being restored: each new Workspace waits for a proof.
func newRestoring(t *testing.T, options ...builder.Option) *previewing {
	t.Helper()
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplateApply("demo-vpc", options...))
	env.reconciler.ProveNew = true
	return &previewing{environment: env}
}

func TestANewWorkspaceWaitsForAProofOfItsState(t *testing.T) {
	p := newRestoring(t)
	p.look()
	preview := p.preview()
	require.NotNil(t, preview)
	assert.True(t, render.OnlyObserves(preview))
	assert.Equal(t, naming.ExternalName("", naming.KeyOf(p.get("demo-vpc"))), preview.GetAnnotations()[render.ExternalNameAnnotation])
	assert.Nil(t, p.workspace("demo-vpc"), "nothing is created before the plan")

	p.shows(builder.AtRest, "abc")
	p.look()
	require.NotNil(t, p.workspace("demo-vpc"))
	assert.Empty(t, p.get("demo-vpc").Spec.TerraformState, "its state has the name that CAPT derives")

	p.provide("demo-vpc", builder.ResourcesExist)
	p.look()
	assert.Equal(t, "adopted", p.workspace("demo-vpc").GetAnnotations()[naming.ResumedAnnotation], "the provider must report before its next poll")
}

func TestANewWorkspaceWithoutAStateIsNotCreated(t *testing.T) {
	p := newRestoring(t)
	p.look()
	p.changes(planlog.Changes{Counts: planlog.Counts{Create: 1}, Total: 1})
	assert.Nil(t, p.workspace("demo-vpc"))
	assert.Contains(t, p.ready("demo-vpc"), "False NotProven: Workspace demo-vpc is not created, because the manager runs with --prove-new-workspaces")

	p.reconciler.ProveNew = false
	p.look()
	p.look()
	require.NotNil(t, p.workspace("demo-vpc"), "without the flag, it is created")
	assert.Nil(t, p.preview(), "its preview is deleted")
}

func TestAStateMovesToTheOtherScopeOnlyAfterAProof(t *testing.T) {
	env := newEnvironment(t, builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("wide", builder.WithScope(terraform.ScopeCluster)), builder.WorkspaceTemplateApply("demo-vpc"))
	env.rest("demo-vpc")
	env.provide("demo-vpc", builder.AtRest)
	env.rest("demo-vpc")
	wide := func() (found []unstructured.Unstructured) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind().GroupVersion().WithKind("WorkspaceList"))
		require.NoError(t, env.API.List(t.Context(), list))
		return list.Items
	}
	env.edit("demo-vpc", func(a *infrav1.WorkspaceTemplateApply) {
		a.Spec.TemplateRef.Name, a.Annotations[naming.EvacuateAnnotation] = "wide", "first"
	})
	env.look()
	require.Len(t, wide(), 1, "the plan in the other scope is wanted")
	assert.True(t, render.OnlyObserves(&wide()[0]))
	assert.Equal(t, env.workspace("demo-vpc").GetAnnotations()[render.ExternalNameAnnotation], wide()[0].GetAnnotations()[render.ExternalNameAnnotation], "the same state")
	assert.Contains(t, env.ready("demo-vpc"), "False WorkspaceScopeConflict")

	live := env.workspace("demo-vpc")
	live.SetFinalizers(nil)
	require.NoError(t, env.API.Update(t.Context(), live))
	require.NoError(t, client.IgnoreNotFound(env.API.Delete(t.Context(), live)))
	env.look()
	require.Len(t, wide(), 1, "no Workspace is created before the plan is known")
	assert.True(t, render.OnlyObserves(&wide()[0]))
	assert.Contains(t, env.ready("demo-vpc"), "False WaitingForProof")
}
