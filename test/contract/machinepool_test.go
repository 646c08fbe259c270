// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

var (
	poolKind         = infrav1.GroupVersion.WithKind("CAPTMachinePool")
	poolTemplateKind = infrav1.GroupVersion.WithKind("CAPTMachinePoolTemplate")
)

// poolApply is the WorkspaceTemplateApply of the pool of Cluster new, and its Workspace.
const poolApply = "new-nodegroup-apply"

// machinePoolContract is the contract of CAPTMachinePool.
func machinePoolContract() book {
	return book{file: "infra-machinepool.md", rules: []rule{
		{title: "All resources: scope", mandatory: true, test: each(isNamespaced, poolKind, poolTemplateKind)},
		{title: "All resources: `TypeMeta` and `ObjectMeta`field", mandatory: true, test: each(hasTypeMetaAndObjectMeta, poolKind, poolTemplateKind)},
		{title: "All resources: `APIVersion` field value", mandatory: true, test: each(followsTheContract, poolKind, poolTemplateKind)},
		{title: "InfraMachinePool, InfraMachinePoolList resource definition", mandatory: true, test: func(t *testing.T) {
			isDefined(t, poolKind)
			hasStatus(t, poolKind)
		}},
		{title: "InfraMachinePool: instances", test: instancesAreTheNodes},
		{title: "MachinePoolMachines support", test: hasNoMachinesOfPools,
			reason: "An EKS node group is managed as a whole: EKS drains and replaces its instances, and nothing may be done with a single one. The rule names this case."},
		{title: "InfraMachinePool: providerID", test: providerIDIsThatOfTheNodeGroup},
		{title: "InfraMachinePool: providerIDList", mandatory: true, test: providerIDListFollowsTheNodes},
		{title: "InfraMachinePool: initialization completed", mandatory: true, test: poolIsInitializedOnce},
		{title: "InfraMachinePool: pausing", test: func(t *testing.T) {
			pauses(t, "paused-nodegroup-apply", &infrav1.CAPTMachinePool{}, func(object engine.Object, note string) {
				object.(*infrav1.CAPTMachinePool).Spec.Variables = infrav1.TextVariables(map[string]string{"note": note})
			}, withPool(paused, paused, 0)...)
		}},
		{title: "InfraMachinePool: conditions", test: func(t *testing.T) { requireFields(t, poolKind, conditionFields) }},
		{title: "InfraMachinePool: replicas", mandatory: true, test: func(t *testing.T) {
			aside(t, "scaled by the user", replicasAreThoseOfTheUser)
			aside(t, "scaled by another client", replicasAreThoseOfTheAutoscaler)
		}},
		{title: "InfraMachinePool: terminal failures", test: poolFailuresAreNotTerminal},
		{title: "InfraMachinePoolTemplate, InfraMachineTemplatePoolList resource definition", test: func(t *testing.T) {
			isTemplateOf(t, poolTemplateKind, poolKind, "nodeGroupName", "workspaceTemplateApplyRef", "providerID", "providerIDList")
		}},
		{title: "InfraMachinePoolTemplate: support for SSA dry run", test: poolTemplatesAreImmutable,
			reason: "Cluster API makes a CAPTMachinePool of the template, and no template for each Cluster: its topology controller never writes a CAPTMachinePoolTemplate, which is immutable as those of CAPTClusters are."},
		{title: "Multi tenancy", test: func(t *testing.T) {
			instancesShareACluster(t, &infrav1.CAPTMachinePool{}, []string{controlPlaneTemplate(), nodeGroupTemplate()}, "-nodegroup-apply", 2, func(name string) []string {
				return append([]string{existingVPC(name), cluster(name), eks(name, "v1.34.0")}, machinePool(name, name, 0)...)
			})
		}},
		{title: "Clusterctl support", test: each(isLabeledForClusterctl("infrastructure-capt"), poolKind, poolTemplateKind)},
	}}
}

func TestMachinePoolContract(t *testing.T) { t.Parallel(); machinePoolContract().run(t) }

const nodeGroupARN = "arn:aws:eks:eu-central-1:123456789012:nodegroup/new/new/1"

// nodeGroupTemplate pretends to make a node group.
func nodeGroupTemplate() string {
	return templates.NodeGroupTemplate(`
variable "nodegroup_name" { type = string }
variable "kubernetes_version" { type = string }
resource "terraform_data" "group" { input = "${var.nodegroup_name} ${var.kubernetes_version}" }
output "node_group_arn" { value = "` + nodeGroupARN + `" }
`)
}

// machinePool is a MachinePool of a Cluster, and its CAPTMachinePool. The name of the node group differs from those of other tests: all Clusters of the
// package are the same API server, with the same Nodes.
func machinePool(name, nodeGroup string, replicas int, more ...string) []string {
	return []string{fixture.MachinePool(name, name, replicas, strings.Join(more, "")),
		fixture.CAPTMachinePool(name, fixture.NodeGroupTemplate, "nodeGroupName: "+nodeGroup, "scaling: {minSize: 0, maxSize: 9}")}
}

