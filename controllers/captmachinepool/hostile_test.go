// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captmachinepool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/test/builder"
)

// The policy is the first guard, and may be absent.
func TestADeletionIsHeldByEveryMachinePoolThatRefersToThePool(t *testing.T) {
	finalizer := builder.WithFinalizers("held/by-core")
	refers := builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.InfrastructureRef.Name = "workers" })
	for name, row := range map[string]struct {
		objects []client.Object
		change  func(env *environment)
		live    string
	}{
		"a copy refers to it": {[]client.Object{three(finalizer), builder.MachinePool("copy", refers)}, func(env *environment) { env.remove(three()) }, "copy"},
		"a user removed the owner reference": {[]client.Object{three()}, func(env *environment) {
			update(env, env.get(), func(pool *infrav1.CAPTMachinePool) { pool.OwnerReferences = nil })
		}, "workers"},
	} {
		t.Run(name, func(t *testing.T) {
			env := created(t, newWorkload(t), append(row.objects, poolOf())...)
			env.reconcile()
			row.change(env)
			env.remove(env.get())
			env.reconcile()
			assert.Equal(t, "True UsedByMachinePool", env.summary()["Deleting"])
			assert.Contains(t, env.message("Deleting"), "MachinePool "+row.live+" refers to this object")
			assert.Nil(t, env.apply().DeletionTimestamp)
		})
	}
}

// Admission does not check MachinePools while the webhook does not respond.
func TestTwoPoolsNeverCreateOneNodeGroup(t *testing.T) {
	named := builder.With(func(pool *infrav1.CAPTMachinePool) { pool.Spec.NodeGroupName = "workers" })
	older := builder.With(func(pool *infrav1.CAPTMachinePool) {
		pool.CreationTimestamp = metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	})
	first := builder.CAPTMachinePool("first", named, older, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))
	of := builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.InfrastructureRef.Name = "first" })
	env := newEnvironment(t, three(), poolOf(), first, builder.MachinePool("first", of))
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False InvalidNodeGroupName", env.summary()["Ready"])
	assert.Contains(t, env.message("Ready"), "node group workers is that of CAPTMachinePool first")
	assert.Empty(t, env.reconcile())

	assert.Equal(t, []ctrl.Request{request}, env.requests().Awaiting(owner.AwaitsNodeGroupName)(t.Context(), first), "its deletion causes a reconcile")
	env.remove(first)
	assert.Contains(t, env.reconcile(), "apply workers-nodegroup-apply")
}

// Another name would replace the node group.
func TestANodeGroupKeepsItsName(t *testing.T) {
	env := created(t, newWorkload(t), three(), poolOf())
	env.reconcile()
	refers := builder.With(func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.InfrastructureRef.Name = "workers" })
	renamed := builder.MachinePool("renamed", builder.WithReplicas(3), refers)
	env.remove(three())
	assert.NoError(t, env.Create(t.Context(), renamed))
	update(env, env.get(), func(pool *infrav1.CAPTMachinePool) {
		pool.OwnerReferences = nil
		builder.OwnedBy(builder.MachinePool("renamed"))(pool)
	})
	env.reconcile()
	assert.Equal(t, "workers", env.apply().Spec.Variables.Text(naming.NodeGroupVariable))
}

// Otherwise a pool would not be Degraded for another quarter of an hour after each restart, and the size that Terraform reported when it last ran would replace
// that which an autoscaler has reached since.
func TestARestartOfTheManagerChangesNothing(t *testing.T) {
	external := builder.WithAnnotation(clusterv1.ReplicasManagedByAnnotation, "external-autoscaler")
	limits := builder.With(func(pool *infrav1.CAPTMachinePool) {
		pool.Spec.Scaling = infrav1.MachinePoolScaling{MinSize: ptr.To[int32](1), MaxSize: ptr.To[int32](9)}
		pool.Spec.Timeouts.NodesReadySeconds = 10
	})
	env := created(t, newWorkload(t, "a", "b!", "c", "d", "e"), three(external), poolOf(limits))
	env.settles("NodesReady", "False NodesNotReady")
	env.State.Clock = nil // Conditions have the time of the machine.
	pool := env.get()
	for i := range pool.Status.Conditions {
		pool.Status.Conditions[i].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	}
	require.NoError(t, env.Status().Update(t.Context(), pool))
	env.reconcile()
	require.Equal(t, "True NodesNotReady", env.summary()["Degraded"])
	require.Equal(t, ptr.To[int32](5), get(env, three()).Spec.Replicas)
	require.Empty(t, env.reconcile())
	before := env.get().Status

	env.Nodes = nodes.NewWatcher() // It has not listed the nodes.
	assert.Empty(t, env.reconcile())
	assert.Equal(t, before, env.get().Status)
	assert.Equal(t, ptr.To[int32](5), get(env, three()).Spec.Replicas)
}

// A pool waits for a long time, for example while its control plane is upgraded.
func TestNodesArePublishedWhileSomethingBlocksTheNodeGroup(t *testing.T) {
	server := newWorkload(t, "a", "b", "c")
	env := created(t, server, three(), poolOf())
	env.settles("Ready", "True Ready")
	update(env, three(), func(m *clusterv1.MachinePool) { m.Spec.Template.Spec.Version = "v1.99.0" })
	env.settles("Ready", "False InvalidVersion")
	server.set(0, "a", "d", "e")
	require.Eventually(t, func() bool {
		env.reconcile()
		return assert.ObjectsAreEqual([]string{"aws:///a", "aws:///d", "aws:///e"}, env.get().Spec.ProviderIDList)
	}, 10*time.Second, 20*time.Millisecond)
}

// The Secret of an existing VPC can be named later: the variable vpc_connection_secret follows it, so CAPTClusters are watched.
func TestANodeGroupFollowsTheVPCOfItsCluster(t *testing.T) {
	existing := builder.CAPTCluster("demo", builder.With(func(c *infrav1.CAPTCluster) { c.Spec.VPC = infrav1.VPC{ExistingID: "vpc-0123"} }))
	env := newEnvironmentOf(t, three(), poolOf(), builder.Cluster("demo"), existing, initialized(), eksApply())
	env.reconcile()
	assert.Empty(t, env.apply().Spec.Variables.Text(naming.VPCConnectionVariable))
	update(env, existing, func(c *infrav1.CAPTCluster) { c.Spec.VPC.ConnectionSecretRef.Name = "net" })
	env.reconcile()
	assert.Equal(t, "net", env.apply().Spec.Variables.Text(naming.VPCConnectionVariable))
}

// The deletion of the definition deletes every MachinePool.
func TestTheDeletionOfTheDefinitionOfMachinePoolsDestroysNothing(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "machinepools.cluster.x-k8s.io", Finalizers: []string{"held/by-the-test"}}}
	env := created(t, newWorkload(t), three(builder.WithFinalizers("held/by-core")), poolOf(), definition)
	env.reconcile()
	env.remove(definition)
	env.remove(three())
	env.remove(env.get())
	env.reconcile()
	assert.Equal(t, "True DefinitionDeleting", env.summary()["Deleting"])
	assert.Nil(t, env.apply().DeletionTimestamp)
}
