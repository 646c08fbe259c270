// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion_test serves both API versions from a real API server, with CAPT's own definitions and converters. It covers
// what only an API server shows of conversion: pruning, defaulting, validation ratcheting, printed columns and warnings.
package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/converter"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// shared is the API server of the tests that need nothing but our own definitions.
var shared *environment

func TestMain(m *testing.M) { os.Exit(fixture.Suite{Start: start}.Run(m)) }

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) (err error) {
	options := sandbox.Options{
		Log: os.Stderr, NoCRDs: true,
		// A watch cache would convert everything once more that is written, for watchers that are not there.
		APIServerArgs: []string{"--watch-cache=false"},
	}
	if shared, err = newEnvironment(ctx, options); err != nil {
		return err
	}
	keep(shared.sandbox)
	if err = shared.createWithoutNetwork(ctx); err != nil {
		return err
	}
	return shared.installDefinitions(ctx)
}

const (
	// timeout is how long a test waits for what the API server does on its own, such as serving a new version.
	timeout = 5 * time.Minute
	// tick is how often it looks.
	tick = 25 * time.Millisecond
)

// environment is an API server and a webhook server that converts for it. There is no manager: only the test writes.
type environment struct {
	sandbox   *sandbox.Sandbox
	admin     client.Client
	objects   dynamic.Interface
	converter *converter.Server
}

func newEnvironment(ctx context.Context, options sandbox.Options) (*environment, error) {
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	env := &environment{sandbox: s}
	if err := env.connect(); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return env, nil
}

func (env *environment) connect() error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	var err error
	if env.admin, err = client.New(env.sandbox.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	quiet := env.sandbox.Config()
	quiet.WarningHandler = rest.NoWarnings{} // Every request in v1beta1 warns; one test looks at that.
	if env.objects, err = dynamic.NewForConfig(quiet); err != nil {
		return err
	}
	env.converter, err = converter.Serve(env.sandbox)
	return err
}

// definitions are CAPT's own, as users install them, except that this process converts.
func (env *environment) definitions() ([]*unstructured.Unstructured, error) {
	return env.converter.Definitions(filepath.Join(root, "config", "crd"))
}

