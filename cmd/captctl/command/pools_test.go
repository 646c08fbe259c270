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
	objects := capt("good", infrav1.StateReady, func(*controlplanev1.CAPTControlPlane, *infrav1.WorkspaceTemplateApply) {})
	return &environment{objects: append(objects, machinePool, pool, nodeGroup, addOn)}
}

func TestGetAndDescribeShowMachinePools(t *testing.T) {
	starting := withPool(func(*infrav1.CAPTMachinePool, *infrav1.WorkspaceTemplateApply, *infrav1.WorkspaceTemplateApply) {})
	out, _, err := starting.run(t, "get")
	require.NoError(t, err)
	assert.Contains(t, out, "team-a      good   Ready   v1.36.0   Healthy   2/3     -          10m       60m   2 of 3 nodes are ready; not ready: ip-10-0-0-3")
	assert.NotContains(t, out, "Needs action", "nodes need some time to start")

	degraded := withPool(func(pool *infrav1.CAPTMachinePool, _, _ *infrav1.WorkspaceTemplateApply) {
		pool.Status.State = infrav1.StateDegraded
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
    ├── CAPTControlPlane/good ...      True    -
    └── Workspace/nodegroup            True    -
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
	assert.Equal(t, "Cluster team-a/good: CAPTControlPlane good, CAPTMachinePool workers: timeouts and recovery attempts start again\n", out)
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

// nodeGroupTemplate is the template of the machine pools of these tests.
const nodeGroupTemplate = `apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplate
metadata: {name: nodegroup, namespace: team-a}
spec:
  workspaceScope: Namespaced
  passVariables: Declared
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          variable "nodegroup_name" { type = string }
          variable "desired_size" { type = number }
          variable "min_size" { type = number }
          variable "max_size" { type = number }
          variable "kubernetes_version" { type = string }
          variable "cluster_name" { type = string }
`

const poolManifests = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {name: workers, namespace: team-a}
spec:
  clusterName: good
  replicas: 4
  template:
    spec:
      clusterName: good
      bootstrap: {dataSecretName: ""}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: CAPTMachinePool, name: workers}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTMachinePool
metadata: {name: workers, namespace: team-a}
spec:
  workspaceTemplateRef: {name: nodegroup}
  scaling: {maxSize: 6}
`

// withoutNodeGroup are a Ready Cluster of templated, with a machine pool whose node group does not exist yet, and an add-on.
func withoutNodeGroup(t *testing.T) *environment {
	t.Helper()
	env := templated(t, "a")
	for _, object := range env.objects {
		switch object := object.(type) {
		case *controlplanev1.CAPTControlPlane:
			object.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
			object.Status.Version = "v1.35.0"
		case *infrav1.WorkspaceTemplateApply:
			object.Status.Conditions = readyCondition(metav1.ConditionTrue, "UpToDate", "")
		}
	}
	template, machinePool, pool := &infrav1.WorkspaceTemplate{}, &clusterv1.MachinePool{}, &infrav1.CAPTMachinePool{}
	readYAML(t, nodeGroupTemplate, template)
	first, second, _ := strings.Cut(strings.ReplaceAll(poolManifests, "good", "a"), "---\n")
	readYAML(t, first, machinePool)
	readYAML(t, second, pool)
	machinePool.ObjectMeta, pool.ObjectMeta = ofCluster("a", "workers"), ofCluster("a", "workers")
	pool.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "MachinePool", Name: "workers", UID: machinePool.UID}}
	addOn := &infrav1.WorkspaceTemplateApply{ObjectMeta: ofCluster("a", "karpenter")}
	addOn.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Name: "missing"}
	env.objects = append(env.objects, template, machinePool, pool, addOn)
	return env
}

func TestDiffOfAClusterHasItsMachinePoolsAndAddOns(t *testing.T) {
	out, _, err := withoutNodeGroup(t).run(t, "diff", "team-a/a")
	require.NoError(t, err)
	for _, want := range []string{"+ Workspace team-a/workers-nodegroup of Cluster team-a/a (WorkspaceTemplate team-a/nodegroup)", "desired_size: 4", "max_size: 6", "WorkspaceTemplateApply team-a/karpenter"} {
		assert.Contains(t, out, want)
	}
	scaled := strings.ReplaceAll(strings.Replace(poolManifests, "replicas: 4", "replicas: 5", 1), "good", "a")
	out, _, err = withoutNodeGroup(t).run(t, "diff", "-f", written(t, scaled))
	require.NoError(t, err)
	assert.Contains(t, out, "desired_size: 5")
	assert.NotContains(t, out, "karpenter")
	out, _, err = withoutNodeGroup(t).run(t, "diff", "-f", written(t, strings.Replace(scaled, "maxSize: 6", "minSize: 5, maxSize: 8", 1)))
	require.NoError(t, err)
	assert.Contains(t, out, "max_size: 8")
}

func TestVariablesOfNodeGroupsAreSetByCAPT(t *testing.T) {
	out, _, err := run(t, name, "template", "variables", "-f", written(t, nodeGroupTemplate))
	require.NoError(t, err)
	assert.Equal(t, 6, strings.Count(out, "CAPT   -\n"), out)
	assert.NotContains(t, out, "user")
}

func TestConvertKeepsMachinePools(t *testing.T) {
	file := written(t, poolManifests)
	out, errOut, err := run(t, name, "convert", "-f", file)
	require.NoError(t, err, errOut)
	assert.Equal(t, poolManifests, out)
	assert.Empty(t, errOut)
}

func TestValidateChecksMachinePools(t *testing.T) {
	const controlPlane = `---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: good, namespace: team-a}
spec:
  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: CAPTControlPlane, name: good}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: CAPTControlPlane
metadata: {name: good, namespace: team-a}
spec: {version: v1.35.0, region: eu-central-1, workspaceTemplateRef: {name: eks}}
`
	whole := nodeGroupTemplate + "---\n" + poolManifests + controlPlane
	for title, row := range map[string]struct{ text, want string }{
		"nothing is wrong":         {whole, ""},
		"replicas are above":       {strings.Replace(whole, "replicas: 4", "replicas: 9", 1), ": error: MachinePool workers: spec.replicas: Forbidden: MachinePool workers has 9 replicas, and its node group may have 6 to 6"},
		"the version is too new":   {strings.Replace(whole, "      clusterName: good\n", "      clusterName: good\n      version: v1.36.0\n", 1), "spec.template.spec.version: Forbidden: the control plane has 1.35, and nodes cannot be newer"},
		"the template is not here": {poolManifests, ": warning: CAPTMachinePool workers: spec.workspaceTemplateRef"},
	} {
		out, _, err := run(t, name, "validate", "-f", written(t, row.text))
		if row.want == "" {
			assert.NotContains(t, out, "MachinePool workers", title)
			continue
		}
		assert.Contains(t, out, row.want, title)
		assert.Equal(t, strings.Contains(out, ": error:"), err != nil, title)
	}
}
