// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/test/fixture"
)

func TestARequestInV1Beta1IsAnsweredWithAWarningThatSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		require.Empty(t, get(t, k, hub, "", "application/json").Header.Values("Warning"))
		want := fmt.Sprintf("299 - \"%[1]s/v1beta1 %[2]s is deprecated; use %[1]s/v1beta2, to which captctl convert converts manifests\"",
			k.group, k.name)
		require.Equal(t, []string{want}, get(t, k, spoke, "", "application/json").Header.Values("Warning"))
	}
}

// What kubectl prints is a table that the API server makes, of the version that was asked for.
func TestKubectlShowsTheColumnsOfV1beta1InBothVersions(t *testing.T) {
	t.Parallel()
	olderNetwork := `
metadata: {name: older, annotations: {capt.cluster.x-k8s.io/endpoint: "example.com:443"}}
spec: {region: eu-west-3, existingVpcId: vpc-1}
status:
  ready: true
  vpcId: vpc-1
  conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2025-03-01T10:00:00Z"}]`
	newerNetwork := `
metadata: {name: newer}
spec: {region: eu-west-3, vpc: {existingID: vpc-1}}
status:
  initialization: {provisioned: true}
  vpc: {id: vpc-1}
  endpoint: example.com:443
  conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2025-03-01T10:00:00Z"}]`
	olderPlane := `
metadata: {name: older}
spec: {version: "1.31", workspaceTemplateRef: {name: x}, controlPlaneEndpoint: {host: "https://example.com", port: 443}}
status: {ready: true, phase: Ready}`
	newerPlane := `
metadata: {name: newer}
spec: {version: v1.31.0, workspaceTemplateRef: {name: x}, controlPlaneEndpoint: {host: example.com, port: 443}}
status:
  phase: Ready
  version: v1.31.0
  endpoint: example.com:443
  conditions: [{type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2025-03-01T10:00:00Z"}]`

	networkColumns, planeColumns := []string{"Name", "VPC-ID", "Ready", "Endpoint", "Age"}, []string{"Name", "Ready", "Phase", "Version", "Endpoint", "Age"}
	for name, test := range map[string]struct {
		kind            kind
		written, object string
		columns         []string
		cells           map[string][]any
	}{
		// The endpoint is in an annotation, which users can write: the manager reports it with the first reconciliation.
		"CAPTCluster written in v1beta1": {captCluster, spoke, olderNetwork, networkColumns, map[string][]any{
			spoke: {"older", "vpc-1", true, nil}, hub: {"older", "vpc-1", "True", nil}}},
		"CAPTCluster written in v1beta2": {captCluster, hub, newerNetwork, networkColumns, map[string][]any{
			spoke: {"newer", "vpc-1", true, "example.com:443"}, hub: {"newer", "vpc-1", "True", "example.com:443"}}},
		// What CAPT v0.3 did not report is reported with the first reconciliation.
		"CAPTControlPlane written in v1beta1": {captControlPlane, spoke, olderPlane, planeColumns, map[string][]any{
			spoke: {"older", true, "Ready", "1.31", "https://example.com"}, hub: {"older", "True", "Ready", nil, nil}}},
		"CAPTControlPlane written in v1beta2": {captControlPlane, hub, newerPlane, planeColumns, map[string][]any{
			spoke: {"newer", true, "Ready", "v1.31.0", "example.com"}, hub: {"newer", "True", "Ready", "v1.31.0", "example.com:443"}}},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(test.object), &object.Object))
			object.SetGroupVersionKind(test.kind.in(test.written).GroupVersion().WithKind(test.kind.name))
			namespace := fixture.NewNamespace(t, shared.admin)
			shared.create(t, namespace, object)
			for _, version := range versions {
				columns, cells := table(t, test.kind, version, namespace)
				if version == hub {
					last := len(columns) - 1
					require.Equal(t, "Message", columns[last])
					columns, cells = columns[:last], cells[:last]
				}
				require.Equal(t, test.columns, columns)
				require.Equal(t, test.cells[version], cells[:len(cells)-1], "in "+version)
				require.Regexp(t, `^\d+m?s$`, cells[len(cells)-1])
			}
		})
	}
}

// table is what "kubectl get" prints of a namespace with one object, without the columns that only "-o wide" shows.
func table(t *testing.T, k kind, version, namespace string) (columns []string, cells []any) {
	t.Helper()
	response := get(t, k, version, namespace, "application/json;as=Table;v=v1;g=meta.k8s.io")
	var answer metav1.Table
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	require.Len(t, answer.Rows, 1)
	for i, column := range answer.ColumnDefinitions {
		if column.Priority == 0 {
			columns, cells = append(columns, column.Name), append(cells, answer.Rows[0].Cells[i])
		}
	}
	return columns, cells
}

// get lists the objects of a kind.
func get(t *testing.T, k kind, version, namespace, accept string) *http.Response {
	t.Helper()
	admin, err := rest.HTTPClientFor(shared.sandbox.Config())
	require.NoError(t, err)
	url := shared.sandbox.Config().Host + "/apis/" + k.group + "/" + version
	if namespace != "" {
		url += "/namespaces/" + namespace
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/"+k.resource, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", accept)
	response, err := admin.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	require.Equal(t, http.StatusOK, response.StatusCode)
	return response
}
