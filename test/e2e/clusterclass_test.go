// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// agreement is how long Cluster API and CAPT are watched for writing the same object by turns.
const agreement = 10 * time.Second

// The versions of the kubelets of the sandbox. The first is that of the sample.
const (
	kubelet34 = "v1.34.2-eks-a9e7e96"
	kubelet35 = "v1.35.2-eks-98737cf"
	kubelet36 = "v1.36.2-eks-29554d4"
)

// TestClusterOfAClusterClass is the main job once more, for those who declare a ClusterClass and a version: Cluster API makes
// CAPT's objects, changes them, and looks again and again whether they are as it wants them.
func TestClusterOfAClusterClass(t *testing.T) {
	env := newEnvironment(t)
	env.kubectl("apply", "-f", filepath.Join(samples, "vpc-template.yaml"), "-f", filepath.Join(samples, "controlplane-template.yaml"),
		"-f", filepath.Join(samples, "fargate-template.yaml"), "-f", filepath.Join(samples, "nodegroup-template.yaml"), "-f", filepath.Join(samples, "clusterclass"))
	env.awaitTrue(&clusterv1.Cluster{}, "classy", clusterv1.AvailableCondition, clusterv1.ClusterTopologyReconciledCondition)
	cluster := &clusterv1.Cluster{}
	env.await(cluster, "classy", func() string { return "" })
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, cluster.Spec.ControlPlaneRef.Name
	env.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	require.Contains(t, env.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "34"`)
	env.requireFewWrites(2)
	env.awaitNodes(2, kubelet34)

	// What a Cluster says of its region reaches both, although the control plane has none in its spec.
	captCluster := &infrav1.CAPTCluster{}
	env.await(captCluster, cluster.Spec.InfrastructureRef.Name, func() string { return "" })
	require.Equal(t, "eu-west-1", captCluster.Spec.Region)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(apply, controlPlane.Spec.WorkspaceTemplateApplyRef.Name, func() string { return "" })
	require.Equal(t, "eu-west-1", apply.Spec.Variables.Text("region"))
	env.requireAgreement(name)

	// The variable of the class permits more nodes than the template.
	env.patch("cluster", "classy", `[{"op":"replace","path":"/spec/topology/workers/machinePools/0/replicas","value":4}]`)
	env.awaitNodes(4, kubelet34)
	env.awaitReconciled(cluster)

	// A new version is one write of Cluster API, and Terraform takes it over in place.
	before, began := env.endpoint("classy"), time.Now()
	env.patch("cluster", "classy", `[{"op":"replace","path":"/spec/topology/version","value":"v1.35.0"},
		{"op":"add","path":"/spec/topology/workers/machinePools/0/metadata","value":{"annotations":{"`+clusterv1.ClusterTopologyDeferUpgradeAnnotation+`":""}}}]`)
	env.awaitVersion(controlPlane, name, "v1.35.0")
	env.await(cluster, "classy", func() string {
		return fixture.ConditionMismatch(cluster, clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, clusterv1.ClusterTopologyReconciledMachinePoolsUpgradeDeferredReason)
	})
	env.awaitNodes(4, kubelet34)
	require.Equal(t, before, env.endpoint("classy"))
	require.Contains(t, env.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "35"`)
	require.Len(t, env.changes(sandbox.ClusterAPIUser, began), 1, "the version, once")

	// The rollback of docs/clusterclass.md.
	env.replaceVersion(kubelet34)
	env.awaitVersion(controlPlane, name, kubelet34)
	env.awaitReconciled(cluster)
	require.Contains(t, env.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "34"`)

	// A version without the suffix of the kubelets is an upgrade that Cluster API never completes, and it accepts no other one.
	env.patch("cluster", "classy", `[{"op":"replace","path":"/spec/topology/version","value":"v1.35.0"},
		{"op":"remove","path":"/spec/topology/workers/machinePools/0/metadata"}]`)
	env.awaitUpgrade(cluster, "v1.35.0")
	env.awaitNodes(4, kubelet35)
	pool := claim.PoolOf(env.machinePool())
	env.awaitTrue(&infrav1.CAPTMachinePool{}, pool, infrav1.KubeletVersionsDifferCondition)
	require.Regexp(t, `(?s)Warning: CAPTMachinePool .*the kubelets report v1.35.0.*They report `+kubelet35, env.run(sandbox.Captctl, "--kubeconfig", env.Kubeconfig(), "describe", "default/classy"))
	require.ErrorContains(t, env.Patch(t.Context(), cluster.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"topology":{"version":"`+kubelet35+`"}}}`))),
		"there are still MachinePools completing a previous upgrade")
	generations := env.generations()
	env.replaceVersion(kubelet35)
	env.awaitReconciled(cluster)
	env.awaitVersion(controlPlane, name, kubelet35)
	require.Equal(t, generations, env.generations(), "Terraform changes nothing")
	captMachinePool := &infrav1.CAPTMachinePool{}
	env.await(captMachinePool, pool, func() string {
		return fixture.ConditionMismatch(captMachinePool, infrav1.KubeletVersionsDifferCondition, metav1.ConditionFalse, "")
	})

	// With the suffix, there is nothing else to do.
	env.patch("cluster", "classy", `[{"op":"replace","path":"/spec/topology/version","value":"`+kubelet36+`"}]`)
	env.awaitUpgrade(cluster, kubelet36)
	env.awaitReconciled(cluster)
	env.awaitNodes(4, kubelet36)
	env.requireAgreement(name)

	env.kubectl("delete", "cluster", "classy", "--timeout=4m")
	env.requireDestroyedInOrder("classy-default-fargate", pool+"-nodegroup", name+"-eks-controlplane", captCluster.Name+"-vpc")
	env.requireNothingLeft("classy")
	env.requireNothingForbidden()
	env.requireTemplatesUntouched()
}

