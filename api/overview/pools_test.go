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

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
)

// withPool has a Ready Cluster with a Ready machine pool of three nodes, and a Ready add-on.
func withPool() *overview.Objects {
	o, isReady := ready(), condition("Ready", metav1.ConditionTrue, "Ready")
	pool := overview.Pool{
		MachinePool:     &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "workers"}},
		CAPTMachinePool: &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workers"}},
	}
	pool.MachinePool.Spec.Replicas = ptr.To[int32](3)
	pool.CAPTMachinePool.Spec.WorkspaceTemplateApplyRef.Name = "nodegroup"
	pool.CAPTMachinePool.Spec.WorkspaceTemplateRef.Name = "nodegroup"
	pool.CAPTMachinePool.Status = infrav1.CAPTMachinePoolStatus{
		Conditions: []metav1.Condition{isReady}, Replicas: ptr.To[int32](3), ReadyReplicas: ptr.To[int32](3), WantedReplicas: ptr.To[int32](3), Version: "v1.35.0",
	}
	pool.CAPTMachinePool.Status.Initialization.Provisioned = ptr.To(true)
	o.Pools = []overview.Pool{pool}
	o.Applies = append(o.Applies, apply("nodegroup", isReady), apply("karpenter", isReady))
	return o
}

// A pool and an add-on make a Cluster Degraded that is Ready otherwise; nodes that are only starting do not.
func TestMachinePoolsAndAddOnsCount(t *testing.T) {
	fails := func(reason string) []metav1.Condition {
		return []metav1.Condition{condition("Ready", metav1.ConditionFalse, reason)}
	}
	degraded := append(fails(infrav1.NodesNotReadyReason), condition("Degraded", metav1.ConditionTrue, infrav1.NodesNotReadyReason))
	for name, row := range map[string]struct {
		spoil   func(*overview.Objects)
		state   string
		cause   string
		command string
	}{
		"all are Ready": {func(*overview.Objects) {}, "Ready", "", ""},
		"the node group fails": {func(o *overview.Objects) {
			o.Applies[3].Status.Conditions, o.Pools[0].CAPTMachinePool.Status.Conditions = fails("ApplyFailed"), fails("ApplyFailed")
			o.Applies[3].Spec.TemplateRef.Name = "nodegroup"
		}, "Degraded", "WorkspaceTemplateApply nodegroup Ready ApplyFailed", "kubectl edit captmachinepool -n default workers"},
		"nodes start": {func(o *overview.Objects) {
			o.Pools[0].CAPTMachinePool.Status.Conditions = fails(infrav1.NodesNotReadyReason)
			o.Pools[0].CAPTMachinePool.Status.Conditions[0].LastTransitionTime = at(9)
		}, "Ready", "CAPTMachinePool workers Ready NodesNotReady", ""},
		"nodes are not ready for too long": {func(o *overview.Objects) {
			o.Pools[0].CAPTMachinePool.Status.Conditions = degraded
		}, "Degraded", "CAPTMachinePool workers Degraded NodesNotReady",
			"captctl run default/demo"},
		"nodes have not been ready for minutes": {func(o *overview.Objects) {
			o.Pools[0].CAPTMachinePool.Status.Conditions = fails(infrav1.NodesNotReadyReason)
			o.Pools[0].CAPTMachinePool.Status.Conditions[0].LastTransitionTime = at(8)
		}, "Ready", "CAPTMachinePool workers Ready NodesNotReady",
			"captctl run default/demo"},
		"the replicas are out of bounds": {func(o *overview.Objects) {
			o.Pools[0].CAPTMachinePool.Status.Conditions = fails(infrav1.ReplicasOutOfBoundsReason)
		}, "Degraded", "CAPTMachinePool workers Ready ReplicasOutOfBounds", "kubectl edit captmachinepool -n default workers"},
		"it waits for the control plane": {func(o *overview.Objects) {
			o.Pools[0].CAPTMachinePool.Status.Conditions = fails(infrav1.WaitingForVersionReason)
		}, "Ready", "CAPTMachinePool workers Ready WaitingForVersion", ""},
		"it does not exist": {func(o *overview.Objects) {
			o.Pools[0].MachinePool.Spec.Template.Spec.InfrastructureRef.Name = "lost"
			o.Pools[0].CAPTMachinePool = nil
		}, "Degraded", "MachinePool workers  NotFound", ""},
		"Cluster API does not delete it": {func(o *overview.Objects) {
			o.Pools[0].MachinePool.DeletionTimestamp, o.Pools[0].MachinePool.Finalizers = ptr.To(at(8)), []string{clusterv1.MachinePoolFinalizer}
		}, "Degraded", "MachinePool workers Deleting WaitingForFinalizers", "kubectl -n capi-system logs deployment/capi-controller-manager --tail=50"},
		"it cannot be destroyed": {func(o *overview.Objects) {
			o.Applies[3].Status.Conditions = append(fails(infrav1.DeletingReason), condition("Deleting", metav1.ConditionTrue, infrav1.DestroyFailedReason))
		}, "Degraded", "WorkspaceTemplateApply nodegroup Deleting DestroyFailed", "captctl run default/demo"},
		"an add-on fails": {func(o *overview.Objects) {
			o.Applies[4].Status.Conditions = fails("ApplyFailed")
		}, "Degraded", "WorkspaceTemplateApply karpenter Ready ApplyFailed", "kubectl edit workspacetemplateapply -n  karpenter"},
		"the control plane fails as well": {func(o *overview.Objects) {
			o.Applies[3].Status.Conditions, o.ControlPlane.Status.Conditions = fails("ApplyFailed"), fails("HealthCheckFailed")
		}, "Degraded", "CAPTControlPlane demo Ready HealthCheckFailed", "kubectl --kubeconfig demo.kubeconfig get --raw '/readyz?verbose'"},
	} {
		o := withPool()
		row.spoil(o)
		got := overview.Of(o, at(10))
		assert.EqualValues(t, row.state, got.State, name)
		assert.Equal(t, row.state == "Ready", got.Health == "Healthy", name)
		if row.cause == "" {
			assert.Nil(t, got.Cause, name)
			continue
		}
		require.NotNil(t, got.Cause, name)
		assert.Equal(t, row.cause, got.Cause.Kind+" "+got.Cause.Name+" "+got.Cause.Condition+" "+got.Cause.Reason, name)
		next := overview.NextStep(o, &got, at(10).Time)
		if row.command == "" {
			assert.Nil(t, next, name)
			continue
		}
		require.NotNil(t, next, name)
		assert.Equal(t, row.command, next.Commands[len(next.Commands)-1], name)
	}
}

