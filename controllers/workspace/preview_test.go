// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

var previewNow = builder.Created.Add(time.Hour)

// checksum is set after a plan.
func checksum() builder.Option {
	return builder.With(func(object *unstructured.Unstructured) {
		must(unstructured.SetNestedField(object.Object, "abc", "status", "atProvider", "checksum"))
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// looked says that a plan was requested some time ago, when the preview had a checksum.
func looked(ago time.Duration, had string) builder.Option {
	return builder.WithAnnotation(naming.PreviewLookAnnotation, previewNow.Add(-ago).Format(time.RFC3339)+"/"+had)
}

// withoutText is the error of a plan that wrote nothing to standard error.
var withoutText = builder.WithError(`observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: . To see the full error run: ` +
	`echo "H4sIAGYQDGsC/wMAAAAAAAAAAAA=" | base64 -d | gunzip`)

// The rows are those of docs/provider-terraform.md.
func TestObservePreview(t *testing.T) {
	for name, row := range map[string]struct {
		row     builder.Row
		options []builder.Option
		want    PreviewObservation
	}{
		"not reached":                         {builder.Queued, nil, PreviewObservation{}},
		"the first look of an empty plan":     {builder.ResourcesExist, nil, PreviewObservation{Replan: true}},
		"waiting for the second":              {builder.ResourcesExist, []builder.Option{looked(10*time.Second, "")}, PreviewObservation{RequeueAfter: 20 * time.Second}},
		"the second look was missed":          {builder.ResourcesExist, []builder.Option{looked(30*time.Second, "")}, PreviewObservation{Replan: true}},
		"Ready without a checksum":            {builder.AtRest, []builder.Option{looked(time.Second, "")}, PreviewObservation{RequeueAfter: 29 * time.Second}},
		"empty":                               {builder.AtRest, []builder.Option{checksum(), looked(time.Second, "")}, PreviewObservation{Result: infrav1.PreviewEmpty}},
		"changes after the first look":        {builder.ResourcesExist, []builder.Option{checksum()}, PreviewObservation{Replan: true}},
		"changes after a second look":         {builder.ResourcesExist, []builder.Option{checksum(), looked(time.Second, "")}, PreviewObservation{Result: infrav1.PreviewChanges}},
		"changes, and a second look may come": {builder.ResourcesExist, []builder.Option{checksum(), looked(time.Second, "abc")}, PreviewObservation{RequeueAfter: 9 * time.Second}},
		"changes after both looks":            {builder.ResourcesExist, []builder.Option{checksum(), looked(10*time.Second, "abc")}, PreviewObservation{Result: infrav1.PreviewChanges}},
		"paused by another client": {builder.WorkspacePaused, []builder.Option{checksum()},
			PreviewObservation{Result: infrav1.PreviewUnavailable, Message: "preview demo-vpc is paused by another client"}},
		"management policies are off": {builder.Queued, []builder.Option{builder.WithError("`spec.managementPolicies` is set to a non-default value but the feature is not enabled: [Observe]")},
			PreviewObservation{Result: infrav1.PreviewUnavailable, Message: "management policies of provider-terraform are off. Enable them (flag --enable-management-policies)"}},
		"a state without resources": {builder.Queued, []builder.Option{builder.WithError("observe failed: external resource does not exist")},
			PreviewObservation{Result: infrav1.PreviewChanges, Message: "the Terraform state has no resources"}},
		"a transient error": {builder.Queued, []builder.Option{builder.WithError("observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: ThrottlingException: Rate exceeded")},
			PreviewObservation{}},
		"an error that the provider has not kept": {builder.Queued, []builder.Option{withoutText, builder.With(func(object *unstructured.Unstructured) {
			must(unstructured.SetNestedStringSlice(object.Object, []string{"-json"}, "spec", "forProvider", "planArgs"))
		})}, PreviewObservation{NoText: true}},
	} {
		t.Run(name, func(t *testing.T) {
			live := mustLive(t, builder.Workspace("demo-vpc", row.row, row.options...))
			assert.Equal(t, row.want, ObservePreview(live, previewNow, report(live)))
		})
	}
	killed := mustLive(t, builder.Workspace("demo-vpc", builder.Queued, withoutText))
	assert.Equal(t, infrav1.PreviewFailed, ObservePreview(killed, previewNow, report(killed)).Result, "without -json, Terraform was killed")
	failed := mustLive(t, builder.Workspace("demo-vpc", builder.PlanFailed, checksum()))
	seen := ObservePreview(failed, previewNow, report(failed))
	assert.Equal(t, infrav1.PreviewFailed, seen.Result, "although Ready is True")
	assert.Contains(t, seen.Message, "Unsupported argument")
}

// After a restart, the API server may refuse the use of a ProviderConfig.
func TestAPreviewWithoutItsProviderConfigFailsAfterAMinute(t *testing.T) {
	live := mustLive(t, builder.Workspace("demo-vpc", builder.ProviderConfigMissing))
	since := live.condition(conditionSynced).LastTransitionTime.Time
	assert.Equal(t, PreviewObservation{RequeueAfter: 50 * time.Second}, ObservePreview(live, since.Add(10*time.Second), report(live)))
	assert.Equal(t, infrav1.PreviewFailed, ObservePreview(live, since.Add(time.Minute), report(live)).Result)
	assert.Equal(t, infrav1.PreviewFailed, ObservePreview(live, since.Add(-time.Hour), report(live)).Result, "the clocks differ")
}

func TestAPreviewBelongsToNoObject(t *testing.T) {
	rendered := rendering{}.must(t)
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	preview, err := rendered.Preview(mustLive(t, asLive(t, rendered)).Unstructured, apply)
	require.NoError(t, err)
	live := mustLive(t, preview.Object)
	apply.Annotations = map[string]string{naming.AdoptWorkspaceAnnotation: "", naming.ExternalNameAnnotation: live.ExternalName()}
	assert.Equal(t, render.Foreign, live.Owner(apply, rendered))
	unlabeled := preview.Object.DeepCopy()
	unlabeled.SetLabels(nil)
	builder.WithAnnotation(naming.ClaimAnnotation, naming.Claim(client.ObjectKeyFromObject(apply)))(unlabeled)
	assert.Equal(t, render.Foreign, mustLive(t, unlabeled).Owner(apply, rendered), "also if another client changed it")

	key, ok := ParsePreviewOf(preview.Object)
	assert.True(t, ok)
	assert.Equal(t, types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}, key)
	preview.Object.SetNamespace("other")
	_, ok = ParsePreviewOf(preview.Object)
	assert.False(t, ok, "a preview of one namespace is not about objects of another one")
	_, ok = ParsePreviewOf(asLive(t, rendered))
	assert.False(t, ok)
}

// The API server or a webhook may drop managementPolicies, and the provider would apply.
func TestAPreviewIsCreatedOnlyIfItsPoliciesAreKept(t *testing.T) {
	rendered := rendering{}.must(t)
	apply := builder.WorkspaceTemplateApply("demo-vpc")
	preview, err := rendered.Preview(mustLive(t, asLive(t, rendered)).Unstructured, apply)
	require.NoError(t, err)
	env := newEnvironment(t, terraform.Scopes())
	c, reliable := env.Client, env.api
	created := func() bool {
		found, err := get(t.Context(), reliable, terraform.ScopeNamespaced, builder.Namespace, preview.Object.GetName())
		require.NoError(t, err)
		return found != nil
	}
	c.Client = interceptor.NewClient(reliable, interceptor.Funcs{Create: func(ctx context.Context, w client.WithWatch, object client.Object, options ...client.CreateOption) error {
		unstructured.RemoveNestedField(object.(*unstructured.Unstructured).Object, "spec", "managementPolicies")
		return w.Create(ctx, object, options...)
	}})
	var rejected *RejectedError
	require.ErrorAs(t, c.CreatePreview(t.Context(), apply, preview), &rejected)
	assert.False(t, created())

	c.Client = reliable
	require.NoError(t, c.CreatePreview(t.Context(), apply, preview))
	assert.True(t, created())
	require.NoError(t, c.CreatePreview(t.Context(), apply, preview), "the cache did not have it")
	keys, err := c.Previews(t.Context(), terraform.ScopeNamespaced, time.Time{})
	require.NoError(t, err)
	assert.Equal(t, []types.NamespacedName{{Namespace: builder.Namespace, Name: "demo-vpc"}}, keys)
	keys, err = c.Previews(t.Context(), terraform.ScopeNamespaced, previewNow)
	require.NoError(t, err)
	assert.Empty(t, keys, "it was created before")

	gone := builder.WorkspaceTemplateApply("gone")
	require.ErrorContains(t, c.CreatePreview(t.Context(), gone, preview), "was deleted during the reconcile")
	c.Client = interceptor.NewClient(reliable, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errors.New("no connection")
	}})
	require.ErrorContains(t, c.CreatePreview(t.Context(), apply, preview), "no connection")
}

