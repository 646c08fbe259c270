// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhooks_test shows what users notice of CAPT's webhooks when these are away, when they hang, when their
// certificates are renewed and when the replicas that serve them are replaced. It runs on a real API server.
package webhooks_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// quiet keeps the controllers away from the objects of the tests: nothing changes but what a test changes, and only the
// webhooks are active.
const quiet = "--watch-filter=none"

// keepsVersions keeps the manager from rewriting what a test has stored in v1beta1.
const keepsVersions = "--skip-crd-migration-phases=StorageVersionMigration"

// tick is the first interval of waits.
const tick = 200 * time.Millisecond

// shared is the control plane of all tests of the package. Tests stop its manager, so they run one after the other.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(options *sandbox.Options) {
		options.Installation = "" // The names of config/default.
		options.Provider, options.ManagerArgs = false, []string{quiet, keepsVersions}
	}))
}

// environment is one test's namespace.
type environment struct{ *fixture.Environment }

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	return &environment{shared.NewEnvironment(t, terraform.ScopeNamespaced)}
}

// subtest runs one part of a test, in the same namespace.
func (env *environment) subtest(name string, run func(env *environment)) {
	env.Run(name, func(t *testing.T) { run(&environment{env.In(t)}) })
}

// make makes an object of every kind in each of its versions, and calls them by their versions.
func (env *environment) make(namespace, prefix string, options ...func(*unstructured.Unstructured)) {
	env.Helper()
	for _, k := range kinds() {
		for _, version := range k.versions() {
			object := k.object(version, namespace, prefix+version.Version)
			for _, option := range options {
				option(object)
			}
			require.NoError(env, env.Create(env.Context(), object), "%s", version)
		}
	}
}

// each visits what make made, and reads it in v1beta2.
func (env *environment) each(namespace, prefix string, visit func(k kind, object *unstructured.Unstructured)) {
	env.Helper()
	for _, k := range kinds() {
		for _, version := range k.versions() {
			object := empty(k.current)
			key := client.ObjectKey{Namespace: namespace, Name: prefix + version.Version}
			require.NoError(env, env.Get(env.Context(), key, object), "%s %s", k.current.Kind, key)
			visit(k, object)
		}
	}
}

// resource is the name of a kind in URLs.
func (env *environment) resource(k kind) string {
	env.Helper()
	mapping, err := env.RESTMapper().RESTMapping(k.current.GroupKind(), k.current.Version)
	require.NoError(env, err)
	return mapping.Resource.Resource
}

// gone reports whether an object no longer exists.
func (env *environment) gone(object client.Object) bool {
	env.Helper()
	there := *env.Environment
	there.Namespace = object.GetNamespace()
	return !there.Exists(empty(object.GetObjectKind().GroupVersionKind()), object.GetName())
}

// eventually waits until nothing is missing any more, and otherwise says what was.
func eventually(t *testing.T, missing func() error) {
	t.Helper()
	fixture.Eventually(t, tick, func() string {
		err := missing()
		return fixture.Unless(err == nil, "%v", err)
	})
}

func mergePatch(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}

// kind is one of CAPT's kinds, with objects that are valid.
type kind struct {
	current schema.GroupVersionKind
	// legacy is empty for kinds that have one version only.
	legacy schema.GroupVersionKind
	// spec in v1beta2, and in v1beta1.
	spec, legacySpec string
	// change is a merge patch, in v1beta2, with a place for a word that makes it another one each time.
	change string
}

const (
	template = `{template: {spec: {forProvider: {source: Inline, module: "variable \"name\" { type = string }\noutput \"vpc_id\" { value = var.name }\n", vars: [{key: name, value: demo}]}}}}`
	apply    = "{templateRef: {name: shared}, variables: {name: demo}}"
	labels   = `{"metadata":{"labels":{"word":%q}}}`
	// variables changes those of an object.
	variables = `{"spec":{"variables":{"word":%q}}}`
)

func kinds() []kind {
	all := []kind{
		{spec: "{region: eu-central-1, vpc: {template: {ref: {name: shared}}}}", legacySpec: "{region: eu-central-1, vpcTemplateRef: {name: shared}}",
			change: `{"spec":{"vpc":{"template":{"variables":{"word":%q}}}}}`},
		{spec: "{template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: shared}}}}}}", change: labels},
		{spec: "{version: v1.35.0, workspaceTemplateRef: {name: shared}}", change: `{"spec":{"additionalTags":{"word":%q}}}`,
			legacySpec: "{version: v1.35.0, workspaceTemplateRef: {name: shared}, controlPlaneConfig: {region: eu-central-1}}"},
		{spec: "{template: {spec: {workspaceTemplateRef: {name: shared}}}}", change: labels,
			legacySpec: "{template: {spec: {version: v1.35.0, workspaceTemplateRef: {name: shared}}}}"},
		{spec: template, legacySpec: template, change: `{"spec":{"template":{"metadata":{"description":%q}}}}`},
		{spec: apply, legacySpec: apply, change: variables},
		{spec: "{workspaceTemplateRef: {name: shared}, scaling: {minSize: 1, maxSize: 3}}", change: variables},
		{spec: "{template: {spec: {workspaceTemplateRef: {name: shared}}}}", change: labels},
	}
	for i, name := range []string{
		"CAPTCluster", "CAPTClusterTemplate", "CAPTControlPlane", "CAPTControlPlaneTemplate", "WorkspaceTemplate", "WorkspaceTemplateApply", "CAPTMachinePool", "CAPTMachinePoolTemplate",
	} {
		group := "infrastructure.cluster.x-k8s.io"
		if strings.HasPrefix(name, "CAPTControlPlane") {
			group = "controlplane.cluster.x-k8s.io"
		}
		all[i].current = schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: name}
		if all[i].legacySpec != "" {
			all[i].legacy = schema.GroupVersionKind{Group: group, Version: "v1beta1", Kind: name}
		}
	}
	return all
}

// hasStatus reports whether the kind has a status, and a controller.
func (k kind) hasStatus() bool { return k.change != labels }

// versions are those in which the API server serves the kind.
func (k kind) versions() []schema.GroupVersionKind {
	if k.legacy.Empty() {
		return []schema.GroupVersionKind{k.current}
	}
	return []schema.GroupVersionKind{k.current, k.legacy}
}

// object makes a valid object, in one of the kind's versions.
func (k kind) object(version schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	spec := k.spec
	if version == k.legacy {
		spec = k.legacySpec
	}
	object := empty(version)
	if err := yaml.Unmarshal([]byte("spec: "+spec), &object.Object); err != nil {
		panic(fmt.Sprintf("the spec of %s: %v", version, err)) // It is written above.
	}
	object.SetGroupVersionKind(version)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// empty is an object to read into.
func empty(version schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(version)
	return object
}

// list is a list to read into.
func list(version schema.GroupVersionKind) *unstructured.UnstructuredList {
	objects := &unstructured.UnstructuredList{}
	objects.SetGroupVersionKind(version.GroupVersion().WithKind(version.Kind + "List"))
	return objects
}

// changed is a patch that changes an object of the kind.
func (k kind) changed(word string) client.Patch { return mergePatch(fmt.Sprintf(k.change, word)) }
