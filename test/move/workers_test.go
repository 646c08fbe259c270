// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package move_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// Names of what belongs to the Fargate profile, and to the machine pool.
const (
	profile            = "demo-batch-fargate-apply"
	profileWorkspace   = "demo-batch-fargate"
	workers            = "workers"
	nodeGroup          = "workers-nodegroup-apply"
	nodeGroupWorkspace = "workers-nodegroup"
)

const profileModule = `
variable "profile_name" { type = string }
variable "private_subnets" { type = list(string) }
resource "terraform_data" "profile" { input = var.profile_name }
`

// withWorkers is everything with a Fargate profile, and what that needs to know of VPC and control plane, and with a machine pool. The API server of the
// EKS cluster is that of the old side, whose Nodes exist before and after the move.
func (env *environment) withWorkers() []string {
	env.Helper()
	of := documents(terraform.ScopeNamespaced)
	all := everything(of.Scope)
	all[0] = of.VPCTemplate(fixture.VPCModule + "output \"vpc_config\" {\n  value = \"private_subnets = [\\\"subnet-1\\\"]\"\n}\n")
	kubeconfig, err := os.ReadFile(source.Kubeconfig())
	require.NoError(env, err)
	before, after, _ := strings.Cut(strings.ReplaceAll(controlPlaneModule, "https://127.0.0.1:1", source.Config().Host), "value = jsonencode(")
	_, after, _ = strings.Cut(after, "})")
	all[1] = controlPlaneTemplate(of.Scope, fmt.Sprintf(`%svalue = base64decode("%s")%s
output "cluster_name" { value = var.cluster_name }
output "cluster_certificate_authority_data" { value = "%s" }
`, before, base64.StdEncoding.EncodeToString(kubeconfig), after, base64.StdEncoding.EncodeToString(source.Config().CAData)))
	module := strings.Replace(fixture.NodeGroupModule, "${var.nodegroup_name} ", "${var.nodegroup_name} ${var.desired_size} ", 1) + "variable \"desired_size\" { type = string }\n"
	return append(all, of.Template("fargate", profileModule, "profile_name")+
		"        varFiles: [{source: SecretKey, secretKeyRef: {name: '${vpc_connection_secret}', key: vpc_config}}]\n",
		of.Template(fixture.NodeGroupTemplate, module, "nodegroup_name", "kubernetes_version", "desired_size"),
		fixture.MachinePool(fixture.Demo, workers, 2, ""), fixture.CAPTMachinePool(workers, fixture.NodeGroupTemplate, "nodeGroupName: "+env.namespace, "scaling: {maxSize: 9}"))
}

// join adds a Node to the node group, and returns its provider ID.
func (env *environment) join(name string) (id string) {
	env.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: env.namespace + "-" + name, Labels: map[string]string{nodes.NodeGroupLabel: env.namespace}}}
	node.Spec.ProviderID = "aws:///eu-central-1a/" + node.Name
	require.NoError(env, source.Create(env.Context(), node))
	env.Cleanup(func() { _ = client.IgnoreNotFound(source.Delete(context.Background(), node)) })
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	require.NoError(env, source.Status().Update(env.Context(), node))
	return node.Spec.ProviderID
}

// awaitNodes waits until CAPT and Cluster API have the Nodes of the pool.
func (env *environment) awaitNodes(on *side, ids ...string) (*clusterv1.MachinePool, *infrav1.CAPTMachinePool) {
	env.Helper()
	machinePool, pool := &clusterv1.MachinePool{}, &infrav1.CAPTMachinePool{}
	env.awaitCondition(on, pool, workers, infrav1.ReadyCondition, "")
	env.await(on, machinePool, workers, func() string {
		return fixture.Unless(slices.Equal(machinePool.Spec.ProviderIDList, ids) && len(machinePool.Status.NodeRefs) == len(ids) &&
			machinePool.Status.Phase == string(clusterv1.MachinePoolPhaseRunning), "it is %s, with the nodes %v", machinePool.Status.Phase, machinePool.Status.NodeRefs)
	})
	env.read(on, pool, workers)
	require.Equal(env, ids, pool.Spec.ProviderIDList)
	return machinePool, pool
}

func (env *environment) nodeUIDs() (uids []any) {
	env.Helper()
	for _, node := range fixture.List(env, source, corev1.SchemeGroupVersion.WithKind("Node"), client.MatchingLabels{nodes.NodeGroupLabel: env.namespace}) {
		uids = append(uids, node.GetUID())
	}
	return uids
}

