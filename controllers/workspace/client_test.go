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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

// environment is an API server with Workspaces, a cache, and the recorded requests.
type environment struct {
	*Client
	api     client.WithWatch
	watched []terraform.Scope
	applied []client.ApplyOptions
	deleted []client.DeleteOptions
	// refuse is the error of the next apply.
	refuse error
}

// newEnvironment installs the kinds of the scopes. The cache holds nothing; the API server holds the objects.
func newEnvironment(t *testing.T, scopes []terraform.Scope, objects ...client.Object) *environment {
	t.Helper()
	env := &environment{}
	funcs := interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if env.refuse != nil {
				return env.refuse
			}
			options := client.ApplyOptions{}
			options.ApplyOptions(opts)
			env.applied = append(env.applied, options)
			return c.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			options := client.DeleteOptions{}
			options.ApplyOptions(opts)
			env.deleted = append(env.deleted, options)
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
	env.api = builder.Clients(objects...).WithRESTMapper(mapper(scopes)).Build()
	env.Client = &Client{
		Client: interceptor.NewClient(env.api, funcs), Uncached: env.api,
		Watch: func(_ context.Context, scope terraform.Scope) error {
			env.watched = append(env.watched, scope)
			return nil
		},
	}
	return env
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
	env := newEnvironment(t, nil)
	live, err := env.Get(ctx, terraform.ScopeNamespaced, "default", "demo-vpc")
	require.ErrorIs(t, err, ErrKindMissing)
	assert.Nil(t, live)
	assert.Empty(t, env.watched, "a missing kind cannot be watched")
}

// A recorded scope is the only one that is read.
func TestReadingStartsTheWatchOfTheScope(t *testing.T) {
	wide := builder.Workspace("demo-vpc", builder.AtRest, builder.InClusterScope())
	env := newEnvironment(t, terraform.Scopes(), wide)
	env.Client.Client = env.api // The cache is up to date.
	live, err := env.Get(ctx, terraform.ScopeNamespaced, "default", "demo-vpc")
	require.NoError(t, err)
	assert.Nil(t, live, "a missing Workspace is not an error")
	assert.Equal(t, []terraform.Scope{terraform.ScopeNamespaced}, env.watched)

	env = newEnvironment(t, terraform.Scopes(), wide)
	_, err = env.Recorded(ctx, builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc"), builder.WithRecordedWorkspace(wide)), nil)
	require.NoError(t, err)
	assert.Equal(t, []terraform.Scope{terraform.ScopeCluster}, env.watched)
	assert.Equal(t, terraform.Scopes(), scopesOf(&infrav1.WorkspaceReference{APIVersion: "tf.example.com/v1"}), "an unknown scope means both")
}

func TestAWorkspaceIsCreatedByServerSideApply(t *testing.T) {
	rendered := rendering{}.must(t)
	before := rendered.Object.DeepCopy()
	env := newEnvironment(t, terraform.Scopes())
	live, err := env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendered)
	require.NoError(t, err)
	assert.Equal(t, before, rendered.Object, "it is not modified")
	assert.False(t, rendered.Differs(live.Unstructured))
	assert.Equal(t, render.Owned, live.Owner(builder.WorkspaceTemplateApply("demo-vpc"), nil))
	_, err = env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendered)
	require.NoError(t, err)
	require.Len(t, env.applied, 1, "one that exists is kept, though the cache does not show it")
	assert.Equal(t, naming.WorkspaceTemplateApplyFieldManager, env.applied[0].FieldManager)
	assert.True(t, *env.applied[0].Force)
}

// Another manager may have become leader and released the object.
func TestNothingIsCreatedForADeletedObject(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes())
	env.Uncached = interceptor.NewClient(env.api, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, isWorkspace := object.(*unstructured.Unstructured); isWorkspace { // It is deleted as late as possible.
			require.NoError(t, client.IgnoreNotFound(env.api.Delete(ctx, builder.WorkspaceTemplateApply("demo-vpc"))))
		}
		return c.Get(ctx, key, object, options...)
	}})
	_, err := env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.ErrorContains(t, err, "was deleted during the reconcile")
	assert.Empty(t, env.applied)
}