// A pool does not delay the control plane, whose progress continues.
func TestTheProgressOfAControlPlaneDoesNotStallForAMachinePool(t *testing.T) {
	o := withPool()
	o.Pools[0].CAPTMachinePool.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, infrav1.ReplicasOutOfBoundsReason)}
	o.ControlPlane.Status.Progress = updating()
	assert.EqualValues(t, 50, overview.Of(o, at(20)).Progress.PercentComplete)
}

func TestNodesAreThoseOfAllMachinePools(t *testing.T) {
	o := withPool()
	assert.Equal(t, "3/3", overview.Of(o, at(10)).Nodes.String())
	created := overview.Pool{MachinePool: &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "more"}}}
	created.MachinePool.Spec.Replicas = ptr.To[int32](2)
	o.Pools = append(o.Pools, created)
	assert.Equal(t, "3/5", overview.Of(o, at(10)).Nodes.String(), "one has no node group yet")
	o.Pools[0].CAPTMachinePool.Status.ReadyReplicas = nil
	assert.Equal(t, "?/5", overview.Of(o, at(10)).Nodes.String(), "its nodes cannot be read")
	assert.Empty(t, overview.Of(ready(), at(10)).Nodes.String(), "there are no pools")
	o.Pools[0].CAPTMachinePool.Status.Conditions = append(o.Pools[0].CAPTMachinePool.Status.Conditions, condition(infrav1.NodesKnownCondition, metav1.ConditionFalse, infrav1.NodesUnreachableReason))
	require.Len(t, o.Warnings(), 1)
	assert.Equal(t, "CAPTMachinePool", o.Warnings()[0].Kind)
}

