// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox/manifests"
)

// handWritten is the name of a WorkspaceTemplateApply that a user writes for a node group.
const handWritten = "demo-nodegroup"

// applyNodeGroupTemplate creates the template for node groups of the sample for AWS.
func applyNodeGroupTemplate(env *fixture.Environment) {
	env.Helper()
	templates, err := manifests.Load(filepath.Join(samples["aws"], "nodegroup-template.yaml"))
	require.NoError(env, err)
	require.Len(env, templates, 1)
	templates[0].SetNamespace(env.Namespace)
	require.NoError(env, unstructured.SetNestedField(templates[0].Object, env.Namespace, "spec", "template", "spec", "providerConfigRef", "name"))
	fixture.Apply(env, env.Client, templates[0])
}

// nodeGroup is the WorkspaceTemplateApply of a node group, as users wrote it before CAPTMachinePools.
func nodeGroup(env *fixture.Environment) string {
	return fmt.Sprintf(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: %[1]s, labels: {cluster.x-k8s.io/cluster-name: demo}}
spec:
  templateRef: {name: aws-nodegroup}
  variables: {cluster_name: demo, region: ap-northeast-1, nodegroup_name: default, kubernetes_version: "1.35", instance_types: [m7i.large], min_size: 2, max_size: 4,
    vpc_connection_secret: demo-vpc-connection}
  waitForWorkspaces: [{name: %[2]s}]
  waitForSecrets: [{name: demo-vpc-connection, keys: [vpc_config]}]
`, handWritten, env.WorkspaceKey(fixture.ControlPlane).Name)
}

// startWithNodeGroup creates a Cluster and a node group without a CAPTMachinePool.
func startWithNodeGroup(env *fixture.Environment) {
	env.Helper()
	applyNodeGroupTemplate(env)
	env.User(nodeGroup(env))
	env.Await(&infrav1.WorkspaceTemplateApply{}, handWritten, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason)
	env.User(env.VPCTemplate(fixture.FargateVPCModule), env.ControlPlaneTemplate(fixture.ControlPlaneModule),
		fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	env.Await(&infrav1.WorkspaceTemplateApply{}, handWritten, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	created, controlPlane := env.Operations(handWritten, scripted.Apply), env.Operations(fixture.ControlPlane, scripted.Apply)
	require.NotEmpty(env, created)
	require.True(env, controlPlane[0].End.Before(created[0].Start), "the node group was created before the EKS cluster")
}

// What a user creates with a WorkspaceTemplateApply waits for the EKS cluster. Bound to the control plane as docs/workers.md describes, it is destroyed with
// its Cluster, before the EKS cluster, and cannot be deleted by mistake.
func TestAWorkspaceTemplateApplyLivesAndIsDestroyedWithItsCluster(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	startWithNodeGroup(env)

	owner := &controlplanev1.CAPTControlPlane{}
	require.True(t, env.Exists(owner, fixture.Demo))
	env.Edit(&infrav1.WorkspaceTemplateApply{}, handWritten, fmt.Sprintf(
		`{"metadata":{"ownerReferences":[{"apiVersion":"%s","kind":"CAPTControlPlane","name":"%s","uid":"%s","controller":true}]}}`,
		controlplanev1.GroupVersion, fixture.Demo, owner.UID))
	env.User(nodeGroup(env)) // A manifest without the owner reference, as Git has it, keeps it.
	bound := &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(bound, handWritten))
	require.True(t, metav1.IsControlledBy(bound, owner))
	_, err := env.Server.Kubectl(t.Context(), "--namespace="+env.Namespace, "delete", "workspacetemplateapply", handWritten, "--wait=false")
	require.Error(t, err, "a policy rejects the deletion")

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&infrav1.WorkspaceTemplateApply{}, handWritten)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.ControlPlane, handWritten)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
}

// machinePool is a MachinePool with annotations, and its CAPTMachinePool with more lines of spec.
func machinePool(annotations string, more ...string) []string {
	return []string{fixture.MachinePool(fixture.Demo, "demo-workers", 2, annotations),
		fixture.CAPTMachinePool("demo-workers", "aws-nodegroup", append(more, "scaling: {minSize: 2, maxSize: 4}", "variables: {instance_types: [m7i.large]}")...)}
}

// A node group that a user has written is adopted by a CAPTMachinePool that names it. Terraform does not run, and the node group is destroyed with its
// Cluster.
func TestANodeGroupIsAdoptedWithoutTerraform(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	startWithNodeGroup(env)
	before, runs := env.Workspace(handWritten), len(env.Operations(handWritten, scripted.Apply))

	// Its size was left to an autoscaler, and that stays so.
	env.User(machinePool(clusterv1.ReplicasManagedByAnnotation+": external-autoscaler",
		"nodeGroupName: default", "workspaceTemplateApplyRef: {name: "+handWritten+"}")...)
	env.Await(&infrav1.CAPTMachinePool{}, "demo-workers", infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, infrav1.NodeGroupReadyReason)
	pool, apply := &infrav1.CAPTMachinePool{}, &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(pool, "demo-workers"))
	require.True(t, env.Exists(apply, handWritten))
	require.True(t, metav1.IsControlledBy(apply, pool))
	after := env.Workspace(handWritten)
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Equal(t, before.GetGeneration(), after.GetGeneration())
	require.Len(t, env.Operations(handWritten, scripted.Apply), runs)

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.ControlPlane, handWritten)
	env.RequireNothingLeft()
}

// A new pool waits for its control plane, gets its variables with their types, and is destroyed before the EKS cluster.
func TestAMachinePoolLivesAndIsDestroyedWithItsCluster(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	applyNodeGroupTemplate(env)
	name := naming.MachinePoolWorkspaceTemplateApply("demo-workers")
	env.User(append(machinePool(""), env.VPCTemplate(fixture.FargateVPCModule), env.ControlPlaneTemplate(fixture.ControlPlaneModule),
		fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))...)
	env.Await(&infrav1.CAPTMachinePool{}, "demo-workers", infrav1.NodeGroupReadyCondition, metav1.ConditionTrue, infrav1.NodeGroupReadyReason)
	apply := &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(apply, name))
	for variable, want := range map[string]string{"desired_size": "2", "min_size": "2", "max_size": "4", "nodegroup_name": `"demo-workers"`, "cluster_name": `"demo"`} {
		require.Equal(t, want, string(apply.Spec.Variables[variable].Raw), variable)
	}
	_, err := env.Server.Kubectl(t.Context(), "--namespace="+env.Namespace, "delete", "captmachinepool", "demo-workers", "--wait=false")
	require.ErrorContains(t, err, "exit status", "a policy rejects the deletion")

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.ControlPlane, name)
	env.RequireNothingLeft()
}
