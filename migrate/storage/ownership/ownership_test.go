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

package ownership_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/storage/ownership"
)

func decode(t *testing.T, document string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
	return object
}

// of is the set of a manager, as JSON; empty when it owns nothing.
func of(t *testing.T, object *unstructured.Unstructured, manager string) string {
	t.Helper()
	for _, entry := range object.GetManagedFields() {
		require.False(t, migrate.IsOlder(entry.APIVersion))
		if entry.Manager == manager {
			return entry.FieldsV1.String()
		}
	}
	return ""
}

const controlPlane = `
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: demo}
spec:
  version: "1.31"
  region: eu-west-3
  workspaceTemplateRef: {name: eks}
  endpointAccess: {public: true, private: false, publicCIDRs: [10.0.0.0/8]}
  endpointProbe: BestEffort
  addons: [{name: coredns, version: v1}, {name: vpc-cni}]
  timeouts: {controlPlaneSeconds: 1800, vpcReadySeconds: 900, secretSeconds: 300}
  fargateProfiles: [{name: a, selectors: [{namespace: one}], workspaceTemplateRef: {name: x}}]
`

func TestAFieldOfV1Beta1IsTheOneOfV1Beta2ThatComesFromIt(t *testing.T) {
	for name, test := range map[string]struct{ object, was, is string }{
		"one that is called the same": {controlPlane, `{"f:spec":{"f:version":{}}}`, `{"f:spec":{"f:version":{}}}`},
		"one that has moved":          {controlPlane, `{"f:spec":{"f:controlPlaneConfig":{"f:region":{}}}}`, `{"f:spec":{"f:region":{}}}`},
		"a default, given by hand, in another unit": {controlPlane, `{"f:spec":{"f:controlPlaneConfig":{"f:timeouts":{"f:controlPlaneTimeout":{}}}}}`,
			`{"f:spec":{"f:timeouts":{"f:controlPlaneSeconds":{}}}}`},
		"not what depends on it": {controlPlane, `{"f:spec":{"f:controlPlaneConfig":{"f:endpointAccess":{"f:public":{}}}}}`,
			`{"f:spec":{"f:endpointAccess":{"f:public":{}}}}`},
		"networks, which mean nothing alone": {controlPlane, `{"f:spec":{"f:controlPlaneConfig":{"f:endpointAccess":{"f:publicCIDRs":{}}}}}`,
			`{"f:spec":{"f:endpointAccess":{"f:publicCIDRs":{"v:\"10.0.0.0/8\"":{}}}}}`},
		"a list owned as a whole, whose elements are owned one by one now": {controlPlane, `{"f:spec":{"f:controlPlaneConfig":{"f:addons":{}}}}`,
			`{"f:spec":{"f:addons":{"k:{\"name\":\"coredns\"}":{".":{},"f:name":{},"f:version":{}},"k:{\"name\":\"vpc-cni\"}":{".":{},"f:name":{}}}}}`},
		"a list within such a list": {controlPlane, `{"f:spec":{"f:additionalFargateProfiles":{}}}`,
			`{"f:spec":{"f:fargateProfiles":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:selectors":{},"f:workspaceTemplateRef":{"f:name":{}}}}}}`},
		"metadata": {controlPlane, `{"f:metadata":{"f:labels":{".":{},"f:a":{}},"f:finalizers":{"v:\"x\"":{}}}}`,
			`{"f:metadata":{"f:finalizers":{"v:\"x\"":{}},"f:labels":{".":{},"f:a":{}}}}`},
		"one that is not there":      {controlPlane, `{"f:spec":{"f:workspaceTemplateApplyName":{}}}`, ``},
		"one that nobody ever knew":  {controlPlane, `{"f:spec":{"f:whatever":{"f:a":{}},"f:version":{}}}`, `{"f:spec":{"f:version":{}}}`},
		"that there is a map":        {controlPlane, `{"f:spec":{".":{},"f:controlPlaneConfig":{}}}`, ``},
		"nothing":                    {controlPlane, `{}`, ``},
		"a map that became elements": {network, `{"f:status":{"f:failureDomains":{"f:eu-west-3a":{},"f:eu-west-3b":{"f:controlPlane":{}}}}}`, `{"f:status":{"f:failureDomains":{"k:{\"name\":\"eu-west-3a\"}":{".":{},"f:name":{}},"k:{\"name\":\"eu-west-3b\"}":{".":{},"f:controlPlane":{},"f:name":{}}}}}`},
		"a flag that became a word":  {network, `{"f:spec":{"f:retainVpcOnDelete":{}}}`, `{"f:spec":{"f:vpc":{"f:template":{"f:deletionPolicy":{}}}}}`},
		"the name of the network, and not its policy": {network, `{"f:spec":{"f:vpcTemplateRef":{"f:name":{}}}}`,
			`{"f:spec":{"f:vpc":{"f:template":{"f:ref":{"f:name":{}}}}}}`},
		"a time and a condition": {network, `{"f:status":{"f:conditions":{}}}`,
			`{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}}}}`},
		"a kind that has one version only": {`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTClusterTemplate
metadata: {name: demo}
spec: {template: {spec: {region: eu-west-3}}}`, `{"f:spec":{"f:template":{"f:spec":{"f:region":{}}}}}`, `{"f:spec":{"f:template":{"f:spec":{"f:region":{}}}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			object := decode(t, test.object)
			older := object.GroupVersionKind().Group + "/v1beta1"
			require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{
				entry(t, "somebody", older, test.was), entry(t, "other", object.GetAPIVersion(), `{"f:metadata":{"f:labels":{"f:other":{}}}}`),
			}, "metadata", "managedFields"))
			before := object.DeepCopy()
			next, more, err := ownership.Next(object)
			require.NoError(t, err)
			require.False(t, more)
			require.Equal(t, test.is, of(t, next, "somebody"))
			require.NotEmpty(t, of(t, next, "other"))
			require.Equal(t, before, object, "what is given is not changed")
			require.Equal(t, object.Object["spec"], next.Object["spec"])
		})
	}
}

const network = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTCluster
metadata: {name: demo}
spec: {region: eu-west-3, vpc: {template: {ref: {name: vpc}, deletionPolicy: Retain}}}
status:
  failureDomains: [{name: eu-west-3a}, {name: eu-west-3b, controlPlane: true}]
  conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2025-03-01T10:00:00Z"}]
`

func entry(t *testing.T, manager, version, fields string) map[string]any {
	t.Helper()
	content := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(fields), &content))
	return map[string]any{
		"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": content, "time": "2025-03-01T10:00:00Z",
	}
}

func TestTwoEntriesOfAManagerBecomeOneWithTheLaterTime(t *testing.T) {
	object := decode(t, controlPlane)
	const group = "controlplane.cluster.x-k8s.io/"
	newer := entry(t, "manager", group+"v1beta2", `{"f:spec":{"f:version":{}}}`)
	newer["operation"], newer["time"] = "Update", "2025-03-02T10:00:00Z"
	older := entry(t, "manager", group+"v1beta1", `{"f:spec":{"f:controlPlaneConfig":{"f:region":{}}}}`)
	older["operation"] = "Update"
	status := entry(t, "manager", group+"v1beta1", `{"f:spec":{"f:workspaceTemplateRef":{"f:name":{}}}}`)
	status["operation"], status["subresource"] = "Update", "status"
	require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{older, newer, status}, "metadata", "managedFields"))
	next, _, err := ownership.Next(object)
	require.NoError(t, err)
	managed := next.GetManagedFields()
	require.Len(t, managed, 2, "a subresource is another entry")
	require.Equal(t, `{"f:spec":{"f:region":{},"f:version":{}}}`, managed[0].FieldsV1.String())
	require.Equal(t, "2025-03-02T10:00:00Z", managed[0].Time.UTC().Format("2006-01-02T15:04:05Z"))
	require.Equal(t, "status", managed[1].Subresource)
}