func TestWhatATopologyWaitsForIsReported(t *testing.T) {
	o, differ := withPool(), condition(infrav1.KubeletVersionsDifferCondition, metav1.ConditionTrue, infrav1.KubeletVersionsDifferReason)
	differ.Message = "Cluster API waits"
	o.Pools[0].CAPTMachinePool.Status.Conditions = append(o.Pools[0].CAPTMachinePool.Status.Conditions, differ)
	o.Cluster.Status.Conditions = append(o.Cluster.Status.Conditions, condition(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, clusterv1.ClusterTopologyReconciledClusterUpgradingReason))
	require.Len(t, o.Warnings(), 1)
	assert.Equal(t, "Cluster API waits", o.Warnings()[0].Message)
	assert.Equal(t, infrav1.StateReady, overview.Of(o, at(10)).State, "its nodes are ready")
	var types []string
	for _, condition := range o.Conditions() {
		types = append(types, condition.Type)
	}
	assert.Subset(t, types, []string{infrav1.KubeletVersionsDifferCondition, clusterv1.ClusterTopologyReconciledCondition})
}

func TestPoolsArePairedByReference(t *testing.T) {
	machinePool := func(name, kind, ref string) *clusterv1.MachinePool {
		pool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pool.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: ref}
		return pool
	}
	own := func(name string) *infrav1.CAPTMachinePool {
		return &infrav1.CAPTMachinePool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	pools, err := overview.PoolsOf(
		[]*clusterv1.MachinePool{machinePool("b", "CAPTMachinePool", "x"), machinePool("a", "AWSMachinePool", "x"), machinePool("c", "CAPTMachinePool", "new"), machinePool("d", "CAPTMachinePool", "lost")},
		[]*infrav1.CAPTMachinePool{own("x"), own("orphan")},
		func(name string) (*infrav1.CAPTMachinePool, error) {
			return map[string]*infrav1.CAPTMachinePool{"new": own("new")}[name], nil
		})
	require.NoError(t, err)
	var found []string
	for i := range pools {
		name := "none"
		if pools[i].CAPTMachinePool != nil {
			name = pools[i].CAPTMachinePool.Name
		}
		found = append(found, pools[i].Name()+" "+name)
	}
	assert.Equal(t, []string{"b x", "c new", "d none", "orphan orphan"}, found)
}

func TestTheStateOfAMachinePool(t *testing.T) {
	o := withPool()
	pool := o.Pools[0].CAPTMachinePool
	for _, state := range []infrav1.State{infrav1.StatePending, infrav1.StateReady, infrav1.StateDegraded} {
		pool.Status.State = state
		assert.Equal(t, state, overview.StateOf(pool))
		list := o.MachinePools()
		require.Len(t, list, 1)
		assert.Equal(t, state, list[0].State)
		assert.Equal(t, "workers", list[0].Name)
	}
}

func TestEachWorkspaceTemplateApplyHasARole(t *testing.T) {
	o, roles := withPool(), map[string]overview.Role{}
	for _, apply := range o.Applies {
		roles[apply.Name] = o.RoleOf(apply)
	}
	assert.Equal(t, map[string]overview.Role{"vpc": "vpc", "eks": "controlplane", "profile": "fargate", "nodegroup": "machinepool", "karpenter": "addon"}, roles)
}

// The message is that of the module, which has vpc_config from the VPC.
func TestAPoolWithoutSubnetsNamesTheTemplateOfTheVPC(t *testing.T) {
	o := withPool()
	o.CAPTCluster.Namespace, o.CAPTCluster.Spec.VPC.Template.Ref.Name = "default", "network"
	failed := condition("Ready", metav1.ConditionFalse, "PlanFailed")
	failed.Message = "Resource precondition failed: vpc_config names no subnets"
	o.Applies[3].Status.Conditions = []metav1.Condition{failed}
	c := overview.Of(o, at(10))
	assert.Contains(t, overview.NextStep(o, &c, at(10).Time).Commands, "kubectl edit workspacetemplate -n default network")
}