// withPool is all documents of a Cluster whose VPC is there already, with a pool. CAPT connects to the cluster to read its Nodes.
func withPool(name, nodeGroup string, replicas int, more ...string) (documents []string) {
	for _, document := range inExistingVPC(name, "v1.34.0") {
		documents = append(documents, strings.Replace(document, noProbe, "", 1))
	}
	return append(append(documents, nodeGroupTemplate()), machinePool(name, nodeGroup, replicas, more...)...)
}

// join adds Nodes of the node group of the test to the cluster, and returns their provider IDs.
func (env *environment) join(names ...string) (ids []string) {
	env.Helper()
	for _, name := range names {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace + "-" + name, Labels: map[string]string{nodes.NodeGroupLabel: env.Namespace}}}
		node.Spec.ProviderID = "aws:///eu-central-1a/" + node.Name
		require.NoError(env, env.Create(env.Context(), node))
		env.Cleanup(func() { _ = client.IgnoreNotFound(shared.API.Delete(context.Background(), node)) })
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		node.Status.NodeInfo.KubeletVersion = "v1.34.1"
		require.NoError(env, env.Status().Update(env.Context(), node))
		ids = append(ids, node.Spec.ProviderID)
	}
	return ids
}

func (env *environment) awaitPool(name, missing string, wanted func(*infrav1.CAPTMachinePool) bool) *infrav1.CAPTMachinePool {
	env.Helper()
	pool := &infrav1.CAPTMachinePool{}
	env.await(pool, name, func() string { return fixture.Unless(wanted(pool), "%s: %+v", missing, pool.Status) })
	return pool
}

func (env *environment) awaitMachinePool(name, missing string, wanted func(*clusterv1.MachinePool) bool) *clusterv1.MachinePool {
	env.Helper()
	machinePool := &clusterv1.MachinePool{}
	env.await(machinePool, name, func() string { return fixture.Unless(wanted(machinePool), "%s: %+v", missing, machinePool.Status) })
	return machinePool
}

func instancesAreTheNodes(t *testing.T) {
	requireFields(t, poolKind, map[string]string{
		"status.instances": "array", "status.instances.name": "string", "status.instances.providerID": "string", "status.instances.version": "string", "status.instances.ready": "boolean",
	})
	env := newEnvironment(t)
	env.apply(withPool("new", env.Namespace, 2)...)
	ids := env.join("a", "b")
	pool := env.awaitPool("new", "it has no instances", func(pool *infrav1.CAPTMachinePool) bool { return len(pool.Status.Instances) == 2 })
	want := infrav1.MachinePoolInstance{Name: env.Namespace + "-a", ProviderID: ids[0], Version: "v1.34.1", Ready: ptr.To(true)}
	env.await(pool, "new", func() string {
		return fixture.Unless(len(pool.Status.Instances) == 2 && *pool.Status.Instances[0].Ready && pool.Status.Instances[0].Name == want.Name, "it is not ready")
	})
	require.Equal(t, want, pool.Status.Instances[0])
}

func hasNoMachinesOfPools(t *testing.T) {
	requireNoFields(t, poolKind, "status.infrastructureMachineKind")
}

func providerIDIsThatOfTheNodeGroup(t *testing.T) {
	requireFields(t, poolKind, map[string]string{"spec.providerID": "string"})
	env := newEnvironment(t)
	env.apply(withPool("new", env.Namespace, 0)...)
	env.awaitPool("new", "it has no provider ID", func(pool *infrav1.CAPTMachinePool) bool { return pool.Spec.ProviderID == nodeGroupARN })
}

func providerIDListFollowsTheNodes(t *testing.T) {
	requireFields(t, poolKind, map[string]string{"spec.providerIDList": "array"})
	env := newEnvironment(t)
	env.apply(withPool("new", env.Namespace, 2)...)
	ids := env.join("a", "b")
	has := func(ids ...string) {
		t.Helper()
		env.awaitPool("new", "its provider IDs differ", func(pool *infrav1.CAPTMachinePool) bool { return slices.Equal(pool.Spec.ProviderIDList, ids) })
		env.awaitMachinePool("new", "Cluster API has other provider IDs", func(m *clusterv1.MachinePool) bool {
			return slices.Equal(m.Spec.ProviderIDList, ids) && len(m.Status.NodeRefs) == len(ids)
		})
	}
	has(ids...)
	env.awaitMachinePool("new", "it is not Running", func(m *clusterv1.MachinePool) bool {
		return m.Status.Phase == string(clusterv1.MachinePoolPhaseRunning)
	})

	more := env.join("c")
	has(append(ids, more...)...)
	require.NoError(t, env.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace + "-a"}}))
	has(ids[1], more[0])
	for _, name := range []string{"-b", "-c"} { // Cluster API deletes the Nodes of instances that are no longer listed, and none else.
		require.NoError(t, env.Get(t.Context(), client.ObjectKey{Name: env.Namespace + name}, &corev1.Node{}))
	}

	env.Remove(&clusterv1.Cluster{}, "new")
	env.AwaitGone(&infrav1.CAPTMachinePool{}, "new")
	env.AwaitGone(&clusterv1.Cluster{}, "new")
	require.Empty(t, env.workspaces())
}