func TestEntriesThatMeanNothingInV1Beta2AreTakenAwayForGood(t *testing.T) {
	object := decode(t, controlPlane)
	require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{entry(t, "x", "controlplane.cluster.x-k8s.io/v1beta1", `{"f:spec":{"f:whatever":{}}}`)},
		"metadata", "managedFields"))
	next, _, err := ownership.Next(object)
	require.NoError(t, err)
	managed, found, err := unstructured.NestedSlice(next.Object, "metadata", "managedFields")
	require.NoError(t, err)
	require.True(t, found, "without the list, the API server would keep the entries that there are")
	require.Empty(t, managed)
}

const owned = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata:
  name: demo
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: x, uid: a}
  - {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: CAPTControlPlane, name: demo, uid: b, controller: true, blockOwnerDeletion: true}
spec: {templateRef: {name: eks}}
`

func TestOwnerReferencesMoveAndNothingElseOfThem(t *testing.T) {
	object := decode(t, owned)
	next, more, err := ownership.Next(object)
	require.NoError(t, err)
	require.False(t, more, "nobody's fields are tracked, and captctl does not begin with it")
	want := decode(t, owned)
	references, _, _ := unstructured.NestedSlice(want.Object, "metadata", "ownerReferences")
	references[1].(map[string]any)["apiVersion"] = "controlplane.cluster.x-k8s.io/v1beta2"
	require.NoError(t, unstructured.SetNestedSlice(want.Object, references, "metadata", "ownerReferences"))
	require.Equal(t, want.Object, next.Object)
	require.Empty(t, ownership.Speaks(next))
	require.Equal(t, []string{"owner reference to CAPTControlPlane demo of controlplane.cluster.x-k8s.io/v1beta1"}, ownership.Speaks(object))

	back, more, err := ownership.Back(next, object.GetOwnerReferences())
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, object.Object, back.Object)
}

func TestWhoOwnedAReferenceIsNotedUntilItIsGivenBack(t *testing.T) {
	object := decode(t, owned)
	const version = "infrastructure.cluster.x-k8s.io/v1beta2"
	require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{
		entry(t, "gitops", version, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"b\"}":{}}}}`),
		entry(t, "other", version, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"a\"}":{}}}}`),
	}, "metadata", "managedFields"))
	next, more, err := ownership.Next(object)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"b\"}":{},"v:\"b\"":{}}}}`, of(t, next, "gitops"))
	require.Equal(t, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"a\"}":{}}}}`, of(t, next, "other"))

	// The API server takes what was changed away from everybody, and gives it to captctl.
	stored := next.DeepCopy()
	written := entry(t, migrate.FieldManager, version, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"b\"}":{},"v:\"b\"":{}}}}`)
	written["operation"] = string(metav1.ManagedFieldsOperationUpdate)
	require.NoError(t, unstructured.SetNestedSlice(stored.Object, []any{
		entry(t, "gitops", version, `{"f:metadata":{"f:ownerReferences":{"v:\"b\"":{}}}}`),
		entry(t, "other", version, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"a\"}":{}}}}`), written,
	}, "metadata", "managedFields"))
	for _, settle := range []func() (*unstructured.Unstructured, error){
		func() (*unstructured.Unstructured, error) { return ownership.Settle(stored) },
		func() (*unstructured.Unstructured, error) {
			next, more, err := ownership.Next(stored)
			require.False(t, more)
			return next, err
		},
	} {
		settled, err := settle()
		require.NoError(t, err)
		require.Equal(t, of(t, object, "gitops"), of(t, settled, "gitops"))
		require.Equal(t, of(t, object, "other"), of(t, settled, "other"))
		require.Empty(t, of(t, settled, migrate.FieldManager))
	}
}

func TestWhatCanNotBeReadIsAnError(t *testing.T) {
	object := decode(t, controlPlane)
	require.NoError(t, unstructured.SetNestedSlice(object.Object, []any{entry(t, "x", "controlplane.cluster.x-k8s.io/v1beta1", `{"nonsense":{}}`)},
		"metadata", "managedFields"))
	_, _, err := ownership.Next(object)
	require.ErrorContains(t, err, "reading which fields x of controlplane.cluster.x-k8s.io/v1beta1 has")
}
