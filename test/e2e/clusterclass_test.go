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
	w := newWorld(t)
	w.kubectl("apply", "-f", filepath.Join(samples, "vpc-template.yaml"), "-f", filepath.Join(samples, "controlplane-template.yaml"),
		"-f", filepath.Join(samples, "fargate-template.yaml"), "-f", filepath.Join(samples, "clusterclass"))
	w.awaitTrue(&clusterv1.Cluster{}, "classy", clusterv1.AvailableCondition, clusterv1.ClusterTopologyReconciledCondition)
	cluster := &clusterv1.Cluster{}
	w.await(cluster, "classy", func() string { return "" })
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, cluster.Spec.ControlPlaneRef.Name
	w.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	require.Contains(t, w.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "34"`)
	w.requireFewWrites(1)

	// What a Cluster says of its region reaches both, although the control plane has none in its spec.
	captCluster := &infrav1.CAPTCluster{}
	w.await(captCluster, cluster.Spec.InfrastructureRef.Name, func() string { return "" })
	require.Equal(t, "eu-west-1", captCluster.Spec.Region)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.await(apply, controlPlane.Spec.WorkspaceTemplateApplyRef.Name, func() string { return "" })
	require.Equal(t, "eu-west-1", apply.Spec.Variables["region"])
	w.requireAgreement(name)

	// A new version is one write of Cluster API, and Terraform takes it over in place.
	before, began := w.endpoint("classy"), time.Now()
	w.kubectl("patch", "cluster", "classy", "--type=merge", "-p", `{"spec":{"topology":{"version":"v1.35.0"}}}`)
	w.awaitVersion(controlPlane, name, "v1.35.0")
	w.awaitReconciled(cluster)
	require.Equal(t, before, w.endpoint("classy"))
	require.Contains(t, w.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "35"`)
	require.Len(t, w.changes(sandbox.ClusterAPIUser, began), 1, "the version, once")
	w.requireAgreement(name)

	// The rollback of docs/clusterclass.md.
	const check = clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation
	w.kubectl("annotate", "cluster", "classy", check+"=true")
	w.kubectl("patch", "cluster", "classy", "--type=merge", "-p", `{"spec":{"topology":{"version":"v1.34.0"}}}`)
	w.kubectl("patch", "captcontrolplane", name, "--type=merge", "-p", `{"spec":{"version":"v1.34.0"}}`)
	w.kubectl("annotate", "cluster", "classy", check+"-")
	w.awaitVersion(controlPlane, name, "v1.34.0")
	w.awaitReconciled(cluster)
	require.Contains(t, w.workload("classy", "get", "--raw", "/version"), `"emulationMinor": "34"`)

	w.kubectl("delete", "cluster", "classy", "--timeout=4m")
	w.requireDestroyedInOrder("classy-default-fargate", name+"-eks-controlplane", captCluster.Name+"-vpc")
	w.requireNothingLeft("classy")
	w.requireNothingForbidden()
	w.requireTemplatesUntouched()
}

// awaitVersion waits until a control plane is Ready with a version.
func (w *world) awaitVersion(controlPlane *controlplanev1.CAPTControlPlane, name, version string) {
	w.Helper()
	w.await(controlPlane, name, func() string {
		if controlPlane.Status.Version != version || controlPlane.Status.State != controlplanev1.StateReady {
			return "version " + controlPlane.Status.Version + ", state " + string(controlPlane.Status.State)
		}
		return ""
	})
}

// awaitReconciled waits until the topology of a Cluster is what its present spec asks for.
func (w *world) awaitReconciled(cluster *clusterv1.Cluster) {
	w.Helper()
	w.await(cluster, cluster.Name, func() string {
		reconciled := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		if reconciled == nil || reconciled.Status != "True" || reconciled.ObservedGeneration != cluster.Generation {
			return "the topology is not reconciled"
		}
		return ""
	})
}

// requireAgreement makes Cluster API compare CAPT's objects with what it wants them to be, with an empty memory, and requires
// that neither side finds anything to write.
func (w *world) requireAgreement(controlPlane string) {
	w.Helper()
	began := time.Now()
	require.NoError(w, w.Restart(w.Context(), sandbox.ClusterAPI))
	compared := func() bool {
		for _, event := range w.owners(sandbox.ClusterAPIUser, began) {
			if dryRun(&event) && event.ObjectRef.Name == controlPlane {
				return true
			}
		}
		return false
	}
	fixture.Eventually(w, 100*time.Millisecond, compared, "Cluster API has not looked at the topology")
	require.Never(w, func() bool {
		return len(w.changes(sandbox.ClusterAPIUser, began))+len(w.changes(sandbox.ManagerUser, began)) > 0
	}, agreement, agreement/20, "Cluster API and CAPT do not agree about a field")
	cluster := &clusterv1.Cluster{}
	w.awaitTrue(cluster, "classy", clusterv1.ClusterTopologyReconciledCondition)
}

// owners are the writes of a user to CAPTClusters and CAPTControlPlanes, dry runs included.
func (w *world) owners(user string, since time.Time) (writes []auditv1.Event) {
	w.Helper()
	for _, resource := range []string{"captclusters", "captcontrolplanes"} {
		events, err := w.AuditEvents(audit.Filter{User: user, Verbs: audit.Writes, Resource: resource, Since: since})
		require.NoError(w, err)
		writes = append(writes, events...)
	}
	return writes
}

// changes are those of them that were meant.
func (w *world) changes(user string, since time.Time) (writes []string) {
	w.Helper()
	for _, event := range w.owners(user, since) {
		if !dryRun(&event) {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	return writes
}

func dryRun(event *auditv1.Event) bool { return strings.Contains(event.RequestURI, "dryRun=All") }

// requireTemplatesUntouched requires that what belongs to one cluster was never written to the templates for all.
func (w *world) requireTemplatesUntouched() {
	w.Helper()
	for _, template := range []struct{ resource, name string }{
		{"captclustertemplates", "sandbox"}, {"captcontrolplanetemplates", "sandbox"},
	} {
		require.Equal(w, "1", w.kubectl("get", template.resource, template.name, "-o", "jsonpath={.metadata.generation}"))
		events, err := w.AuditEvents(audit.Filter{User: sandbox.ManagerUser, Resource: template.resource})
		require.NoError(w, err)
		events = slices.DeleteFunc(events, func(event auditv1.Event) bool { return event.Verb == "list" }) // The migration of stored versions.
		require.Empty(w, events)
	}
}
