// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/audit"
)

// agreement is how long Cluster API and CAPT are watched for writing the same object by turns.
const agreement = 10 * time.Second

// TestClusterOfAClusterClass is the main job once more, for those who declare a ClusterClass and a version: Cluster API makes
// CAPT's objects, changes them, and looks again and again whether they are as it wants them.
func TestClusterOfAClusterClass(t *testing.T) {
	env := newEnvironment(t)
	env.kubectl("apply", "-f", filepath.Join(samples, "vpc-template.yaml"), "-f", filepath.Join(samples, "controlplane-template.yaml"),
		"-f", filepath.Join(samples, "fargate-template.yaml"), "-f", filepath.Join(samples, "clusterclass"))
	env.awaitTrue(&clusterv1.Cluster{}, "classy", clusterv1.AvailableCondition, clusterv1.ClusterTopologyReconciledCondition)
	cluster := &clusterv1.Cluster{}
	env.await(cluster, "classy", func() string { return "" })
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, cluster.Spec.ControlPlaneRef.Name
	env.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	require.Contains(t, env.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "34"`)
	env.requireFewWrites(1)

	// What a Cluster says of its region reaches both, although the control plane has none in its spec.
	captCluster := &infrav1.CAPTCluster{}
	env.await(captCluster, cluster.Spec.InfrastructureRef.Name, func() string { return "" })
	require.Equal(t, "eu-west-1", captCluster.Spec.Region)
	apply := &infrav1.WorkspaceTemplateApply{}
	env.await(apply, controlPlane.Spec.WorkspaceTemplateApplyRef.Name, func() string { return "" })
	require.Equal(t, "eu-west-1", apply.Spec.Variables.Text("region"))
	env.requireAgreement(name)

	// A new version is one write of Cluster API, and Terraform takes it over in place.
	before, began := env.endpoint("classy"), time.Now()
	env.kubectl("patch", "cluster", "classy", "--type=merge", "-p", `{"spec":{"topology":{"version":"v1.35.0"}}}`)
	env.awaitVersion(controlPlane, name, "v1.35.0")
	env.awaitReconciled(cluster)
	require.Equal(t, before, env.endpoint("classy"))
	require.Contains(t, env.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "35"`)
	require.Len(t, env.changes(sandbox.ClusterAPIUser, began), 1, "the version, once")
	env.requireAgreement(name)

	// The rollback of docs/clusterclass.md.
	const check = clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation
	env.kubectl("annotate", "cluster", "classy", check+"=true")
	env.kubectl("patch", "cluster", "classy", "--type=merge", "-p", `{"spec":{"topology":{"version":"v1.34.0"}}}`)
	env.kubectl("patch", "captcontrolplane", name, "--type=merge", "-p", `{"spec":{"version":"v1.34.0"}}`)
	env.kubectl("annotate", "cluster", "classy", check+"-")
	env.awaitVersion(controlPlane, name, "v1.34.0")
	env.awaitReconciled(cluster)
	require.Contains(t, env.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "34"`)

	env.kubectl("delete", "cluster", "classy", "--timeout=4m")
	env.requireDestroyedInOrder("classy-default-fargate", name+"-eks-controlplane", captCluster.Name+"-vpc")
	env.requireNothingLeft("classy")
	env.requireNothingForbidden()
	env.requireTemplatesUntouched()
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
	require.Never(env, func() bool {
		return len(env.changes(sandbox.ClusterAPIUser, began))+len(env.changes(sandbox.ManagerUser, began)) > 0
	}, agreement, agreement/20, "Cluster API and CAPT do not agree about a field")
	cluster := &clusterv1.Cluster{}
	env.awaitTrue(cluster, "classy", clusterv1.ClusterTopologyReconciledCondition)
}

// owners are the writes of a user to CAPTClusters and CAPTControlPlanes, dry runs included.
func (env *environment) owners(user string, since time.Time) (writes []auditv1.Event) {
	env.Helper()
	for _, resource := range []string{"captclusters", "captcontrolplanes"} {
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
