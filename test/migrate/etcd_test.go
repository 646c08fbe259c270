/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package migrate_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// stored are all objects of CAPT as etcd has them, which the API server would convert.
func (w *world) stored() (objects []unstructured.Unstructured) {
	w.Helper()
	running, err := state.Load(w.Dir())
	require.NoError(w, err)
	var groups []string
	for _, kind := range migrate.Kinds() {
		groups = append(groups, kind.Group)
	}
	slices.Sort(groups)
	for _, group := range slices.Compact(groups) {
		// All keys from the prefix on, up to where the next one would begin. Keys and values travel in base64.
		query, err := json.Marshal(map[string][]byte{"key": []byte("/registry/" + group + "/"), "range_end": []byte("/registry/" + group + "0")})
		require.NoError(w, err)
		request, err := http.NewRequestWithContext(w.Context(), http.MethodPost, running.EtcdEndpoint+"/v3/kv/range", bytes.NewReader(query))
		require.NoError(w, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(w, err)
		var found struct {
			KVs []struct{ Value []byte }
		}
		err = json.NewDecoder(response.Body).Decode(&found)
		require.NoError(w, response.Body.Close())
		require.NoError(w, err)
		for _, kv := range found.KVs {
			var object unstructured.Unstructured
			require.NoError(w, object.UnmarshalJSON(kv.Value))
			objects = append(objects, object)
		}
	}
	require.NotEmpty(w, objects)
	return objects
}

// older is what etcd holds that speaks of an older version: of an object itself, of its owners, and of who manages its fields.
func (w *world) older() (found []string) {
	w.Helper()
	for _, object := range w.stored() {
		versions := []string{object.GetAPIVersion()}
		for _, owner := range object.GetOwnerReferences() {
			versions = append(versions, owner.APIVersion)
		}
		for _, entry := range object.GetManagedFields() {
			versions = append(versions, entry.APIVersion)
		}
		for _, version := range versions {
			if !strings.HasSuffix(version, "/"+migrate.Version) {
				found = append(found, object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()+": "+version)
			}
		}
	}
	return found
}

// storedVersions are those that the definitions say may be in etcd.
func (w *world) storedVersions() (versions []string) {
	w.Helper()
	for _, kind := range migrate.Kinds() {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(w, w.Admin.Get(w.Context(), client.ObjectKey{Name: kind.Definition()}, definition))
		versions = append(versions, definition.Status.StoredVersions...)
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}
