// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/overview"
)

// Cluster API's own finalizer is never one of another controller: without it, the Cluster is gone before its objects.
func TestADeletionThatClusterAPIHoldsIsExplainedByClusterAPI(t *testing.T) {
	o := ready()
	o.Cluster.DeletionTimestamp, o.Cluster.Finalizers = ptr.To(at(8)), []string{clusterv1.ClusterFinalizer, "example.com/audit"}
	c := overview.Of(o, at(10))
	require.NotNil(t, c.Cause)
	assert.Contains(t, c.Cause.Message, "check that it runs")
	assert.NotContains(t, overview.NextStep(o, &c, at(10).Time).Step, "finalizer of one")

	o.Cluster.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: metav1.ConditionTrue, Reason: "WaitingForWorkersDeletion", Message: "* Worker Machines: left", LastTransitionTime: at(9)}}
	c = overview.Of(o, at(10))
	assert.Equal(t, &overview.Cause{
		Kind: "Cluster", Name: "demo", Condition: "Deleting", Reason: "WaitingForWorkersDeletion", Actor: "User", Since: at(9), Message: "Cluster API waits: Worker Machines: left",
	}, c.Cause)
	next := overview.NextStep(o, &c, at(10).Time)
	assert.Contains(t, next.Step, "Do not remove the finalizer of Cluster API")
	assert.Contains(t, next.Commands[0], "kubectl get machines")

	o.Cluster.Spec.Paused = ptr.To(true)
	c = overview.Of(o, at(10))
	assert.Contains(t, c.Cause.Message, "spec.paused")
	assert.Equal(t, []string{"captctl resume default/demo"}, overview.NextStep(o, &c, at(10).Time).Commands)
}

func TestAReferenceToAnotherKindIsTheCause(t *testing.T) {
	o := ready()
	o.Cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "AWSManagedCluster", Name: "demo"}
	c := overview.Of(o, at(10))
	assert.Equal(t, "spec.infrastructureRef of the Cluster refers to AWSManagedCluster demo (infrastructure.cluster.x-k8s.io), not to CAPTCluster demo (infrastructure.cluster.x-k8s.io)", c.Cause.Message)
	assert.Contains(t, overview.NextStep(o, &c, at(10).Time).Commands, "kubectl edit cluster -n default demo")
	o.CAPTCluster = nil
	assert.Nil(t, overview.Of(o, at(10)).Cause, "the infrastructure of another provider")

	o.ControlPlane, o.Applies = nil, nil
	o.Cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "CAPTCluster", Name: "demo"}
	assert.Contains(t, overview.Of(o, at(10)).Cause.Message, "spec.controlPlaneRef of the Cluster refers to CAPTCluster demo")
}

func TestACAPTClusterThatIsDeletedWithoutItsClusterNeedsAUser(t *testing.T) {
	o := ready()
	o.CAPTCluster.DeletionTimestamp = ptr.To(at(8))
	o.CAPTCluster.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, "Deleting")}
	c := overview.Of(o, at(10))
	assert.Equal(t, "Degraded", string(c.State))
	assert.True(t, c.NeedsAction)
	assert.NotNil(t, overview.NextStep(o, &c, at(10).Time))
	o.Cluster.Spec.Paused = ptr.To(true)
	assert.Equal(t, "Ready", string(overview.Of(o, at(10)).State), "clusterctl move deletes it")
}

func TestAnOwnerThatClusterAPIDoesNotSetHasANextStep(t *testing.T) {
	o := ready()
	o.CAPTCluster.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, "WaitingForOwner")}
	c := overview.Of(o, at(10))
	assert.Equal(t, "waiting for Cluster API to make the Cluster the owner of CAPTCluster "+o.CAPTCluster.Name, c.Cause.Message, "the Cluster exists")
	assert.Nil(t, overview.NextStep(o, &c, at(2).Time), "it takes some seconds")
	assert.Equal(t, "captctl check", overview.NextStep(o, &c, at(10).Time).Commands[0])
}