func poolIsInitializedOnce(t *testing.T) {
	requireFields(t, poolKind, map[string]string{"status.initialization": "object", "status.initialization.provisioned": "boolean", "status.ready": "boolean"})
	env := newEnvironment(t)
	env.SetScript(poolApply, applyHangs)
	env.apply(withPool("new", env.Namespace, 0)...)
	env.AwaitOperation(poolApply, scripted.Apply)
	pool := &infrav1.CAPTMachinePool{}
	env.awaitCondition(pool, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ProvisioningReason)
	require.Nil(t, pool.Status.Initialization.Provisioned)
	provisioned := func(m *clusterv1.MachinePool) bool {
		return ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false)
	}
	machinePool := &clusterv1.MachinePool{}
	env.read(machinePool, "new")
	require.False(t, provisioned(machinePool))

	env.SetScript(poolApply, goesWell)
	env.awaitMachinePool("new", "it is not provisioned", provisioned)
	env.read(pool, "new")
	require.Equal(t, []*bool{ptr.To(true), ptr.To(true)}, []*bool{pool.Status.Initialization.Provisioned, pool.Status.Ready}, "Cluster API v1.14 reads the second")

	// What is initialized stays initialized, whatever becomes of the node group.
	env.SetScript(poolApply, applyFails)
	env.change(machinePool, "new", func() { machinePool.Spec.Template.Spec.Version = "v1.33.0" })
	condition := env.awaitCondition(pool, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)
	require.Contains(t, condition.Message, "VpcLimitExceeded")
	requireWellFormed(t, pool.Status.Conditions)
	env.awaitTrue(pool, "new", infrav1.DegradedCondition)
	require.Equal(t, ptr.To(true), pool.Status.Initialization.Provisioned)
}

func replicasAreThoseOfTheUser(t *testing.T) {
	requireFields(t, poolKind, map[string]string{"status.replicas": "integer"})
	env := newEnvironment(t)
	env.apply(withPool("new", env.Namespace, 1)...)
	env.join("a")
	observes := func(replicas int32) {
		t.Helper()
		env.awaitMachinePool("new", "it has other replicas", func(m *clusterv1.MachinePool) bool { return ptr.Deref(m.Status.Replicas, -1) == replicas })
	}
	observes(1)
	machinePool, apply := &clusterv1.MachinePool{}, &infrav1.WorkspaceTemplateApply{}
	env.read(machinePool, "new")
	scale := machinePool.DeepCopy()
	scale.Spec.Replicas = ptr.To[int32](2) // As kubectl scale does.
	require.NoError(t, env.Patch(t.Context(), scale, client.MergeFrom(machinePool)))
	env.await(apply, poolApply, func() string {
		return fixture.Unless(apply.Spec.Variables.Text("desired_size") == "2", "it is not scaled")
	})
	env.join("b")
	observes(2)
	env.awaitTrue(&infrav1.CAPTMachinePool{}, "new", infrav1.ReadyCondition)
}

func replicasAreThoseOfTheAutoscaler(t *testing.T) {
	env := newEnvironment(t)
	env.apply(withPool("new", env.Namespace, 1, clusterv1.ReplicasManagedByAnnotation+": external-autoscaler")...)
	env.join("a", "b", "c")
	env.awaitMachinePool("new", "spec.replicas is not what CAPT observes", func(m *clusterv1.MachinePool) bool {
		return ptr.Deref(m.Spec.Replicas, -1) == 3 && ptr.Deref(m.Status.Replicas, -1) == 3
	})
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(apply, poolApply)
	require.NotContains(t, apply.Spec.Variables, "desired_size")
}

func poolFailuresAreNotTerminal(t *testing.T) {
	requireNoFields(t, poolKind, "status.failureReason", "status.failureMessage")
	env := newEnvironment(t)
	env.SetScript(poolApply, applyFails)
	env.apply(withPool("new", env.Namespace, 0)...)
	pool := &infrav1.CAPTMachinePool{}
	condition := env.awaitCondition(pool, "new", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ApplyFailedReason)
	require.Contains(t, condition.Message, "VpcLimitExceeded", "the user sees what happened")
	env.SetScript(poolApply, goesWell)
	env.awaitTrue(pool, "new", infrav1.ReadyCondition)
}

func poolTemplatesAreImmutable(t *testing.T) {
	env := newEnvironment(t)
	env.apply(nodeGroupTemplate(), poolTemplate(3))
	for size, refused := range map[int]bool{3: false, 5: true} {
		err := env.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(fixture.Decode(t, env.Namespace, poolTemplate(size))),
			client.FieldOwner("capi-topology"), client.ForceOwnership, client.DryRunAll)
		require.Equal(t, refused, err != nil, "%d: %v", size, err)
	}
}

func poolTemplate(maxSize int) string {
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: CAPTMachinePoolTemplate
metadata: {name: workers}
spec:
  template:
    spec:
      workspaceTemplateRef: {name: nodegroup}
      scaling: {maxSize: %d}
`, maxSize)
}
