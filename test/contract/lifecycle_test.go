// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
