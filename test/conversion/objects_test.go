// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// create creates objects in a namespace, with their status, and returns them as the API server has them.
func (w *world) create(t *testing.T, namespace string, objects ...*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	created := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		object = without(object, "metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp", "metadata.generation",
			"metadata.managedFields")
		object.SetNamespace(namespace)
		resource := w.objects.Resource(kindOf(t, object).in(object.GroupVersionKind().Version)).Namespace(namespace)
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
func (w *world) read(t *testing.T, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	read, err := w.objects.Resource(kindOf(t, object).in(version)).Namespace(object.GetNamespace()).
		Get(t.Context(), object.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	return read
}

// requireEndOfLife labels an object, lets it go and deletes it, all in one version. Some of the objects break the schema
// of v1beta2; what is not touched is not held against them.
func (w *world) requireEndOfLife(t *testing.T, object *unstructured.Unstructured, version string) {
	t.Helper()
	resource := w.objects.Resource(kindOf(t, object).in(version)).Namespace(object.GetNamespace())
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

	now := w.read(t, object, spoke)
	require.Empty(t, now.GetFinalizers())
	require.Equal(t, "true", now.GetLabels()["example.com/seen"])
	require.Equal(t, "true", now.GetLabels()["example.com/applied"])
	require.Equal(t, object.Object["spec"], now.Object["spec"])
	require.Equal(t, object.Object["status"], now.Object["status"])

	require.NoError(t, resource.Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}))
	_, err = resource.Get(t.Context(), object.GetName(), metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "it is still there: %v", err)
}