// A profile and a pool go along with their cluster: they are neither made nor destroyed, and known by what they say themselves, since status is lost. The pool
// is scaled when the move begins, which waits until Terraform has ended; a Node joins while everything is paused.
func TestAFargateProfileAndAMachinePoolMoveWithTheirCluster(t *testing.T) {
	env := newEnvironment(t)
	env.labeled()
	env.apply(source, env.withWorkers()...)
	env.awaitReady(source, "v1.34.0")
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.change(source, controlPlane, "demo", func() {
		controlPlane.Spec.FargateProfiles = []controlplanev1.FargateProfile{{
			Name: "batch", Selectors: []controlplanev1.FargateSelector{{Namespace: "batch"}}, WorkspaceTemplateRef: infrav1.WorkspaceTemplateReference{Name: "fargate"},
		}}
	})
	env.awaitCondition(source, controlPlane, "demo", controlplanev1.FargateProfileReadyCondition, "")
	env.awaitReady(source, "v1.34.0")
	env.awaitBlock(profile, "until-paused")
	env.awaitBlock(nodeGroup, "until-paused")
	env.read(source, controlPlane, "demo")
	statuses := controlPlane.Status.FargateProfiles
	require.Len(t, statuses, 1)
	a, b := env.join("a"), env.join("b")
	machinePool, _ := env.awaitNodes(source, a, b)
	t.Parallel()

	began := time.Now()
	env.setScript(nodeGroupWorkspace, scripted.Script{Apply: scripted.Step{Hang: true}})
	env.change(source, machinePool, workers, func() { machinePool.Spec.Replicas = ptr.To[int32](3) })
	fixture.EventuallyTrue(t, tick, func() bool { return len(env.done(began)) == 1 }, "Terraform does not begin")
	move := env.startMove()
	env.awaitCondition(source, &infrav1.WorkspaceTemplateApply{}, nodeGroup, clusterv1.PausedCondition, "clusterctl move would wait: Workspace "+nodeGroupWorkspace+" is not up to date")
	env.awaitCondition(source, &infrav1.CAPTMachinePool{}, workers, clusterv1.PausedCondition, "")
	c, paused, uids := env.join("c"), time.Now(), env.nodeUIDs()
	env.setScript(nodeGroupWorkspace, scripted.Script{})
	move.wait()
	env.requireMoved()
	env.awaitReady(target, "v1.34.0")
	env.awaitCondition(target, controlPlane, "demo", controlplanev1.FargateProfileReadyCondition, "")
	env.read(target, controlPlane, "demo")
	controlPlane.Status.FargateProfiles[0].LastTransitionTime = statuses[0].LastTransitionTime // The time of the move.
	require.Equal(t, statuses, controlPlane.Status.FargateProfiles)
	require.True(t, controllerutil.ContainsFinalizer(controlPlane, controlplanev1.FargateProfileFinalizer))
	env.requirePoolMoved(a, b, c)
	require.Equal(t, uids, env.nodeUIDs(), "Cluster API deletes the Nodes of instances that are no longer listed")
	env.requireUnnoticed(paused)
	require.Equal(t, []string{"apply " + nodeGroupWorkspace}, env.done(began))

	owner := &clusterv1.Cluster{}
	env.read(target, owner, "demo")
	require.NoError(t, target.Delete(t.Context(), owner))
	env.awaitGone(target, owner, "demo")
	done := env.done(paused)
	require.ElementsMatch(t, []string{"destroy " + profileWorkspace, "destroy " + nodeGroupWorkspace}, done[:2])
	require.Equal(t, []string{"destroy " + eksWorkspace, "destroy " + vpcWorkspace}, done[2:])
	require.Zero(t, env.cloud())
}

// requirePoolMoved requires that the pool on the new side is complete, with the Nodes and the owners that it had.
func (env *environment) requirePoolMoved(ids ...string) {
	env.Helper()
	machinePool, pool := env.awaitNodes(target, ids...)
	require.Equal(env, int32(len(ids)), *machinePool.Spec.Replicas)
	require.True(env, metav1.IsControlledBy(pool, machinePool))
	require.NotEmpty(env, pool.Spec.ProviderID)
	require.Equal(env, nodeGroup, pool.Spec.WorkspaceTemplateApplyRef.Name)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.read(target, apply, nodeGroup)
	require.True(env, metav1.IsControlledBy(apply, pool))
	require.Equal(env, env.workspace(target, nodeGroupWorkspace).GetUID(), apply.Status.WorkspaceRef.UID)
}