// installDefinitions installs CAPT's own definitions and waits until every version is served.
func (env *environment) installDefinitions(ctx context.Context) error {
	definitions, err := env.definitions()
	if err != nil {
		return err
	}
	if err := manifests.Apply(ctx, env.admin, definitions...); err != nil {
		return err
	}
	for _, k := range kinds {
		for _, version := range versions {
			if err := env.awaitServed(ctx, k, version); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitServed returns when objects of a kind can be read in a version. A definition is established long before, when it
// replaces another.
func (env *environment) awaitServed(ctx context.Context, k kind, version string) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, tick, timeout, true, func(ctx context.Context) (bool, error) {
		list, err := env.objects.Resource(k.in(version)).List(ctx, metav1.ListOptions{Limit: 1})
		last = err
		return err == nil && list.GetAPIVersion() == k.group+"/"+version && list.GetKind() == k.name+"List", nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s of %s: %w, last: %w", version, k.name, err, last)
	}
	return nil
}

// namespace makes a namespace for a test.
func (env *environment) namespace(t *testing.T) string {
	t.Helper()
	return fixture.NewNamespace(t, env.admin)
}

// root of the repository.
const root = "../.."

const (
	spoke = "v1beta1"
	hub   = "v1beta2"
)

var versions = []string{spoke, hub}

// other version than the given one.
func other(version string) string {
	if version == hub {
		return spoke
	}
	return hub
}

// kind is one that has two versions.
type kind struct {
	name, group, resource string
	hasStatus             bool
}

const (
	infrastructure = "infrastructure.cluster.x-k8s.io"
	controlPlane   = "controlplane.cluster.x-k8s.io"
)

var (
	captCluster              = kind{"CAPTCluster", infrastructure, "captclusters", true}
	captControlPlane         = kind{"CAPTControlPlane", controlPlane, "captcontrolplanes", true}
	captControlPlaneTemplate = kind{"CAPTControlPlaneTemplate", controlPlane, "captcontrolplanetemplates", false}
	workspaceTemplate        = kind{"WorkspaceTemplate", infrastructure, "workspacetemplates", true}
	workspaceTemplateApply   = kind{"WorkspaceTemplateApply", infrastructure, "workspacetemplateapplies", true}

	kinds = []kind{captCluster, captControlPlane, captControlPlaneTemplate, workspaceTemplate, workspaceTemplateApply}
)

// kindOf an object, also of one that has the older spelling of its kind.
func kindOf(t *testing.T, object *unstructured.Unstructured) kind {
	t.Helper()
	for _, k := range kinds {
		if strings.EqualFold(k.name, object.GetKind()) {
			return k
		}
	}
	require.Failf(t, "no such kind", "%s is none of ours", object.GetKind())
	return kind{}
}

func (k kind) in(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
}

// definition is the name of the kind's CustomResourceDefinition.
func (k kind) definition() string { return k.resource + "." + k.group }

var scheme, registry = conversion.NewRegistry()

// converted is what webhooks/conversion makes of an object, without an API server.
func converted(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	result, err := conversion.Convert(t.Context(), scheme, registry, object, version)
	require.NoError(t, err)
	return result
}

// without returns a copy that lacks some fields.
func without(object *unstructured.Unstructured, paths ...string) *unstructured.Unstructured {
	object = object.DeepCopy()
	for _, path := range paths {
		unstructured.RemoveNestedField(object.Object, strings.Split(path, ".")...)
	}
	return object
}

// create creates objects in a namespace, with their status, and returns them as the API server has them.
func (env *environment) create(t *testing.T, namespace string, objects ...*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	created := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		object = without(object, "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp", "metadata.generation",
			"metadata.managedFields")
		object.SetNamespace(namespace)
		resource := env.objects.Resource(kindOf(t, object).in(object.GroupVersionKind().Version)).Namespace(namespace)
		stored, err := resource.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "older"})
		require.NoError(t, err, object.GetName())
		if status, found := object.Object["status"]; found {
			stored.Object["status"] = status
			stored, err = resource.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{FieldManager: "older-status"})
			require.NoError(t, err, object.GetName())
		}
		created[i] = stored
	}
	return created
}

// read reads an object again, in a version.
func (env *environment) read(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	read, err := env.objects.Resource(kindOf(t, object).in(version)).Namespace(object.GetNamespace()).
		Get(t.Context(), object.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	return read
}

// requireEndOfLife labels an object, lets it go and deletes it, all in one version. Some of the objects break the schema
// of v1beta2; what is not touched is not held against them.
func (env *environment) requireEndOfLife(t *testing.T, object *unstructured.Unstructured, version string) {
	t.Helper()
	resource := env.objects.Resource(kindOf(t, object).in(version)).Namespace(object.GetNamespace())
	for _, patch := range []string{`{"metadata":{"labels":{"example.com/seen":"true"}}}`, `{"metadata":{"finalizers":null}}`} {
		patched, err := resource.Patch(t.Context(), object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		require.NoError(t, err, patch)
		require.Equal(t, object.GetGeneration(), patched.GetGeneration(), patch)
	}
	intent := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"labels": map[string]any{"example.com/applied": "true"}}}}
	intent.SetGroupVersionKind(kindOf(t, object).in(version).GroupVersion().WithKind(object.GetKind()))
	intent.SetName(object.GetName())
	applied, err := resource.Apply(t.Context(), object.GetName(), intent, metav1.ApplyOptions{FieldManager: "gitops"})
	require.NoError(t, err)
	require.Equal(t, object.GetGeneration(), applied.GetGeneration())

	now := env.read(t, object, spoke)
	require.Empty(t, now.GetFinalizers())
	require.Equal(t, "true", now.GetLabels()["example.com/seen"])
	require.Equal(t, "true", now.GetLabels()["example.com/applied"])
	require.Equal(t, object.Object["spec"], now.Object["spec"])
	require.Equal(t, object.Object["status"], now.Object["status"])

	require.NoError(t, resource.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}))
	_, err = resource.Get(t.Context(), object.GetName(), metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "it is still there: %v", err)
}