func (env *environment) patch(kind, name, patch string) {
	env.Helper()
	env.kubectl("patch", kind, name, "--type=json", "-p", patch)
}

// replaceVersion runs the commands of docs/clusterclass.md, with a version.
func (env *environment) replaceVersion(version string) {
	env.Helper()
	text, err := os.ReadFile("../../docs/clusterclass.md")
	require.NoError(env, err)
	_, section, _ := strings.Cut(string(text), "\n### Replace the version\n")
	_, block, _ := strings.Cut(section, "\n```\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	require.Contains(env, block, "VERSION="+kubelet35+"\n")
	script := "set -euo pipefail; source " + sandbox.EnvFile(env.Dir()) + "\n" + strings.Replace(block, kubelet35, version, 1)
	out, err := exec.CommandContext(env.Context(), "bash", "-c", script).CombinedOutput()
	require.NoError(env, err, "%s\n%s", script, out)
}

// generations are those of the WorkspaceTemplateApplies.
func (env *environment) generations() map[string]int64 {
	env.Helper()
	applies, found := &infrav1.WorkspaceTemplateApplyList{}, map[string]int64{}
	require.NoError(env, env.List(env.Context(), applies))
	for _, apply := range applies.Items {
		found[apply.Name] = apply.Generation
	}
	return found
}

// machinePool reads the only one.
func (env *environment) machinePool() *clusterv1.MachinePool {
	env.Helper()
	pools := &clusterv1.MachinePoolList{}
	require.NoError(env, env.List(env.Context(), pools))
	require.Len(env, pools.Items, 1)
	return &pools.Items[0]
}

// awaitNodes waits until Cluster API knows all nodes of the machine pool, and all have a version.
func (env *environment) awaitNodes(replicas int, version string) {
	env.Helper()
	machinePool, pool := env.machinePool(), &infrav1.CAPTMachinePool{}
	env.await(pool, claim.PoolOf(machinePool), func() string {
		versions := []string{}
		for _, instance := range pool.Status.Instances {
			versions = append(versions, instance.Version)
		}
		status := env.machinePool().Status
		running := status.Phase == string(clusterv1.MachinePoolPhaseRunning) && len(status.NodeRefs) == replicas
		return fixture.Unless(running && slices.Equal(versions, slices.Repeat([]string{version}, replicas)), "%s with %d nodes: %v", status.Phase, len(status.NodeRefs), versions)
	})
}

// awaitUpgrade waits until Cluster API has upgraded everything. The machine pool must not get the version before the control plane runs it.
func (env *environment) awaitUpgrade(cluster *clusterv1.Cluster, version string) {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.await(controlPlane, cluster.Spec.ControlPlaneRef.Name, func() string {
		upgraded := env.machinePool().Spec.Template.Spec.Version == version
		require.NoError(env, env.Get(env.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane))
		require.True(env, !upgraded || controlPlane.Status.Version == version, "the machine pool is first: the control plane runs %s", controlPlane.Status.Version)
		return fixture.Unless(upgraded, "the machine pool is not upgraded")
	})
}

// awaitVersion waits until a control plane is Ready with a version.
func (env *environment) awaitVersion(controlPlane *controlplanev1.CAPTControlPlane, name, version string) {
	env.Helper()
	env.await(controlPlane, name, func() string {
		if controlPlane.Status.Version != version || controlPlane.Status.State != infrav1.StateReady {
			return "version " + controlPlane.Status.Version + ", state " + string(controlPlane.Status.State)
		}
		return ""
	})
}

// awaitReconciled waits until the topology of a Cluster is what its present spec asks for.
func (env *environment) awaitReconciled(cluster *clusterv1.Cluster) {
	env.Helper()
	env.await(cluster, cluster.Name, func() string {
		reconciled := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		if reconciled == nil || reconciled.Status != "True" || reconciled.ObservedGeneration != cluster.Generation {
			return "the topology is not reconciled"
		}
		return ""
	})
}

// requireAgreement makes Cluster API compare CAPT's objects with what it wants them to be, with an empty memory, and requires
// that neither side finds anything to write.
func (env *environment) requireAgreement(controlPlane string) {
	env.Helper()
	settled := &controlplanev1.CAPTControlPlane{}
	env.await(settled, controlPlane, func() string {
		return fixture.Unless(!slices.ContainsFunc(settled.Status.Dependencies, func(d controlplanev1.Dependency) bool { return d.Ready != metav1.ConditionTrue }), "%v", settled.Status.Dependencies)
	})
	began := time.Now()
	require.NoError(env, env.Restart(env.Context(), sandbox.ClusterAPI))
	compared := func() bool {
		for _, event := range env.owners(sandbox.ClusterAPIUser, began) {
			if dryRun(&event) && event.ObjectRef.Name == controlPlane {
				return true
			}
		}
		return false
	}
	fixture.EventuallyTrue(env, 100*time.Millisecond, compared, "Cluster API has not looked at the topology")
	var written []string
	require.Never(env, func() bool {
		written = append(env.changes(sandbox.ClusterAPIUser, began), env.changes(sandbox.ManagerUser, began)...)
		return len(written) > 0
	}, agreement, agreement/20, "Cluster API and CAPT do not agree about a field: %v", &written)
	cluster := &clusterv1.Cluster{}
	env.awaitTrue(cluster, "classy", clusterv1.ClusterTopologyReconciledCondition)
}

// owners are the writes of a user to CAPTClusters, CAPTControlPlanes and CAPTMachinePools, dry runs included.
func (env *environment) owners(user string, since time.Time) (writes []auditv1.Event) {
	env.Helper()
	for _, resource := range []string{"captclusters", "captcontrolplanes", "captmachinepools"} {
		events, err := env.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes, Resource: resource, Since: since})
		require.NoError(env, err)
		writes = append(writes, events...)
	}
	return writes
}

// changes are those of them that were meant.
func (env *environment) changes(user string, since time.Time) (writes []string) {
	env.Helper()
	for _, event := range env.owners(user, since) {
		if !dryRun(&event) {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

func dryRun(event *auditv1.Event) bool { return strings.Contains(event.RequestURI, "dryRun=All") }

// requireTemplatesUntouched requires that what belongs to one cluster was never written to the templates for all.
func (env *environment) requireTemplatesUntouched() {
	env.Helper()
	for _, template := range []struct{ resource, name string }{
		{"captclustertemplates", "sandbox"}, {"captcontrolplanetemplates", "sandbox"},
	} {
		require.Equal(env, "1", env.kubectl("get", template.resource, template.name, "-o", "jsonpath={.metadata.generation}"))
		events, err := env.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Resource: template.resource})
		require.NoError(env, err)
		events = slices.DeleteFunc(events, func(event auditv1.Event) bool { return event.Verb == "list" }) // The migration of stored versions.
		require.Empty(env, events)
	}
}
