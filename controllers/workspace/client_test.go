// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace/render"
	"github.com/capt-provider/capt/test/builder"
)

// world is an API server with Workspaces, a cache of it, and what was asked of them.
type world struct {
	*Client
	api     client.WithWatch
	watched []terraform.Scope
	applied []client.ApplyOptions
	deleted []client.DeleteOptions
	// refuse is what the next apply fails with.
	refuse error
}

// newWorld installs the kinds of the scopes. The cache holds nothing; the API server holds the objects.
func newWorld(t *testing.T, scopes []terraform.Scope, objects ...client.Object) *world {
	t.Helper()
	w := &world{}
	funcs := interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if w.refuse != nil {
				return w.refuse
			}
			options := client.ApplyOptions{}
			options.ApplyOptions(opts)
			w.applied = append(w.applied, options)
			return c.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			options := client.DeleteOptions{}
			options.ApplyOptions(opts)
			w.deleted = append(w.deleted, options)
			return c.Delete(ctx, obj)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, definition := obj.(*metav1.PartialObjectMetadata); definition {
				return c.Get(ctx, key, obj, opts...)
			}
			return apierrors.NewNotFound(schema.GroupResource{Resource: "workspaces"}, key.Name) // An empty cache.
		},
	}
	objects = append(objects, builder.WorkspaceTemplateApply("demo-vpc"))
	for _, scope := range scopes {
		objects = append(objects, builder.WorkspaceDefinition(scope))
	}
	w.api = fake.NewClientBuilder().WithScheme(builder.Scheme()).WithRESTMapper(mapper(scopes)).WithObjects(objects...).WithReturnManagedFields().Build()
	w.Client = &Client{
		Client: interceptor.NewClient(w.api, funcs), Uncached: w.api,
		Watch: func(_ context.Context, scope terraform.Scope) error {
			w.watched = append(w.watched, scope)
			return nil
		},
	}
	return w
}

// caughtUp lets the cache show what the API server has.
func (w *world) caughtUp() *world {
	w.Client.Client = w.api
	return w
}

func mapper(scopes []terraform.Scope) meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	for _, scope := range scopes {
		kind := meta.RESTScopeNamespace
		if scope == terraform.ScopeCluster {
			kind = meta.RESTScopeRoot
		}
		m.Add(scope.GroupVersionKind(), kind)
	}
	return m
}

var ctx = context.Background()

func TestReadingAKindThatIsNotInstalled(t *testing.T) {
	w := newWorld(t, nil)
	live, err := w.Get(ctx, terraform.ScopeNamespaced, "default", "demo-vpc")
	require.ErrorIs(t, err, ErrKindMissing)
	assert.Nil(t, live)
	assert.Empty(t, w.watched, "what is not there can not be watched")
}

func TestReadingStartsTheWatchOfTheScope(t *testing.T) {
	w := newWorld(t, terraform.Scopes()).caughtUp()
	live, err := w.Get(ctx, terraform.ScopeCluster, "default", "demo-vpc")
	require.NoError(t, err)
	assert.Nil(t, live, "it does not exist, which is no error")
	assert.Equal(t, []terraform.Scope{terraform.ScopeCluster}, w.watched)
}

func TestReadingAWorkspaceOfEitherScope(t *testing.T) {
	namespaced := builder.Workspace("demo-vpc", builder.AtRest)
	clusterWide := builder.Workspace("demo-vpc", builder.AtRest, builder.InClusterScope(), builder.WithUID("wide"))
	w := newWorld(t, terraform.Scopes(), namespaced, clusterWide).caughtUp()

	live, err := w.Get(ctx, terraform.ScopeNamespaced, "default", "demo-vpc")
	require.NoError(t, err)
	assert.Equal(t, namespaced.GetUID(), live.UID())
	live, err = w.Get(ctx, terraform.ScopeCluster, "default", "demo-vpc")
	require.NoError(t, err)
	assert.Equal(t, clusterWide.GetUID(), live.UID())
}

func TestAWorkspaceIsCreatedByServerSideApply(t *testing.T) {
	rendered := rendering{}.must(t)
	w := newWorld(t, terraform.Scopes())
	live, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendered)
	require.NoError(t, err)
	assert.False(t, live.Differs(rendered))
	assert.Equal(t, Owned, live.Owner(builder.WorkspaceTemplateApply("demo-vpc"), nil))

	require.Len(t, w.applied, 1)
	assert.Equal(t, naming.WorkspaceTemplateApplyFieldManager, w.applied[0].FieldManager)
	assert.True(t, *w.applied[0].Force)
}

// The cache may not show it yet, or never will: a Workspace is not made over another one.
// Another manager may have taken over, and released the object.
func TestNothingIsCreatedForAnObjectThatIsGone(t *testing.T) {
	w := newWorld(t, terraform.Scopes())
	require.NoError(t, w.api.Delete(ctx, builder.WorkspaceTemplateApply("demo-vpc")))
	_, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.ErrorContains(t, err, "was deleted in the meantime")
	assert.Empty(t, w.applied)
}

