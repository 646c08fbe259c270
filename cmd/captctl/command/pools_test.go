// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// ofCluster is the metadata of an object with the label of a Cluster.
func ofCluster(cluster, name string) metav1.ObjectMeta {
	of := named(name)
	of.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
	return of
}

// withPool is a Ready Cluster with a machine pool of three nodes, of which two are ready, and a Ready add-on.
func withPool(change func(*infrav1.CAPTMachinePool, *infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplateApply)) *environment {
	machinePool := &clusterv1.MachinePool{ObjectMeta: ofCluster("good", "workers")}
	machinePool.Spec = clusterv1.MachinePoolSpec{ClusterName: "good", Replicas: ptr.To[int32](3)}
	machinePool.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "CAPTMachinePool", Name: "workers"}
	pool, nodeGroup, addOn := &infrav1.CAPTMachinePool{ObjectMeta: ofCluster("good", "workers")}, &infrav1.WorkspaceTemplateApply{ObjectMeta: ofCluster("good", "nodegroup")},
		&infrav1.WorkspaceTemplateApply{ObjectMeta: ofCluster("good", "karpenter")}
	pool.Spec.WorkspaceTemplateRef.Name, pool.Spec.WorkspaceTemplateApplyRef.Name = "nodegroup", "nodegroup"
	pool.Status = infrav1.CAPTMachinePoolStatus{
		Conditions:    readyCondition(metav1.ConditionFalse, infrav1.NodesNotReadyReason, "2 of 3 nodes are ready; not ready: ip-10-0-0-3"),
		ReadyReplicas: ptr.To[int32](2), WantedReplicas: ptr.To[int32](3), Version: "v1.36.0",
	}
	pool.Status.Initialization.Provisioned = ptr.To(true)
	nodeGroup.Status.Conditions, addOn.Status.Conditions = readyCondition(metav1.ConditionTrue, "Ready", ""), readyCondition(metav1.ConditionTrue, "Ready", "")
	change(pool, nodeGroup, addOn)
	objects := capt("good", controlplanev1.StateReady, func(*controlplanev1.CAPTControlPlane, *infrav1.WorkspaceTemplateApply) {})
	return &environment{objects: append(objects, machinePool, pool, nodeGroup, addOn)}
}

func TestGetAndDescribeShowMachinePools(t *testing.T) {
	starting := withPool(func(*infrav1.CAPTMachinePool, *infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplateApply) {})
	out, _, err := starting.run(t, "get")
	require.NoError(t, err)
	assert.Contains(t, out, "team-a      good   Ready   v1.36.0   Healthy   2/3     -          10m       60m   2 of 3 nodes are ready; not ready: ip-10-0-0-3")

	degraded := withPool(func(pool *infrav1.CAPTMachinePool, _, _ *infrav1.WorkspaceTemplateApply) {
		pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{
			Type: infrav1.DegradedCondition, Status: metav1.ConditionTrue, Reason: infrav1.NodesNotReadyReason, LastTransitionTime: before(2), Message: "2 of 3 nodes are ready, for more than 15m",
		})
	})
	out, _, err = degraded.run(t, "get")
	require.NoError(t, err)
	assert.Contains(t, out, "team-a      good   Degraded   v1.36.0   Unhealthy   2/3     -          10m       60m   2 of 3 nodes are ready, for more than 15m")
	out, _, err = degraded.run(t, "describe", "team-a/good")
	require.NoError(t, err)
	for _, want := range []string{
		"Nodes:     2/3\n",
		"Cause: CAPTMachinePool workers: NodesNotReady (for 2m)\n",
		"clusterctl get kubeconfig good -n team-a > good.kubeconfig && kubectl --kubeconfig good.kubeconfig describe nodes -l eks.amazonaws.com/nodegroup=workers\n",
		"MACHINE-POOL   STATE      NODES   VERSION   SINCE   MESSAGE\nworkers        Degraded   2/3     v1.36.0   5m      2 of 3 nodes are ready; not ready: ip-10-0-0-3\n",
		"WorkspaceTemplateApply/karpenter", "WorkspaceTemplateApply/nodegroup", "CAPTMachinePool/workers",
	} {
		assert.Contains(t, out, want)
	}
}