func TestALookChangesAnAnnotation(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes(), builder.Workspace("demo-vpc", builder.ResourcesExist, checksum()))
	env.Client.Client = env.api
	live, err := get(t.Context(), env.api, terraform.ScopeNamespaced, builder.Namespace, "demo-vpc")
	require.NoError(t, err)
	require.NoError(t, env.Replan(t.Context(), live, previewNow))
	live, err = get(t.Context(), env.api, terraform.ScopeNamespaced, builder.Namespace, "demo-vpc")
	require.NoError(t, err)
	at, had := live.lookedAt()
	assert.WithinDuration(t, previewNow, at, time.Second)
	assert.Equal(t, "abc", had)
}

// The state has sensitive outputs, which the preview writes nowhere.
func TestTheErrorOfAPreviewHasNoSecretsOfItsWorkspace(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes(), secretObjects()...)
	preview := mustLive(t, builder.Workspace("preview", builder.PlanFailed,
		builder.WithError("observe failed: cannot diff (i.e. plan) Terraform configuration: Terraform encountered an error. Summary: invalid an-output.")))
	message := env.ExplainPreview(t.Context(), preview, mustLive(t, builder.Workspace("demo-vpc", builder.AtRest, withSecrets()))).Message
	assert.Contains(t, message, "invalid")
	assert.NotContains(t, message, "an-output")
}

