// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// TestReplicasStartWithoutAConversionWebhook begins with no replica, an API server that has just started, and an object that is stored in
// v1beta1. The first replica cannot fill its caches before the object is converted, and the API server calls ready replicas only.
func TestReplicasStartWithoutAConversionWebhook(t *testing.T) {
	w := newWorld(t)
	k := kinds()[0]
	w.store(k, k.legacy.Version)
	old := w.createStored(k, k.legacy.Version)
	w.store(k, k.current.Version)
	f, _ := newFleet(w, 0)
	require.NoError(t, shared.Restart(t.Context(), sandbox.APIServer))
	err := w.Get(t.Context(), client.ObjectKeyFromObject(old), empty(k.current))
	require.True(t, failsToConvert(err, k), "%v", err)
	plain := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "plain-"}}
	require.NoError(t, w.Create(t.Context(), plain))
	require.NoError(t, w.Delete(t.Context(), plain), "a namespace without objects of CAPT does not depend on it")

	f.start()
	eventually(t, func() error {
		return w.Create(t.Context(), k.object(k.current, w.Namespace, "new"), client.DryRunAll)
	})
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(old), empty(k.current)))
	require.NoError(t, w.Delete(t.Context(), old))
}

// store makes the API server store a kind in another version.
func (w *world) store(k kind, version string) {
	w.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Name: w.resource(k) + "." + k.current.Group}, definition))
	for i := range definition.Spec.Versions {
		definition.Spec.Versions[i].Storage = definition.Spec.Versions[i].Name == version
	}
	require.NoError(w, w.Update(w.Context(), definition))
}

// createStored creates objects until the API server stores one in the version.
func (w *world) createStored(k kind, version string) *unstructured.Unstructured {
	w.Helper()
	var object *unstructured.Unstructured
	attempt := 0
	eventually(w.T, func() error {
		attempt++
		object = k.object(k.legacy, w.Namespace, fmt.Sprintf("old-%d", attempt))
		require.NoError(w, w.Create(w.Context(), object))
		if stored := w.stored(k, object.GetName()); stored != version {
			return fmt.Errorf("it is stored in %s", stored)
		}
		return nil
	})
	return object
}

// stored is the version in which etcd holds an object.
func (w *world) stored(k kind, name string) string {
	w.Helper()
	recorded, err := state.Load(shared.Dir())
	require.NoError(w, err)
	key := "/registry/" + k.current.Group + "/" + w.resource(k) + "/" + w.Namespace + "/" + name
	query, err := json.Marshal(map[string]string{"key": base64.StdEncoding.EncodeToString([]byte(key))})
	require.NoError(w, err)
	response, err := http.Post(recorded.EtcdEndpoint+"/v3/kv/range", "application/json", bytes.NewReader(query))
	require.NoError(w, err)
	defer func() { _ = response.Body.Close() }()
	var found struct{ KVs []struct{ Value []byte } }
	require.NoError(w, json.NewDecoder(response.Body).Decode(&found))
	require.Len(w, found.KVs, 1, key)
	content := &unstructured.Unstructured{}
	require.NoError(w, content.UnmarshalJSON(found.KVs[0].Value))
	return content.GroupVersionKind().Version
}