func TestANotServedKindIsNotAMissingWorkspace(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes())
	env.Uncached = builder.FailingGet[client.Object](env.api,
		apierrors.NewGenericServerResponse(404, "GET", schema.GroupResource{Resource: "workspaces"}, "demo-vpc", "404 page not found", 0, true))
	_, err := env.Recorded(ctx, builder.WorkspaceTemplateApply("demo-vpc", builder.WithWorkspaceName("demo-vpc")), nil)
	require.ErrorIs(t, err, ErrKindNotServed)
}

func TestAStaleCacheIsBypassed(t *testing.T) {
	rendered := rendering{}.must(t)
	env := newEnvironment(t, terraform.Scopes())
	_, err := env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendered)
	require.NoError(t, err)
	stale := asLive(t, rendered)
	stale.SetResourceVersion("5")
	written := stale.DeepCopy()
	written.SetResourceVersion("7")
	env.written.Record(written)
	cache := fake.NewClientBuilder().WithScheme(builder.Scheme()).WithRESTMapper(mapper(terraform.Scopes())).
		WithObjects(builder.WorkspaceDefinition(terraform.ScopeNamespaced)).Build()
	env.Client.Client = interceptor.NewClient(cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if found, ok := object.(*unstructured.Unstructured); ok && found.GetKind() == "Workspace" {
				stale.DeepCopyInto(found)
				return nil
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
	live, err := env.Get(ctx, terraform.ScopeNamespaced, "default", "demo-vpc")
	require.NoError(t, err)
	assert.NotEqual(t, "5", live.GetResourceVersion())
}

// During one creation, another one completes.
func TestCreationsOfDifferentNamesAreConcurrent(t *testing.T) {
	other := builder.WorkspaceTemplateApply("other-vpc")
	env := newEnvironment(t, terraform.Scopes(), other)
	rendered, errs := render.Workspace(render.Input{Apply: other, Template: builder.WorkspaceTemplate("vpc"), Name: "other-vpc"})
	require.Empty(t, errs)
	created, started := make(chan error, 1), atomic.Bool{}
	env.Uncached = interceptor.NewClient(env.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if started.Swap(true) {
				return c.Get(ctx, key, obj, opts...)
			}
			go func() {
				_, err := env.Create(ctx, other, rendered)
				created <- err
			}()
			select {
			case err := <-created:
				assert.NoError(t, err)
			case <-time.After(time.Minute):
				t.Error("the other creation does not complete")
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	_, err := env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.NoError(t, err)
	assert.Len(t, env.applied, 2)
}

func TestUpdateHasAUIDPrecondition(t *testing.T) {
	env := newEnvironment(t, terraform.Scopes())
	live, err := env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
	require.NoError(t, err)
	changed := rendering{template: []builder.Option{builder.WithModule("# another")}}.must(t)
	require.True(t, changed.Differs(live.Unstructured))
	edited := builder.WorkspaceTemplateApply("demo-vpc")
	edited.Generation++
	_, err = env.Update(ctx, edited, live, changed)
	require.ErrorContains(t, err, "was changed during the reconcile")
	live, err = env.Update(ctx, builder.WorkspaceTemplateApply("demo-vpc"), live, changed)
	require.NoError(t, err)
	assert.False(t, changed.Differs(live.Unstructured))

	env.Client.Client = interceptor.NewClient(env.api, interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			assert.Equal(t, types.UID("Workspace/demo-vpc"), obj.(interface{ GetUID() types.UID }).GetUID())
			return errors.New("sent")
		},
	})
	_, err = env.Update(ctx, builder.WorkspaceTemplateApply("demo-vpc"), mustLive(t, asLive(t, changed)), changed)
	require.ErrorContains(t, err, "sent")
}

func TestClassesOfApplyErrors(t *testing.T) {
	gk := terraform.ScopeNamespaced.GroupVersionKind().GroupKind()
	for name, row := range map[string]struct {
		err      error
		rejected bool
		missing  bool
	}{
		"invalid":       {apierrors.NewInvalid(gk, "demo-vpc", nil), true, false},
		"bad request":   {apierrors.NewBadRequest("no"), true, false},
		"too large":     {apierrors.NewRequestEntityTooLargeError("no"), true, false},
		"unknown field": {apierrors.NewInternalError(errors.New("failed to create typed patch object (/demo-vpc; tf.m.upbound.io/v1beta1, Kind=Workspace): .spec.future: field not declared in schema")), true, false},
		"kind deleted":  {&meta.NoKindMatchError{GroupKind: gk}, false, true},
		"conflict":      {apierrors.NewConflict(schema.GroupResource{}, "demo-vpc", errors.New("UID")), false, false},
		"unavailable":   {apierrors.NewServiceUnavailable("later"), false, false},
		"forbidden":     {apierrors.NewForbidden(schema.GroupResource{}, "demo-vpc", errors.New("RBAC")), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			env := newEnvironment(t, terraform.Scopes())
			env.refuse = row.err
			_, err := env.Create(ctx, builder.WorkspaceTemplateApply("demo-vpc"), rendering{}.must(t))
			require.Error(t, err)
			var rejected *RejectedError
			assert.Equal(t, row.rejected, errors.As(err, &rejected))
			assert.Equal(t, row.missing, errors.Is(err, ErrKindMissing))
			assert.Equal(t, apierrors.IsConflict(row.err), apierrors.IsConflict(err), "a conflict stays one")
		})
	}
}