// A kind that is not served says nothing about the Workspaces there are.
func TestAKindThatIsNotServedIsNotAWorkspaceThatIsGone(t *testing.T) {
	w := newWorld(t, terraform.Scopes())
	w.Uncached = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
			return apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{Resource: "workspaces"}, object.GetName(), "404 page not found", 0, true)
		},
	})
	_, err := w.Recorded(ctx, builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc")), nil)
	require.ErrorIs(t, err, ErrKindNotServed)
}

// What this process wrote is newer than what the cache shows.
func TestAWorkspaceThatTheCacheShowsTooLateIsReadPastIt(t *testing.T) {
	rendered := rendering{}.must(t)
	w := newWorld(t, terraform.Scopes())
	_, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendered)
	require.NoError(t, err)
	stale := asLive(t, rendered)
	stale.SetResourceVersion("5")
	written := stale.DeepCopy()
	written.SetResourceVersion("7")
	w.written.Record(written)
	cache := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithRESTMapper(mapper(terraform.Scopes())).
		WithObjects(builder.WorkspaceDefinition(terraform.ScopeNamespaced)).Build()
	w.Client.Client = interceptor.NewClient(cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if found, ok := object.(*unstructured.Unstructured); ok && found.GetKind() == "Workspace" {
				stale.DeepCopyInto(found)
				return nil
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	live, err := w.Get(ctx, terraform.ScopeNamespaced, "default", "demo-vpc")
	require.NoError(t, err)
	assert.NotEqual(t, "5", live.object.GetResourceVersion())
}

func TestCreatingLooksPastTheCacheAndLeavesWhatIsThere(t *testing.T) {
	theirs := builder.Workspace("demo-vpc", builder.AtRest)
	w := newWorld(t, terraform.Scopes(), theirs)
	live, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.NoError(t, err)
	assert.Equal(t, theirs.GetUID(), live.UID())
	assert.Equal(t, Foreign, live.Owner(builder.WorkspaceTemplateApply("demo-vpc"), nil))
	assert.Empty(t, w.applied)
}

// While one is being made, another is made from its beginning to its end.
func TestNobodyWaitsForAWorkspaceOfAnotherName(t *testing.T) {
	other := builder.WorkspaceTemplateApply("other-vpc")
	w := newWorld(t, terraform.Scopes(), other)
	rendered, errs := render.Workspace(render.Input{Apply: other, Template: builder.WorkspaceTemplate("vpc"), Name: "other-vpc"})
	require.Empty(t, errs)
	made, begun := make(chan error, 1), atomic.Bool{}
	w.Uncached = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if begun.Swap(true) {
				return c.Get(ctx, key, obj, opts...)
			}
			go func() {
				_, err := w.Create(ctx, other, rendered)
				made <- err
			}()
			select {
			case err := <-made:
				assert.NoError(t, err)
			case <-time.After(time.Minute):
				t.Error("the other one is not made meanwhile")
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	_, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.NoError(t, err)
	assert.Len(t, w.applied, 2)
}

func TestCreatingChangesNothingInWhatWasRendered(t *testing.T) {
	rendered := rendering{}.must(t)
	before := rendered.Object.DeepCopy()
	_, err := newWorld(t, terraform.Scopes()).Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendered)
	require.NoError(t, err)
	assert.Equal(t, before, rendered.Object)
}

func TestAWorkspaceIsUpdatedToWhatWasRendered(t *testing.T) {
	w := newWorld(t, terraform.Scopes())
	live, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.NoError(t, err)
	changed := rendering{template: []builder.Option{builder.WithModule("# another")}}.must(t)
	require.True(t, live.Differs(changed))

	live, err = w.Update(ctx, live, changed)
	require.NoError(t, err)
	assert.False(t, live.Differs(changed))
}

func TestAnUpdateNamesTheVeryWorkspaceItMeans(t *testing.T) {
	w := newWorld(t, terraform.Scopes())
	var sent []string
	w.Client.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			sent = append(sent, string(uidOf(t, obj)))
			return nil
		},
	})
	rendered := rendering{}.must(t)
	_, err := w.Update(ctx, mustLive(t, asLive(t, rendered)), rendered)
	require.NoError(t, err)
	assert.Equal(t, []string{"Workspace/demo-vpc"}, sent)
}

