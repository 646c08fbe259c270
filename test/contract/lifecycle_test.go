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
	"sigs.k8s.io/cluster-api/util"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// The whole of it: what users see of a Cluster, from its first day to its last.
func TestAClusterGoesThroughItsPhases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner := &clusterv1.Cluster{}
	is := func(phase clusterv1.ClusterPhase, conditions map[string]metav1.ConditionStatus) {
		t.Helper()
		for condition, status := range conditions {
			w.awaitCondition(owner, "new", condition, status, "")
		}
		require.Equal(t, string(phase), owner.Status.Phase)
	}
	w.Play("new-vpc", applyHangs)
	w.Play(controlPlaneApply, applyHangs)
	w.apply(everything("new", "v1.34.0")...)
	w.AwaitOperation("new-vpc", scripted.Apply)
	is(clusterv1.ClusterPhaseProvisioning, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionFalse, clusterv1.ClusterControlPlaneInitializedCondition: metav1.ConditionFalse,
		clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionFalse, clusterv1.ClusterAvailableCondition: metav1.ConditionFalse,
	})
	require.Len(t, w.workspaces(), 1, "the control plane waits for the VPC")

	w.Play("new-vpc", goesWell)
	w.AwaitOperation(controlPlaneApply, scripted.Apply)
	is(clusterv1.ClusterPhaseProvisioning, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedCondition: metav1.ConditionFalse,
		clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionFalse, clusterv1.ClusterAvailableCondition: metav1.ConditionFalse,
	})

	w.Play(controlPlaneApply, destroyHangs)
	w.awaitAvailable("new")
	is(clusterv1.ClusterPhaseProvisioned, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedCondition: metav1.ConditionTrue,
		clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionTrue, clusterv1.ClusterAvailableCondition: metav1.ConditionTrue,
	})

	w.Remove(owner, "new")
	w.AwaitOperation(controlPlaneApply, scripted.Destroy)
	is(clusterv1.ClusterPhaseDeleting, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionTrue, clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionFalse,
		clusterv1.ClusterAvailableCondition: metav1.ConditionFalse,
	})
	require.Nil(t, w.Workspace("new-vpc").GetDeletionTimestamp(), "the control plane goes first")
	w.Play(controlPlaneApply, goesWell)
	w.AwaitGone(owner, "new")
	require.Empty(t, w.workspaces())
}

// Cluster API makes the Cluster the owner, by its references and not by names. Until then, an object waits.
func TestObjectsWaitForTheirCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), newVPC("new"), controlPlaneTemplate(), eks("new", "v1.34.0"))
	captCluster, controlPlane := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	w.awaitCondition(captCluster, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForOwnerReason)
	w.awaitCondition(controlPlane, "new", controlplanev1.ReadyCondition, metav1.ConditionFalse, controlplanev1.WaitingForOwnerReason)
	require.Empty(t, captCluster.Finalizers)
	require.Empty(t, controlPlane.Finalizers)
	require.Empty(t, w.workspaces())

	w.apply(cluster("new"))
	w.awaitTrue(captCluster, "new", infrav1.ReadyCondition)
	w.awaitTrue(controlPlane, "new", controlplanev1.ReadyCondition)
	owner := &clusterv1.Cluster{}
	w.read(owner, "new")
	require.True(t, util.IsOwnedByObject(captCluster, owner, clusterv1.GroupVersion.WithKind("Cluster").GroupKind()))
	require.True(t, util.IsOwnedByObject(controlPlane, owner, clusterv1.GroupVersion.WithKind("Cluster").GroupKind()))
	require.Equal(t, "new", captCluster.Labels[clusterv1.ClusterNameLabel])
	require.Equal(t, "new", controlPlane.Labels[clusterv1.ClusterNameLabel])
}

// Without a Cluster there is nothing to do before an object goes.
func TestObjectsWithoutAClusterAreDeletedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(newVPC("new"), eks("new", "v1.34.0"))
	captCluster, controlPlane := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	w.awaitCondition(captCluster, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForOwnerReason)
	w.awaitCondition(controlPlane, "new", controlplanev1.ReadyCondition, metav1.ConditionFalse, controlplanev1.WaitingForOwnerReason)
	w.Remove(captCluster, "new")
	w.Remove(controlPlane, "new")
	w.AwaitGone(captCluster, "new")
	w.AwaitGone(controlPlane, "new")
}

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
