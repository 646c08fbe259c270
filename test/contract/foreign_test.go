// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// foreignKind is infrastructure of a provider that follows the contract and that CAPT has never heard of.
var foreignKind = schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1", Kind: "ForeignCluster"}

// foreignProvider is its definition, and what Cluster API may do with it.
var foreignProvider = []string{`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: foreignclusters.infrastructure.example.com
  labels: {cluster.x-k8s.io/v1beta2: v1}
spec:
  group: infrastructure.example.com
  names: {kind: ForeignCluster, plural: foreignclusters}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: foreign
rules:
- {apiGroups: [infrastructure.example.com], resources: [foreignclusters], verbs: ["*"]}
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: foreign
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: foreign}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:capi-system"}
`}

// A Cluster may have infrastructure of another provider. All that is asked of it is what the contract says; what a control
// plane would read from a CAPTCluster beside that is in its own spec.
func TestAControlPlaneStandsOnInfrastructureOfAnotherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(foreignProvider...)
	w.awaitDefinition("foreignclusters.infrastructure.example.com")
	w.apply(controlPlaneTemplate(), eks("mixed", "v1.34.0"),
		strings.Replace(cluster("mixed"), "{apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster,", "{apiGroup: infrastructure.example.com, kind: ForeignCluster,", 1),
		"apiVersion: infrastructure.example.com/v1\nkind: ForeignCluster\nmetadata: {name: mixed}\n")

	controlPlane := &controlplanev1.CAPTControlPlane{}
	w.awaitCondition(controlPlane, "mixed", controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, controlplanev1.WaitingForInfrastructureReason)
	foreign := &unstructured.Unstructured{}
	foreign.SetGroupVersionKind(foreignKind)
	w.report(foreign, "mixed", func() {
		require.NoError(t, unstructured.SetNestedField(foreign.Object, true, "status", "initialization", "provisioned"))
	})

	// Only the control plane knows its endpoint.
	w.awaitCondition(controlPlane, "mixed", controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, controlplanev1.RegionConflictReason)
	require.Empty(t, w.workspaces())
	w.change(controlPlane, "mixed", func() { controlPlane.Spec.Region = "eu-central-1" })
	w.awaitTrue(controlPlane, "mixed", controlplanev1.ReadyCondition)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.read(apply, "mixed-eks-controlplane-apply")
	require.Equal(t, "eu-central-1", apply.Spec.Variables["region"])
	require.NotContains(t, apply.Spec.Variables, "vpc_id")
	require.Empty(t, apply.Spec.WaitForWorkspaces)
	w.awaitAvailable("mixed")

	w.Remove(&clusterv1.Cluster{}, "mixed")
	w.AwaitGone(controlPlane, "mixed")
	w.AwaitGone(&clusterv1.Cluster{}, "mixed")
	require.Empty(t, w.workspaces())
}

// awaitDefinition waits until a kind is served.
func (w *world) awaitDefinition(name string) {
	w.Helper()
	definition := &apiextensionsv1.CustomResourceDefinition{}
	w.await(definition, name, func() string {
		if apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			return ""
		}
		return "it is not served yet"
	})
}