func TestRefusals(t *testing.T) {
	gk := terraform.ScopeNamespaced.GroupVersionKind().GroupKind()
	for name, row := range map[string]struct {
		err      error
		rejected bool
		missing  bool
	}{
		"invalid":                 {apierrors.NewInvalid(gk, "demo-vpc", nil), true, false},
		"bad request":             {apierrors.NewBadRequest("no"), true, false},
		"too large":               {apierrors.NewRequestEntityTooLargeError("no"), true, false},
		"a field the CRD has not": {apierrors.NewInternalError(errors.New("failed to create typed patch object (/demo-vpc; tf.m.upbound.io/v1beta1, Kind=Workspace): .spec.future: field not declared in schema")), true, false},
		"the kind went away":      {&meta.NoKindMatchError{GroupKind: gk}, false, true},
		"conflict":                {apierrors.NewConflict(schema.GroupResource{}, "demo-vpc", errors.New("UID")), false, false},
		"the server is not up":    {apierrors.NewServiceUnavailable("later"), false, false},
		"forbidden, for now":      {apierrors.NewForbidden(schema.GroupResource{}, "demo-vpc", errors.New("RBAC")), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, terraform.Scopes())
			w.refuse = row.err
			_, err := w.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
			require.Error(t, err)
			var rejected *RejectedError
			assert.Equal(t, row.rejected, errors.As(err, &rejected))
			assert.Equal(t, row.missing, errors.Is(err, ErrKindMissing))
			assert.Equal(t, apierrors.IsConflict(row.err), apierrors.IsConflict(err), "a conflict stays one")
		})
	}
}

func TestOnlyTheVeryWorkspaceIsDeleted(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest)
	w := newWorld(t, terraform.Scopes(), workspace)
	require.NoError(t, w.Delete(ctx, mustLive(t, workspace)))
	require.Len(t, w.deleted, 1)
	require.NotNil(t, w.deleted[0].Preconditions)
	assert.Equal(t, workspace.GetUID(), *w.deleted[0].Preconditions.UID)
}

func TestAWorkspaceThatIsGoneIsDeleted(t *testing.T) {
	w := newWorld(t, terraform.Scopes())
	require.NoError(t, w.Delete(ctx, mustLive(t, builder.Workspace("demo-vpc", builder.AtRest))))
}

func TestTheRecordedWorkspace(t *testing.T) {
	rendered := rendering{}.must(t)
	ours := asLive(t, rendered)
	wide := asLive(t, rendering{template: []builder.Option{builder.WithScope(terraform.ScopeCluster)}}.must(t))
	unclaimed := adopted(t, rendered)
	named := builder.WithWorkspaceName("demo-vpc")

	for name, row := range map[string]struct {
		scopes   []terraform.Scope
		objects  []client.Object
		apply    []builder.Option
		rendered *render.Rendered
		want     *unstructured.Unstructured
		missing  bool
	}{
		"none was ever named":                             {terraform.Scopes(), []client.Object{ours}, nil, rendered, nil, false},
		"found by name and claim, though status was lost": {terraform.Scopes(), []client.Object{ours}, []builder.Option{named}, nil, ours, false},
		"found in the other scope":                        {terraform.Scopes(), []client.Object{wide}, []builder.Option{named}, nil, wide, false},
		"found when only the other scope is installed":    {[]terraform.Scope{terraform.ScopeCluster}, []client.Object{wide}, []builder.Option{named}, nil, wide, false},
		"found by its UID":                                {terraform.Scopes(), []client.Object{unclaimed}, []builder.Option{named, builder.WithRecordedWorkspace(unclaimed)}, nil, unclaimed, false},
		"found by what would be rendered":                 {terraform.Scopes(), []client.Object{unclaimed}, []builder.Option{named}, rendered, unclaimed, false},
		"somebody else's is told, for want of one":        {terraform.Scopes(), []client.Object{unclaimed}, []builder.Option{named}, nil, unclaimed, false},
		"its own counts more than somebody else's":        {terraform.Scopes(), []client.Object{unclaimed, wide}, []builder.Option{named}, nil, wide, false},
		"gone": {terraform.Scopes(), nil, []builder.Option{named}, nil, nil, false},
		"neither kind is installed, and none was recorded": {nil, nil, []builder.Option{named}, nil, nil, false},
		"its kind is not installed":                        {nil, nil, []builder.Option{named, builder.WithRecordedWorkspace(ours)}, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			live, err := newWorld(t, row.scopes, row.objects...).Recorded(ctx, builder.WorkspaceTemplateApply("demo-vpc", row.apply...), row.rendered)
			assert.Equal(t, row.missing, errors.Is(err, ErrKindMissing))
			if row.want == nil {
				assert.Nil(t, live)
				return
			}
			require.NoError(t, err)
			require.NotNil(t, live, "the cache is empty, so this looks past it")
			assert.Equal(t, row.want.GetAPIVersion(), live.Reference().APIVersion)
		})
	}
}

func TestARecordedScopeIsTheOnlyOneLookedAt(t *testing.T) {
	wide := builder.Workspace("demo-vpc", builder.AtRest, builder.InClusterScope())
	w := newWorld(t, terraform.Scopes(), wide)
	_, err := w.Recorded(ctx, builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"), builder.WithRecordedWorkspace(wide)), nil)
	require.NoError(t, err)
	assert.Equal(t, []terraform.Scope{terraform.ScopeCluster}, w.watched)
}

func TestAScopeThatNobodyKnowsMeansBoth(t *testing.T) {
	assert.Equal(t, terraform.Scopes(), scopesOf(&infrav1.WorkspaceReference{APIVersion: "tf.example.com/v1"}))
}
