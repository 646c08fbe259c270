// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

// replacedEnvironment has a CAPTCluster that records vpc-1, whose Cluster has a CAPTControlPlane of that name, and a VPC with another ID.
func replacedEnvironment(t *testing.T, id string, change func(*clusterv1.Cluster, *infrav1.CAPTCluster), objects ...client.Object) *environment {
	cluster := builder.Cluster("demo")
	env := newEnvironment(t, append(objects, cluster, builder.CAPTCluster("demo", owned, held, builder.WithLabel(clusterv1.ClusterNameLabel, "demo"), builder.WithApplyRef("demo-vpc"), builder.WithGeneration(1)))...)
	env.reconcile()
	captCluster := env.get()
	captCluster.Status.VPC.ID = "vpc-1"
	change(cluster, captCluster)
	require.NoError(t, env.Status().Update(t.Context(), captCluster))
	require.NoError(t, env.Update(t.Context(), cluster))
	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { builder.UpToDate(map[string]string{"vpc_id": id})(apply) })
	env.reconcile()
	return env
}

func TestARecordedVPCIsNotOverwrittenWhileAControlPlaneUsesIt(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks"))
	created := []client.Object{controlPlane, builder.WorkspaceTemplateApply("demo-eks")}
	kept, other := infrav1.VPCStatus{ID: "vpc-1", ReplacedBy: "vpc-2"}, infrav1.VPCStatus{ID: "vpc-2"}
	for name, row := range map[string]struct {
		change  func(*clusterv1.Cluster, *infrav1.CAPTCluster)
		objects []client.Object
		want    infrav1.VPCStatus
	}{
		"a control plane": {nil, created, kept},
		"a control plane with an endpoint, without a reference": {nil, []client.Object{builder.CAPTControlPlane("demo", builder.WithEndpoint("eks", 443))}, kept},
		"a control plane of another provider":                   {func(c *clusterv1.Cluster, _ *infrav1.CAPTCluster) { c.Spec.ControlPlaneRef.Kind = "OtherControlPlane" }, nil, kept},
		"a control plane that was never created":                {nil, []client.Object{builder.CAPTControlPlane("demo")}, other},
		"a control plane that is created again":                 {nil, []client.Object{controlPlane}, other},
		"no control plane":                                      {nil, nil, other},
		"recorded by CAPT v0.3":                                 {func(_ *clusterv1.Cluster, c *infrav1.CAPTCluster) { c.Status.ObservedGeneration = 0 }, created, other},
		"a second control plane, after one that was not created": {func(c *clusterv1.Cluster, _ *infrav1.CAPTCluster) { c.Spec.ControlPlaneRef.Name = "a" },
			[]client.Object{builder.CAPTControlPlane("a"), builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks"), builder.WithLabel(clusterv1.ClusterNameLabel, "demo")), created[1]}, kept},
		"an output without a value, recorded by an earlier version": {func(_ *clusterv1.Cluster, c *infrav1.CAPTCluster) { c.Status.VPC.ID = "null" }, created, other},
		"nothing recorded, as after a move":                         {func(_ *clusterv1.Cluster, c *infrav1.CAPTCluster) { c.Status.VPC.ID = "" }, created, other},
	} {
		t.Run(name, func(t *testing.T) {
			change := row.change
			if change == nil {
				change = func(*clusterv1.Cluster, *infrav1.CAPTCluster) {}
			}
			var objects []client.Object
			for _, object := range row.objects {
				objects = append(objects, object.DeepCopyObject().(client.Object))
			}
			env := replacedEnvironment(t, "vpc-2", change, objects...)
			assert.Equal(t, row.want, env.get().Status.VPC)
			ready, replaced := "True Ready", ""
			if row.want.ReplacedBy != "" {
				ready, replaced = "False VPCReplaced", "True VPCReplaced"
			}
			assert.Equal(t, replaced, env.conditionSummary()[infrav1.VPCReplacedCondition])
			assert.Equal(t, ready, env.conditionSummary()[infrav1.ReadyCondition])
			assert.Equal(t, "True VPCReady", env.conditionSummary()[infrav1.VPCReadyCondition])
			assert.Empty(t, env.reconcile(), "at rest nothing is written")
		})
	}
}

// A user can remove the owner reference for a moment.
func TestARecordedVPCStaysWhileNoClusterOwnsTheCAPTCluster(t *testing.T) {
	env := replacedEnvironment(t, "vpc-2", func(_ *clusterv1.Cluster, _ *infrav1.CAPTCluster) {}, builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks")))
	update(env, env.get(), func(c *infrav1.CAPTCluster) { c.OwnerReferences = nil })
	env.reconcile()
	assert.Equal(t, infrav1.VPCStatus{ID: "vpc-2"}, env.get().Status.VPC)
	update(env, env.apply("demo-vpc"), func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.Outputs["vpc_id"] = "vpc-3" })
	env.reconcile()
	assert.Equal(t, infrav1.VPCStatus{ID: "vpc-2"}, env.get().Status.VPC)
}

func TestAReplacedVPCIsReportedUntilTerraformHasItAgain(t *testing.T) {
	env := replacedEnvironment(t, "vpc-1", func(_ *clusterv1.Cluster, c *infrav1.CAPTCluster) { c.Status.VPC.ReplacedBy = "vpc-2" },
		builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks")), builder.WorkspaceTemplateApply("demo-eks"))
	assert.Equal(t, infrav1.VPCStatus{ID: "vpc-1"}, env.get().Status.VPC)
	assert.Equal(t, "True Ready", env.conditionSummary()[infrav1.ReadyCondition])
}

func TestTheDeletionOfAControlPlaneWakesTheCAPTClusterWithAReplacedVPC(t *testing.T) {
	env := replacedEnvironment(t, "vpc-2", func(*clusterv1.Cluster, *infrav1.CAPTCluster) {},
		builder.CAPTControlPlane("demo", builder.WithApplyRef("demo-eks")), builder.WorkspaceTemplateApply("demo-eks"))
	assert.Len(t, env.requests().UsingControlPlane(t.Context(), builder.CAPTControlPlane("demo")), 1)
	assert.Len(t, env.requests().AfterDeletion(t.Context(), builder.WorkspaceTemplateApply("demo-eks")), 1)
	for _, part := range []string{ // A revert with the other VPC in the state makes a third one.
		"Terraform reports VPC vpc-2 for CAPTCluster demo", "Check first whether vpc-1 still exists: aws ec2 describe-vpcs --vpc-ids vpc-1",
		"If it exists, import it into the Terraform state before you revert", "If it does not exist, revert nothing", "recreate the control plane in vpc-2",
	} {
		assert.Contains(t, env.message(infrav1.VPCReplacedCondition), part)
	}

	env.remove(env.apply("demo-eks"))
	env.reconcile()
	assert.Equal(t, infrav1.VPCStatus{ID: "vpc-2"}, env.get().Status.VPC)
	assert.Equal(t, "False VPCNotReplaced", env.conditionSummary()[infrav1.VPCReplacedCondition])
}
