// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capt-provider/capt/test/sandbox/manifests"
)

const documents = `
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  conversion:
    strategy: Webhook
    webhook: {clientConfig: {service: {namespace: system, name: webhook-service, path: /convert}}}
  versions:
  - {name: v1, served: true, storage: false}
  - {name: v2, served: true, storage: true}
---
# Nothing here.
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guard}
webhooks:
- name: one.example.org
  clientConfig: {service: {namespace: system, name: webhook-service, path: /validate-one}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: part, labels: {aggregate: "true"}}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: whole}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {aggregate: "true"}}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: manager}
---
apiVersion: v1
kind: Namespace
metadata: {name: somewhere}
`

func decode(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := manifests.Decode([]byte(documents))
	require.NoError(t, err)
	require.Len(t, objects, 6)
	return objects
}

func TestWebhooksAreCalledDirectly(t *testing.T) {
	objects := decode(t)
	server := manifests.WebhookServer{Address: "127.0.0.1:12345", Bundle: []byte("bundle")}
	require.NoError(t, server.Point(objects))
	set, err := manifests.Sort(objects)
	require.NoError(t, err)

	config, _, err := unstructured.NestedMap(set.Definitions[0].Object, "spec", "conversion", "webhook", "clientConfig")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"url": "https://127.0.0.1:12345/convert", "caBundle": "YnVuZGxl"}, config)

	webhooks, _, err := unstructured.NestedSlice(set.Admission[0].Object, "webhooks")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"url": "https://127.0.0.1:12345/validate-one", "caBundle": "YnVuZGxl"},
		webhooks[0].(map[string]any)["clientConfig"])

}

func TestWithoutAConverterOnlyTheStoredVersionIsServed(t *testing.T) {
	definition := decode(t)[0]
	require.NoError(t, manifests.WithoutConversion([]*unstructured.Unstructured{definition}))
	_, found, err := unstructured.NestedMap(definition.Object, "spec", "conversion")
	require.NoError(t, err)
	require.False(t, found)
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	require.NoError(t, err)
	require.Equal(t, false, versions[0].(map[string]any)["served"])
	require.Equal(t, true, versions[1].(map[string]any)["served"])
}

func TestManifestsThatOnlyAClusterCanRunAreLeftOut(t *testing.T) {
	set, err := manifests.Sort(decode(t))
	require.NoError(t, err)
	require.Len(t, set.Namespaces, 1)
	require.Len(t, set.Definitions, 1)
	require.Len(t, set.Access, 2)
	require.Len(t, set.Admission, 1)

	_, err = manifests.Sort([]*unstructured.Unstructured{{Object: map[string]any{"kind": "Whatever"}}})
	require.ErrorContains(t, err, "Whatever", "what is left out is left out on purpose")
}

func TestAggregatedRolesGetTheRulesTheySelect(t *testing.T) {
	objects := decode(t)
	manifests.Aggregate(objects)
	part, whole := objects[2], objects[3]
	require.Equal(t, part.Object["rules"], whole.Object["rules"])
	require.NotContains(t, whole.Object, "aggregationRule")
}

func TestLoadReadsFilesFoldersAndKustomizations(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "all.yaml")
	require.NoError(t, os.WriteFile(file, []byte(documents), 0o600))
	for _, path := range []string{file, dir} {
		objects, err := manifests.Load(path)
		require.NoError(t, err)
		require.Len(t, objects, 6)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"),
		[]byte("namePrefix: my-\nresources: [all.yaml]\n"), 0o600))
	objects, err := manifests.Load(dir)
	require.NoError(t, err)
	require.Len(t, objects, 6)
	require.True(t, slices.ContainsFunc(objects, func(object *unstructured.Unstructured) bool { return strings.HasPrefix(object.GetName(), "my-") }))
	_, err = manifests.Load(filepath.Join(dir, "absent"))
	require.ErrorContains(t, err, "does not exist")
}
