// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox/manifests"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// legacyCluster is what the older CAPT left in a cluster.
type legacyCluster struct {
	definitions, objects []*unstructured.Unstructured
}

// ownLegacyCluster is the one that this package describes.
func ownLegacyCluster(t *testing.T) legacyCluster {
	t.Helper()
	folder := filepath.Join("testdata", "legacy")
	return legacyCluster{
		definitions: definitions(t),
		objects:     append(load(t, filepath.Join(folder, "objects.yaml")), load(t, filepath.Join(folder, "breaking.yaml"))...),
	}
}

// referenceCluster is one that the older CAPT itself has made.
func referenceCluster(t *testing.T) legacyCluster {
	t.Helper()
	folder := os.Getenv("CAPT_REFERENCE")
	if folder == "" {
		folder = filepath.Join(root, "..", "shared", "reference")
	}
	if _, err := os.Stat(filepath.Join(folder, "legacy-crds")); os.IsNotExist(err) {
		t.Skipf("no reference data in %s; CAPT_REFERENCE names their folder", folder)
	}
	isOurs := func(o *unstructured.Unstructured) bool {
		return slices.Contains([]string{infrastructure, controlPlane}, o.GroupVersionKind().Group)
	}
	return legacyCluster{
		definitions: load(t, filepath.Join(folder, "legacy-crds")),
		objects:     slices.DeleteFunc(load(t, filepath.Join(folder, "legacy")), func(o *unstructured.Unstructured) bool { return !isOurs(o) }),
	}
}

func definitions(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	definitions, err := legacy.Definitions()
	require.NoError(t, err)
	return definitions
}

func load(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Load(path)
	require.NoError(t, err)
	require.NotEmpty(t, objects, path)
	return objects
}

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

// stored is the version in which etcd holds an object.
func (w *world) stored(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	sandbox, err := state.Load(w.sandbox.Dir())
	require.NoError(t, err)
	k := kindOf(t, object)
	key := "/registry/" + k.group + "/" + k.resource + "/" + object.GetNamespace() + "/" + object.GetName()
	query, err := json.Marshal(map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key))})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, sandbox.EtcdEndpoint+"/v3/kv/range", bytes.NewReader(query))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	var found struct{ KVs []struct{ Value []byte } }
	require.NoError(t, json.NewDecoder(response.Body).Decode(&found))
	require.Len(t, found.KVs, 1, key)
	content := &unstructured.Unstructured{}
	require.NoError(t, content.UnmarshalJSON(found.KVs[0].Value))
	return content.GroupVersionKind().Version
}
