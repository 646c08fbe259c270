// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// olderTemplate is how the older CAPT spelled CAPTControlPlaneTemplate.
const olderTemplate = "CaptControlPlaneTemplate"

func TestALegacyClusterIsUpgradedInPlace(t *testing.T) {
	for name, load := range map[string]func(*testing.T) legacyCluster{"made by the older CAPT": referenceCluster, "our own": ownLegacyCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			legacy := load(t)
			w := startWorld(t, sandbox.Options{NoCRDs: true})
			require.NoError(t, manifests.Apply(t.Context(), w.admin, legacy.definitions...))
			require.NoError(t, manifests.WaitEstablished(t.Context(), w.admin, legacy.definitions))
			// Each object is there twice: its life goes on in one version or in the other.
			lives := map[string][]*unstructured.Unstructured{}
			for _, version := range versions {
				lives[version] = w.create(t, w.namespace(t), legacy.objects...)
			}

			templates := w.exportOlderTemplates(t)
			w.upgradeDefinitions(t)
			for version, objects := range lives {
				lives[version] = w.restoreTemplates(t, objects, templates)
			}

			for version, objects := range lives {
				for _, before := range objects {
					t.Run(fmt.Sprintf("%s %s in %s", before.GetKind(), before.GetName(), version), func(t *testing.T) {
						w.requireNothingLost(t, before)
						w.requireSilentRewrite(t, before, version)
						w.requireEndOfLife(t, before, version)
					})
				}
			}
			w.requireBothVersionsRecorded(t)
		})
	}
}

// upgradeDefinitions installs our definitions over the older ones. The API server refuses one of them, since its kind is
// spelled differently: it has to be removed before, and its objects with it.
func (w *world) upgradeDefinitions(t *testing.T) {
	t.Helper()
	definitions, err := w.definitions()
	require.NoError(t, err)
	for _, definition := range definitions {
		err := manifests.Apply(t.Context(), w.admin, definition)
		if kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind"); kind != captControlPlaneTemplate.name {
			require.NoError(t, err)
			continue
		}
		require.True(t, apierrors.IsInvalid(err), "want a refusal, got %v", err)
		require.ErrorContains(t, err, `spec.names.kind: Invalid value: "CAPTControlPlaneTemplate": field is immutable`)
		w.removeDefinition(t, definition.GetName())
	}
	require.NoError(t, w.installDefinitions(t.Context()))
}

func (w *world) removeDefinition(t *testing.T, name string) {
	t.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, w.admin.Delete(t.Context(), definition))
	lack := wait.PollUntilContextTimeout(t.Context(), tick, patience, true, func(ctx context.Context) (bool, error) {
		err := w.admin.Get(ctx, client.ObjectKey{Name: name}, definition)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	require.NoError(t, lack, "%s is still there", name)
}

// exportOlderTemplates keeps the objects, and removes their finalizers, which would hold up the deletion of the definition.
func (w *world) exportOlderTemplates(t *testing.T) map[types.NamespacedName]*unstructured.Unstructured {
	t.Helper()
	resource := w.objects.Resource(captControlPlaneTemplate.in(spoke))
	list, err := resource.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	exported := map[types.NamespacedName]*unstructured.Unstructured{}
	for i := range list.Items {
		object := &list.Items[i]
		require.Equal(t, olderTemplate, object.GetKind())
		exported[client.ObjectKeyFromObject(object)] = object
		_, err := resource.Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(), types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	return exported
}

// restoreTemplates puts the exported objects back, under the kind of today, and returns all objects as they are now.
func (w *world) restoreTemplates(t *testing.T, objects []*unstructured.Unstructured, exported map[types.NamespacedName]*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var now []*unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() != olderTemplate {
			now = append(now, object)
			continue
		}
		export := exported[client.ObjectKeyFromObject(object)].DeepCopy()
		export.SetKind(captControlPlaneTemplate.name)
		restored := w.create(t, export.GetNamespace(), export)[0]
		fresh := []string{"metadata.uid", "metadata.resourceVersion", "metadata.creationTimestamp", "metadata.managedFields"}
		require.Equal(t, without(export, fresh...).Object, without(restored, fresh...).Object)
		now = append(now, restored)
	}
	return now
}

// requireNothingLost compares what the API server returns now, from bytes that nobody has touched since, with what it
// returned before the upgrade, and with what webhooks/conversion makes of that.
func (w *world) requireNothingLost(t *testing.T, before *unstructured.Unstructured) {
	t.Helper()
	require.Equal(t, before.Object, w.read(t, before, spoke).Object)
	after := w.read(t, before, hub)
	require.Equal(t, converted(t, before, hub).Object, after.Object)
	requireParsableManagedFields(t, after)
}

func requireParsableManagedFields(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	require.NotEmpty(t, object.GetManagedFields())
	for _, entry := range object.GetManagedFields() {
		require.NoError(t, fieldpath.NewSet().FromJSON(entry.FieldsV1.GetRawReader()), "%s of %s", entry.Manager, entry.APIVersion)
	}
}

// requireSilentRewrite writes an object as it was read, which is how storage is migrated: the bytes in etcd are of
// another version then, and nothing that anybody could notice has changed.
func (w *world) requireSilentRewrite(t *testing.T, before *unstructured.Unstructured, version string) {
	t.Helper()
	read := w.read(t, before, version)
	written, err := w.objects.Resource(kindOf(t, before).in(version)).Namespace(before.GetNamespace()).
		Update(t.Context(), read, metav1.UpdateOptions{FieldManager: "rewriter"})
	require.NoError(t, err)
	require.Equal(t, before.GetGeneration(), written.GetGeneration(), "a write that changes nothing moves no generation")
	require.Equal(t, hub, w.stored(t, before))

	changed := []string{"metadata.resourceVersion", "metadata.managedFields"}
	now := w.read(t, before, spoke)
	assert.Equal(t, without(before, changed...).Object, without(now, changed...).Object)
	assert.Equal(t, without(converted(t, before, hub), changed...).Object, without(w.read(t, before, hub), changed...).Object)
	requireParsableManagedFields(t, now)
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

func (w *world) requireBothVersionsRecorded(t *testing.T) {
	t.Helper()
	for _, k := range kinds {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: k.definition()}, definition))
		want := versions
		if k == captControlPlaneTemplate { // Its definition is a new one.
			want = []string{hub}
		}
		require.Equal(t, want, definition.Status.StoredVersions, k.name)
	}
}
