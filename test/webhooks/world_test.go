// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
)

// world is one test's namespace.
type world struct{ *fixture.World }

func newWorld(t *testing.T) *world {
	t.Helper()
	require.NoError(t, apiextensionsv1.AddToScheme(shared.API.Scheme()))
	return &world{shared.NewWorld(t, terraform.ScopeNamespaced)}
}

// story runs one part of a test, in the same namespace.
func (w *world) story(name string, run func(w *world)) {
	w.Run(name, func(t *testing.T) { run(&world{w.In(t)}) })
}

// make makes an object of every kind in each of its versions, and calls them by their versions.
func (w *world) make(namespace, prefix string, options ...func(*unstructured.Unstructured)) {
	w.Helper()
	for _, k := range kinds() {
		for _, version := range k.versions() {
			object := k.object(version, namespace, prefix+version.Version)
			for _, option := range options {
				option(object)
			}
			require.NoError(w, w.Create(w.Context(), object), "%s", version)
		}
	}
}

// each visits what make made, and reads it in v1beta2.
func (w *world) each(namespace, prefix string, visit func(k kind, object *unstructured.Unstructured)) {
	w.Helper()
	for _, k := range kinds() {
		for _, version := range k.versions() {
			object := empty(k.current)
			key := client.ObjectKey{Namespace: namespace, Name: prefix + version.Version}
			require.NoError(w, w.Get(w.Context(), key, object), "%s %s", k.current.Kind, key)
			visit(k, object)
		}
	}
}

// resource is the name of a kind in URLs.
func (w *world) resource(k kind) string {
	w.Helper()
	mapping, err := w.RESTMapper().RESTMapping(k.current.GroupKind(), k.current.Version)
	require.NoError(w, err)
	return mapping.Resource.Resource
}

// gone reports whether an object no longer exists.
func (w *world) gone(object client.Object) bool {
	w.Helper()
	there := *w.World
	there.Namespace = object.GetNamespace()
	return !there.Exists(empty(object.GetObjectKind().GroupVersionKind()), object.GetName())
}

// eventually waits until nothing is missing any more, and otherwise says what was.
func eventually(t *testing.T, missing func() error) {
	t.Helper()
	(&fixture.World{T: t}).Insist(func() string {
		if err := missing(); err != nil {
			return err.Error()
		}
		return ""
	})
}

func mergePatch(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}
