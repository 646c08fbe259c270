// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion_test serves both API versions from a real API server, with CAPT's own definitions and converters. It covers
// what only an API server shows of conversion: pruning, defaulting, validation ratcheting, printed columns and warnings.
package conversion_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/webhooks/conversion"
)

// shared is the API server of the tests that need nothing but our own definitions.
var shared *environment

func TestMain(m *testing.M) { os.Exit(fixture.Suite{Start: start}.Run(m)) }

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) error {
	s, err := sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, NoCRDs: true,
		// A watch cache would convert everything once more that is written, for watchers that are not there.
		APIServerArgs: []string{"--watch-cache=false"},
	})
	if err != nil {
		return err
	}
	keep(s)
	if shared, err = connect(s); err != nil {
		return err
	}
	if err := shared.createWithoutNetwork(ctx); err != nil {
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
	converter *converter
}

func connect(s *sandbox.Sandbox) (*environment, error) {
	admin, err := client.New(s.Config(), client.Options{Scheme: builder.Scheme()})
	if err != nil {
		return nil, err
	}
	quiet := s.Config()
	quiet.WarningHandler = rest.NoWarnings{} // Every request in v1beta1 warns; one test looks at that.
	objects, err := dynamic.NewForConfig(quiet)
	if err != nil {
		return nil, err
	}
	converts, err := serveConversion(s)
	return &environment{sandbox: s, admin: admin, objects: objects, converter: converts}, err
}

// installDefinitions installs CAPT's own definitions, as users do, except that this process converts. It waits until every version is served.
func (env *environment) installDefinitions(ctx context.Context) error {
	definitions, err := env.converter.definitions(filepath.Join(root, "config", "crd"))
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

// root of the repository.
const root = "../.."

const (
	spoke = "v1beta1"
	hub   = "v1beta2"
)

var (
	versions = []string{spoke, hub}
	other    = map[string]string{spoke: hub, hub: spoke}
)

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

func kindOf(t *testing.T, object *unstructured.Unstructured) kind {
	t.Helper()
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == object.GetKind() })
	require.GreaterOrEqual(t, i, 0, "%s is none of our kinds", object.GetKind())
	return kinds[i]
}

func (k kind) in(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.group, Version: version, Resource: k.resource}
}

var scheme, registry = conversion.NewRegistry()

// converted is what webhooks/conversion makes of an object, without an API server.
func converted(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	result, err := conversion.Convert(t.Context(), scheme, registry, object, version)
	require.NoError(t, err)
	return result
}

// create creates an object in a namespace, with its status, and returns it as the API server has it.
func (env *environment) create(t *testing.T, namespace string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	object.SetNamespace(namespace)
	resource := env.objects.Resource(kindOf(t, object).in(object.GroupVersionKind().Version)).Namespace(namespace)
	stored, err := resource.Create(t.Context(), object, metav1.CreateOptions{FieldManager: "older"})
	require.NoError(t, err, object.GetName())
	if status, found := object.Object["status"]; found {
		stored.Object["status"] = status
		stored, err = resource.UpdateStatus(t.Context(), stored, metav1.UpdateOptions{FieldManager: "older-status"})
		require.NoError(t, err, object.GetName())
	}
	return stored
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
