// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/controllers"
)

const (
	// patience is how long a test waits for what comes in a moment, on a machine that has other things to do.
	patience = 5 * time.Minute
	// poll is how often it looks.
	poll = 50 * time.Millisecond
)

// world is one test's namespace.
type world struct {
	*testing.T
	client.WithWatch
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := shared.Config()
	config.WarningHandler = rest.NoWarnings{} // Every answer in v1beta1 says that it is deprecated.
	scheme := controllers.Scheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	w := &world{T: t, WithWatch: c}
	w.namespace = w.newNamespace()
	return w
}

func (w *world) newNamespace() string {
	w.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(w, w.Create(w.Context(), namespace))
	return namespace.Name
}

// story runs one part of a test, in the same namespace.
func (w *world) story(name string, run func(w *world)) {
	w.Run(name, func(t *testing.T) {
		run(&world{T: t, WithWatch: w.WithWatch, namespace: w.namespace})
	})
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

func (w *world) exists(object client.Object) bool {
	w.Helper()
	version := object.GetObjectKind().GroupVersionKind()
	err := w.Get(w.Context(), client.ObjectKeyFromObject(object), empty(version))
	if apierrors.IsNotFound(err) {
		return false
	}
	require.NoError(w, err, "%s %s", version.Kind, object.GetName())
	return true
}

// eventually waits until nothing is missing any more, and otherwise says what was.
func eventually(t *testing.T, deadline time.Duration, missing func() error) {
	t.Helper()
	last := errors.New("no attempt yet")
	err := wait.PollUntilContextTimeout(t.Context(), poll, deadline, true, func(context.Context) (bool, error) {
		last = missing()
		return last == nil, nil
	})
	require.NoError(t, err, "after %s: %v", deadline, last)
}

func mergePatch(patch string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(patch))
}