// orphan is a cluster-wide preview of a WorkspaceTemplateApply.
func orphan(of types.NamespacedName, options ...builder.Option) *unstructured.Unstructured {
	return builder.Workspace(of.Name+"-preview-abc", builder.ResourcesExist, append([]builder.Option{
		builder.InClusterScope(), builder.WithLabel(naming.PreviewLabel, "true"), builder.WithAnnotation(naming.PreviewOfAnnotation, of.String()),
		builder.With(func(object *unstructured.Unstructured) { must(render.OnlyObserve(object)) }),
	}, options...)...)
}

func TestOnlyThePreviewOfAnAbsentObjectIsAnOrphan(t *testing.T) {
	gone, exists := types.NamespacedName{Namespace: builder.Namespace, Name: "gone"}, types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}
	for name, row := range map[string]struct {
		of      types.NamespacedName
		object  *unstructured.Unstructured
		scopes  []terraform.Scope
		deleted int
	}{
		"an orphan":                     {gone, orphan(gone), terraform.Scopes(), 1},
		"no preview":                    {gone, nil, terraform.Scopes(), 0},
		"the object exists":             {exists, orphan(exists), terraform.Scopes(), 0},
		"the preview of another object": {gone, orphan(gone, builder.WithAnnotation(naming.PreviewOfAnnotation, "other/gone")), terraform.Scopes(), 0},
		"a Workspace with a claim":      {gone, orphan(gone, builder.WithAnnotation(naming.ClaimAnnotation, "other/gone")), terraform.Scopes(), 0},
		"no cluster-wide Workspaces":    {gone, nil, []terraform.Scope{terraform.ScopeNamespaced}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if row.object != nil {
				objects = append(objects, row.object)
			}
			env := newEnvironment(t, row.scopes, objects...)
			require.NoError(t, env.DeleteOrphanedPreviews(t.Context(), row.of))
			require.Len(t, env.deleted, row.deleted)
			assert.Empty(t, env.watched)
		})
	}
}

// Another client may allow the provider more at any moment before the deletion.
func TestOnlyTheVersionOfAPreviewThatWasCheckedIsDeleted(t *testing.T) {
	of := types.NamespacedName{Namespace: builder.Namespace, Name: "demo-vpc"}
	env := newEnvironment(t, terraform.Scopes(), orphan(of))
	read := func() *Live {
		live, err := get(t.Context(), env.api, terraform.ScopeCluster, "", of.Name+"-preview-abc")
		require.NoError(t, err)
		return live
	}
	before := read()
	changed := read().Unstructured
	must(unstructured.SetNestedStringSlice(changed.Object, []string{"*"}, "spec", "managementPolicies"))
	require.NoError(t, env.api.Update(t.Context(), changed))
	env.Client.Client = env.api
	require.ErrorContains(t, env.DeletePreview(t.Context(), before), "waiting for the preview to be read again")
	require.Nil(t, read().Unstructured.GetDeletionTimestamp())

	must(unstructured.SetNestedField(before.Unstructured.Object, []any{"*"}, "spec", "managementPolicies"))
	require.ErrorContains(t, env.DeletePreview(t.Context(), before), "waiting for the preview to be read again", "it cannot be reverted either")
	require.NoError(t, env.DeletePreview(t.Context(), read()))
	live := read()
	require.True(t, live.Deleting())
	require.True(t, live.OnlyObserves())
	require.NoError(t, env.DeletePreview(t.Context(), live))
	changed = live.Unstructured.DeepCopy()
	changed.SetFinalizers(nil)
	require.NoError(t, env.api.Update(t.Context(), changed))
	require.NoError(t, env.DeletePreview(t.Context(), live), "it is gone")
}