func TestDeleteHasAUIDPrecondition(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest)
	env := newEnvironment(t, terraform.Scopes(), workspace)
	for range 2 { // A missing one is deleted.
		require.NoError(t, env.Delete(ctx, builder.WorkspaceTemplateApply("demo-vpc"), mustLive(t, workspace)))
		require.NotNil(t, env.deleted[0].Preconditions)
		assert.Equal(t, workspace.GetUID(), *env.deleted[0].Preconditions.UID)
	}
}

// A manager that has lost its leadership must not destroy the Workspace of a WorkspaceTemplateApply that was created again.
func TestDeleteRequiresTheWorkspaceTemplateApply(t *testing.T) {
	workspace := builder.Workspace("demo-vpc", builder.AtRest)
	env := newEnvironment(t, terraform.Scopes(), workspace)
	former := builder.WorkspaceTemplateApply("demo-vpc")
	former.UID = "former"
	require.ErrorContains(t, env.Delete(ctx, former, mustLive(t, workspace)), "was deleted during the reconcile")
	assert.Empty(t, env.deleted)
}

func TestRecorded(t *testing.T) {
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
		"no name":                           {terraform.Scopes(), []client.Object{ours}, nil, rendered, nil, false},
		"by name and claim, status lost":    {terraform.Scopes(), []client.Object{ours}, []builder.Option{named}, nil, ours, false},
		"in the other scope":                {terraform.Scopes(), []client.Object{wide}, []builder.Option{named}, nil, wide, false},
		"only the other scope is installed": {[]terraform.Scope{terraform.ScopeCluster}, []client.Object{wide}, []builder.Option{named}, nil, wide, false},
		"by UID":                            {terraform.Scopes(), []client.Object{unclaimed}, []builder.Option{named, builder.WithRecordedWorkspace(unclaimed)}, nil, unclaimed, false},
		"by rendered spec":                  {terraform.Scopes(), []client.Object{unclaimed}, []builder.Option{named}, rendered, unclaimed, false},
		"only one of another owner":         {terraform.Scopes(), []client.Object{unclaimed}, []builder.Option{named}, nil, unclaimed, false},
		"owned before one of another owner": {terraform.Scopes(), []client.Object{unclaimed, wide}, []builder.Option{named}, nil, wide, false},
		"gone":                              {terraform.Scopes(), nil, []builder.Option{named}, nil, nil, false},
		"no kind installed, none recorded":  {nil, nil, []builder.Option{named}, nil, nil, false},
		"recorded kind not installed":       {nil, nil, []builder.Option{named, builder.WithRecordedWorkspace(ours)}, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			live, err := newEnvironment(t, row.scopes, row.objects...).Recorded(ctx, builder.WorkspaceTemplateApply("demo-vpc", row.apply...), row.rendered)
			assert.Equal(t, row.missing, errors.Is(err, ErrKindMissing))
			if row.want == nil {
				assert.Nil(t, live)
				return
			}
			require.NoError(t, err)
			require.NotNil(t, live, "the cache is empty")
			assert.Equal(t, row.want.GetAPIVersion(), render.ReferenceTo(live.Unstructured).APIVersion)
		})
	}
}
