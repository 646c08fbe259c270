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
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// The whole of it: what users see of a Cluster, from its first day to its last.
func TestAClusterGoesThroughItsPhases(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	owner := &clusterv1.Cluster{}
	is := func(phase clusterv1.ClusterPhase, conditions map[string]metav1.ConditionStatus) {
		t.Helper()
		for condition, status := range conditions {
			env.awaitCondition(owner, "new", condition, status, "")
		}
		require.Equal(t, string(phase), owner.Status.Phase)
	}
	env.SetScript("new-vpc", applyHangs)
	env.SetScript(controlPlaneApply, applyHangs)
	env.apply(everything("new", "v1.34.0")...)
	env.AwaitOperation("new-vpc", scripted.Apply)
	is(clusterv1.ClusterPhaseProvisioning, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionFalse, clusterv1.ClusterControlPlaneInitializedCondition: metav1.ConditionFalse,
		clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionFalse, clusterv1.ClusterAvailableCondition: metav1.ConditionFalse,
	})
	require.Len(t, env.workspaces(), 1, "the control plane waits for the VPC")

	env.SetScript("new-vpc", goesWell)
	env.AwaitOperation(controlPlaneApply, scripted.Apply)
	is(clusterv1.ClusterPhaseProvisioning, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedCondition: metav1.ConditionFalse,
		clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionFalse, clusterv1.ClusterAvailableCondition: metav1.ConditionFalse,
	})

	env.SetScript(controlPlaneApply, destroyHangs)
	env.awaitAvailable("new")
	is(clusterv1.ClusterPhaseProvisioned, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedCondition: metav1.ConditionTrue,
		clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionTrue, clusterv1.ClusterAvailableCondition: metav1.ConditionTrue,
	})

	env.Remove(owner, "new")
	env.AwaitOperation(controlPlaneApply, scripted.Destroy)
	is(clusterv1.ClusterPhaseDeleting, map[string]metav1.ConditionStatus{
		clusterv1.ClusterInfrastructureReadyCondition: metav1.ConditionTrue, clusterv1.ClusterControlPlaneAvailableCondition: metav1.ConditionFalse,
		clusterv1.ClusterAvailableCondition: metav1.ConditionFalse,
	})
	require.Nil(t, env.Workspace("new-vpc").GetDeletionTimestamp(), "the control plane goes first")
	env.SetScript(controlPlaneApply, goesWell)
	env.AwaitGone(owner, "new")
	require.Empty(t, env.workspaces())
}

// Cluster API makes the Cluster the owner, by its references and not by names. Until then, an object waits, and there is nothing to do before it goes.
func TestObjectsWaitForTheirCluster(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.apply(vpcTemplate(), controlPlaneTemplate())
	captCluster, controlPlane := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	for _, name := range []string{"unwanted", "new"} {
		env.apply(newVPC(name), eks(name, "v1.34.0"))
		env.awaitCondition(captCluster, name, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForOwnerReason)
		env.awaitCondition(controlPlane, name, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForOwnerReason)
		require.Empty(t, captCluster.Finalizers)
		require.Empty(t, controlPlane.Finalizers)
	}
	require.Empty(t, env.workspaces())
	env.Remove(&infrav1.CAPTCluster{}, "unwanted")
	env.Remove(&controlplanev1.CAPTControlPlane{}, "unwanted")
	env.AwaitGone(&infrav1.CAPTCluster{}, "unwanted")
	env.AwaitGone(&controlplanev1.CAPTControlPlane{}, "unwanted")

	env.apply(cluster("new"))
	env.awaitTrue(captCluster, "new", infrav1.ReadyCondition)
	env.awaitTrue(controlPlane, "new", controlplanev1.ReadyCondition)
	owner := &clusterv1.Cluster{}
	env.read(owner, "new")
	require.True(t, util.IsOwnedByObject(captCluster, owner, clusterv1.GroupVersion.WithKind("Cluster").GroupKind()))
	require.True(t, util.IsOwnedByObject(controlPlane, owner, clusterv1.GroupVersion.WithKind("Cluster").GroupKind()))
	require.Equal(t, "new", captCluster.Labels[clusterv1.ClusterNameLabel])
	require.Equal(t, "new", controlPlane.Labels[clusterv1.ClusterNameLabel])
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
metadata: {name: foreign}
rules:
- {apiGroups: [infrastructure.example.com], resources: [foreignclusters], verbs: ["*"]}
`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: foreign}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: foreign}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:capi-system"}
`}

// A Cluster may have infrastructure of another provider. All that is asked of it is what the contract says; what a control
// plane would read from a CAPTCluster beside that is in its own spec.
func TestAControlPlaneStandsOnInfrastructureOfAnotherKind(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.apply(foreignProvider...)
	definition := &apiextensionsv1.CustomResourceDefinition{}
	env.await(definition, "foreignclusters.infrastructure.example.com", func() string {
		return fixture.Unless(apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established), "it is not served yet")
	})
	env.apply(controlPlaneTemplate(), eks("mixed", "v1.34.0"),
		strings.Replace(cluster("mixed"), "{apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTCluster,", "{apiGroup: infrastructure.example.com, kind: ForeignCluster,", 1),
		"apiVersion: infrastructure.example.com/v1\nkind: ForeignCluster\nmetadata: {name: mixed}\n")

	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.awaitCondition(controlPlane, "mixed", controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, controlplanev1.WaitingForInfrastructureReason)
	foreign := &unstructured.Unstructured{}
	foreign.SetGroupVersionKind(foreignKind)
	env.report(foreign, "mixed", func() {
		require.NoError(t, unstructured.SetNestedField(foreign.Object, true, "status", "initialization", "provisioned"))
	})

	// Only the control plane knows its endpoint.
	env.awaitCondition(controlPlane, "mixed", controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, controlplanev1.RegionConflictReason)
	require.Empty(t, env.workspaces())
	env.change(controlPlane, "mixed", func() { controlPlane.Spec.Region = "eu-central-1" })
	env.awaitTrue(controlPlane, "mixed", controlplanev1.ReadyCondition)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(apply, "mixed-eks-controlplane-apply")
	require.Equal(t, "eu-central-1", apply.Spec.Variables.Text("region"))
	require.NotContains(t, apply.Spec.Variables, "vpc_id")
	require.Empty(t, apply.Spec.WaitForWorkspaces)
	env.awaitAvailable("mixed")

	env.Remove(&clusterv1.Cluster{}, "mixed")
	env.AwaitGone(controlPlane, "mixed")
	env.AwaitGone(&clusterv1.Cluster{}, "mixed")
	require.Empty(t, env.workspaces())
}
