// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// class names the generated objects like the Cluster. A variable of the Cluster is its deletion protection.
const class = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: eks}
spec:
  infrastructure:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTClusterTemplate, name: eks}
    naming: {template: "{{ .cluster.name }}"}
  controlPlane:
    templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlaneTemplate, name: eks}
    naming: {template: "{{ .cluster.name }}"}
  variables:
  - name: protection
    required: true
    schema: {openAPIV3Schema: {type: string, enum: [Enabled, Disabled]}}
  patches:
  - name: protection
    definitions:
    - selector: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTClusterTemplate, matchResources: {infrastructureCluster: true}}
      jsonPatches: [{op: add, path: /spec/template/spec/deletionProtection, valueFrom: {variable: protection}}]
    - selector: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: CAPTControlPlaneTemplate, matchResources: {controlPlane: true}}
      jsonPatches: [{op: add, path: /spec/template/spec/deletionProtection, valueFrom: {variable: protection}}]
`

// topology is the topology of the Cluster, as a merge patch.
func topology(version string, protection infrav1.DeletionProtection) string {
	return fmt.Sprintf(`{"spec":{"topology":{"classRef":{"name":"eks"},"version":%q,"variables":[{"name":"protection","value":%q}]}}}`, version, protection)
}

// An edit of a template, and an upgrade by the topology, wait for their approvals. Cluster API does not revert what CAPT writes meanwhile.
func TestAClusterOfAClusterClassWaitsForApprovalsAndStaysProtected(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, previewed)
	module := strings.Replace(fixture.ControlPlaneModule, "${var.tags}", "${var.tags} ${var.kubernetes_version}", 1) + "variable \"kubernetes_version\" { type = string }\n"
	controlPlane := env.Template(fixture.ControlPlaneTemplate, module, "cluster_name", "tags", "kubernetes_version")
	env.User(strings.Replace(controlPlane, "\nspec:\n", "\nspec:\n  rollout: {strategy: Staged, "+previewed+"}\n", 1),
		"apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\nkind: CAPTClusterTemplate\nmetadata: {name: eks}\n"+
			"spec: {template: {spec: {region: eu-central-1, vpc: {template: {ref: {name: "+fixture.VPCTemplate+"}}}}}}\n",
		"apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: CAPTControlPlaneTemplate\nmetadata: {name: eks}\n"+
			"spec: {template: {spec: {workspaceTemplateRef: {name: "+fixture.ControlPlaneTemplate+"}}}}\n",
		class, `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"demo"},`+topology("v1.34.0", infrav1.DeletionProtectionEnabled)[1:])
	env.AwaitState(infrav1.StateReady, "")
	first := env.awaitStage(infrav1.RolloutComplete)
	applied := func() int {
		return len(env.Operations(fixture.VPC, scripted.Apply)) + len(env.Operations(fixture.ControlPlane, scripted.Apply))
	}
	before := applied()

	revision := env.edit(changed)
	env.awaitStage(infrav1.RolloutWaitingForApproval)
	env.Edit(&clusterv1.Cluster{}, fixture.Demo, topology("v1.35.0", infrav1.DeletionProtectionEnabled))
	apply := &infrav1.WorkspaceTemplateApply{}
	env.Await(apply, fixture.ControlPlane, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForApprovalReason)
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.RenderedCondition, metav1.ConditionTrue, infrav1.RevisionHeldReason)
	cluster := &clusterv1.Cluster{}
	env.never(aWhile, func() bool {
		return env.revision(fixture.VPC) != first.Revision || applied() != before
	})
	assert.Equal(t, "v1.34.0", env.AwaitState(infrav1.StateConfiguring, infrav1.WaitingForApprovalReason).Status.Version)

	require.True(t, env.Exists(cluster, fixture.Demo))
	require.ErrorContains(t, env.Delete(t.Context(), cluster), "is protected from deletion")
	env.annotate(naming.ApproveAnnotation, revision)
	env.Edit(apply, fixture.ControlPlane, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, naming.ApproveAnnotation, apply.Status.Change.Revision))
	env.awaitStage(infrav1.RolloutComplete)
	assert.Equal(t, "v1.35.0", env.AwaitState(infrav1.StateReady, "").Status.Version)
	assert.Equal(t, revision, env.revision(fixture.VPC))

	env.Edit(cluster, fixture.Demo, topology("v1.35.0", infrav1.DeletionProtectionDisabled))
	captCluster, owner := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	env.Eventually(func() string {
		found := env.Exists(captCluster, fixture.Demo) && env.Exists(owner, fixture.Demo)
		return fixture.Unless(found && captCluster.Spec.DeletionProtection == infrav1.DeletionProtectionDisabled && owner.Spec.DeletionProtection == infrav1.DeletionProtectionDisabled,
			"Cluster API has not removed the protection")
	})
	env.Eventually(func() string { // The policy reads the owners from a cache.
		return fixture.Unless(env.Delete(t.Context(), cluster) == nil, "the Cluster is still protected")
	})
	env.AwaitGone(cluster, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
}