func TestAnAddOnThatFailsIsTheCause(t *testing.T) {
	env := withPool(func(_ *infrav1.CAPTMachinePool, _, addOn *infrav1.WorkspaceTemplateApply) {
		addOn.Status.Conditions = readyCondition(metav1.ConditionFalse, "ApplyFailed", denied)
		addOn.Status.LastFailureClass, addOn.Status.LastFailureMessage = "Auth", denied
	})
	out, _, err := env.run(t, "get")
	require.NoError(t, err)
	assert.Contains(t, out, "1 Cluster: 1 Degraded\n")
	out, _, err = env.run(t, "describe", "team-a/good")
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplateApply karpenter: ApplyFailed (not Ready for 5m)")
	out, _, err = env.run(t, "logs", "team-a/good")
	require.NoError(t, err)
	assert.Contains(t, out, "WorkspaceTemplateApply karpenter (Auth):\n")
}

func TestTreeReportAndImpactHaveMachinePools(t *testing.T) {
	env := withPool(func(_ *infrav1.CAPTMachinePool, nodeGroup, _ *infrav1.WorkspaceTemplateApply) {
		nodeGroup.Spec.TemplateRef.Name, nodeGroup.Spec.WorkspaceName = "nodegroup", "nodegroup"
	})
	out, _, err := env.run(t, "tree", "team-a/good")
	require.NoError(t, err)
	assert.Contains(t, out, strings.TrimLeft(`
CAPTMachinePool/workers                False   NodesNotReady
├── CAPTControlPlane/good ...          True    -
└── WorkspaceTemplateApply/nodegroup   True    -
    └── CAPTControlPlane/good ...      True    -
`, "\n"))
	out, _, err = env.run(t, "report")
	require.NoError(t, err)
	assert.Contains(t, out, `<td data-label="Nodes">2/3</td>`)
	assert.Contains(t, out, "Machine pools")
	out, _, err = env.run(t, "tree", "--impact", "CAPTMachinePool/team-a/workers")
	require.NoError(t, err)
	assert.Contains(t, out, "CAPTMachinePool/workers")
}

func TestRetryAndReconcileReachMachinePools(t *testing.T) {
	env := withPool(func(*infrav1.CAPTMachinePool, *infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplateApply) {})
	out, _, err := env.run(t, "retry", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "Cluster team-a/good: CAPTControlPlane good: timeouts and recovery attempts start again; CAPTMachinePool workers is reconciled now\n", out)
	out, _, err = env.run(t, "reconcile", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "Cluster team-a/good: CAPT reconciles 6 objects\n", out)
	pool := &infrav1.CAPTMachinePool{}
	require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "workers"}, pool))
	assert.NotEmpty(t, pool.Annotations[naming.RetryAnnotation])
	assert.NotEmpty(t, pool.Annotations[naming.ReconcileAnnotation])
}

// Cluster API can be installed without MachinePools, and CAPT can be older than captctl.
func TestCommandsWorkWithoutTheKindsOfMachinePools(t *testing.T) {
	for _, arguments := range [][]string{{"get"}, {"describe", "team-a/broken"}, {"tree", "team-a/broken"}, {"report"}, {"logs", "team-a/broken"}, {"diff"}, {"tree", "--impact", "Cluster/team-a/good"}} {
		env := aFleet()
		env.funcs = interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list.(type) {
			case *clusterv1.MachinePoolList:
				return &meta.NoKindMatchError{GroupKind: clusterv1.GroupVersion.WithKind("MachinePool").GroupKind()}
			case *infrav1.CAPTMachinePoolList:
				return &meta.NoKindMatchError{GroupKind: infrav1.GroupVersion.WithKind("CAPTMachinePool").GroupKind()}
			}
			return c.List(ctx, list, options...)
		}}
		_, _, err := env.run(t, arguments...)
		assert.NoError(t, err, arguments)
	}
}
