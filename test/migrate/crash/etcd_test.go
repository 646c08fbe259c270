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

package crash_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// prefixes of all keys that a migration may write, or must not.
var prefixes = []string{
	"/registry/infrastructure.cluster.x-k8s.io/", "/registry/controlplane.cluster.x-k8s.io/", "/registry/cluster.x-k8s.io/",
	"/registry/apiextensions.k8s.io/customresourcedefinitions/", "/registry/tf.upbound.io/", "/registry/tf.m.upbound.io/",
	"/registry/secrets/", "/registry/events/", "/registry/configmaps/" + journalNamespace + "/", "/registry/leases/" + journalNamespace + "/",
}

// pair is a key of etcd with its value. Keys and values travel in base64.
type pair struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Revision string `json:"mod_revision,omitempty"`
}

func (p pair) key() string   { return string(decode(p.Key)) }
func (p pair) value() []byte { return decode(p.Value) }

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func decode(text string) []byte {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		panic(err) // etcd sends nothing else.
	}
	return data
}

// moment is what etcd held of all prefixes, by key.
type moment map[string]pair

// etcd talks to etcd, behind the API server's back.
type etcd struct{ endpoint string }

func (e etcd) call(t *testing.T, method string, request, answer any) {
	t.Helper()
	body, err := json.Marshal(request)
	require.NoError(t, err)
	sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.endpoint+"/v3/kv/"+method, bytes.NewReader(body))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(sent)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, string(data))
	require.NoError(t, json.Unmarshal(data, answer))
}

// now is what etcd holds.
func (e etcd) now(t *testing.T) moment {
	t.Helper()
	found := moment{}
	for _, prefix := range prefixes {
		var answer struct {
			KVs []pair `json:"kvs"`
		}
		end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
		e.call(t, "range", map[string]string{"key": encode(prefix), "range_end": encode(end)}, &answer)
		for _, p := range answer.KVs {
			found[p.key()] = p
		}
	}
	return found
}

// putBack makes etcd hold what it held. The API server learns of it as of any other write. In one transaction, all would be of one
// revision: the API server's cache would take itself to be up to date after the first of them.
func (e etcd) putBack(t *testing.T, then moment) {
	t.Helper()
	now := e.now(t)
	var answer struct{}
	for key, p := range then {
		if now[key].Value != p.Value {
			e.call(t, "put", pair{Key: p.Key, Value: p.Value}, &answer)
		}
	}
	for key, p := range now {
		if _, kept := then[key]; !kept {
			e.call(t, "deleterange", map[string]string{"key": p.Key}, &answer)
		}
	}
}

// objects are the stored objects, without the times in managedFields, by key. What a run leaves behind of itself is not among
// them: lock, journal, events. Nor is what a migration must not write at all.
func (m moment) objects(t *testing.T) map[string]string {
	t.Helper()
	objects := map[string]string{}
	for key, p := range m {
		if m.untouchable(key) || strings.HasPrefix(key, "/registry/events/") || strings.Contains(key, "/"+journalNamespace+"/") {
			continue
		}
		content := &unstructured.Unstructured{}
		require.NoError(t, content.UnmarshalJSON(p.value()), key)
		managed := content.GetManagedFields()
		for i := range managed {
			managed[i].Time = nil
		}
		// Their order is that of the times.
		slices.SortFunc(managed, func(a, b metav1.ManagedFieldsEntry) int { return cmp.Compare(a.String(), b.String()) })
		content.SetManagedFields(managed)
		text, err := json.MarshalIndent(content.Object, "", " ")
		require.NoError(t, err)
		objects[key] = string(text)
	}
	return objects
}

// untouchable tells whether nobody may write to a key: it is a Workspace, a ProviderConfig or a Secret.
func (moment) untouchable(key string) bool {
	return strings.HasPrefix(key, "/registry/tf.") || strings.HasPrefix(key, "/registry/secrets/")
}

// untouched are the keys that nobody may write to, with the revision of their last write.
func (m moment) untouched() map[string]string {
	revisions := map[string]string{}
	for key, p := range m {
		if m.untouchable(key) {
			revisions[key] = p.Revision
		}
	}
	return revisions
}

// events are the keys of all events.
func (m moment) events() (keys []string) {
	for key := range m {
		if strings.HasPrefix(key, "/registry/events/") {
			keys = append(keys, key)
		}
	}
	return keys
}
