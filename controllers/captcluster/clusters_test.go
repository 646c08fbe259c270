// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// The deletion was accepted because the policy that rejects it is gone: Cluster API deletes what a copy of the Cluster refers to.
func TestNothingOfACAPTClusterIsDeletedWhileALiveClusterRefersToIt(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting())
	theCopy := builder.DeletedCluster("copy", builder.With(func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "demo" }))
	env := newEnvironment(t, builder.Cluster("demo"), theCopy, captCluster, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster)))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True "+infrav1.UsedByClusterReason, env.conditionSummary()[infrav1.DeletingCondition])
	for _, part := range []string{
		"Cluster demo refers to this object and is not being deleted, so nothing is destroyed", "Cluster copy refers to it too", "delete Cluster demo",
		naming.AllowDeleteAnnotation,
	} {
		assert.Contains(t, env.message(infrav1.DeletingCondition), part)
	}
	assert.Contains(t, env.get().Finalizers, infrav1.CAPTClusterFinalizer)
	assert.Empty(t, env.reconcile(), "at rest nothing is written")

	update(env, env.get(), func(c *infrav1.CAPTCluster) { c.Annotations = map[string]string{naming.AllowDeleteAnnotation: "true"} })
	assert.Contains(t, env.reconcile(), "delete demo-vpc")
}

// clusterctl move deletes objects while their Cluster exists, and removes their finalizers. The annotation pauses the object, so it needs no other right.
func TestAMovedCAPTClusterIsPausedAndDestroysNothing(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting(),
		builder.WithAnnotation(clusterctlv1.DeleteForMoveAnnotation, ""))
	env := newEnvironment(t, builder.DeletedCluster("demo"), captCluster, builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster)))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Contains(t, env.message(infrav1.DeletingCondition), "nothing is deleted while the object is paused: clusterctl move")
	assert.Contains(t, env.get().Finalizers, infrav1.CAPTClusterFinalizer)

	update(env, env.get(), func(c *infrav1.CAPTCluster) { c.Annotations = nil })
	assert.Contains(t, env.reconcile(), "delete demo-vpc", "without it, the deletion goes on")
}

// The cache may not have a Cluster yet.
func TestAClusterThatOnlyTheAPIServerHasHoldsADeletion(t *testing.T) {
	captCluster := builder.CAPTCluster("demo", owned, builder.WithApplyRef("demo-vpc"), held, builder.Deleting())
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.OwnedBy(captCluster))
	env := newEnvironment(t, captCluster, apply)
	env.Uncached = builder.Clients(builder.Cluster("demo"), captCluster.DeepCopy(), apply.DeepCopy()).Build()
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "True "+infrav1.UsedByClusterReason, env.conditionSummary()[infrav1.DeletingCondition])
}

func TestClustersThatShareACAPTClusterAreReported(t *testing.T) {
	theCopy := builder.Cluster("copy", builder.With(func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Name = "demo" }))
	env := newEnvironment(t, builder.Cluster("demo"), theCopy, builder.CAPTCluster("demo", owned))
	env.reconcile()
	assert.Contains(t, env.message(infrav1.ClusterConflictCondition), "Clusters copy, demo refer to this object")
	env.remove(theCopy)
	env.reconcile()
	assert.Equal(t, "False "+infrav1.NoClusterConflictReason, env.conditionSummary()[infrav1.ClusterConflictCondition])
}
