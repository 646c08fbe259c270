// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func TestTheNameOfTheEKSClusterReachesEveryTemplate(t *testing.T) {
	controlPlane := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "blue" }))
	cluster, captCluster := builder.Cluster("team1.blue"), builder.CAPTCluster("demo")
	c := desired.NewControlPlane(controlPlane, cluster, captCluster)
	want := c.Want()
	assert.Equal(t, "blue", want.Intent.Variables.Text(naming.ClusterVariable))
	assert.Equal(t, "blue", want.Variables[naming.ClusterVariable])
	assert.Equal(t, "team1.blue", want.ClusterName, "the label is the name of the Cluster")

	vpc := &desired.VPC{CAPTCluster: captCluster, Cluster: cluster, EKS: &validation.EKSClaim{ControlPlane: controlPlane, Cluster: cluster.Name}}
	assert.Nil(t, vpc.Blocked())
	assert.Equal(t, "blue", vpc.Want().Intent.Variables.Text(naming.ClusterVariable))
	assert.Equal(t, "team1.blue", vpc.Want().ClusterName)

	c.Apply = builder.WorkspaceTemplateApply("demo-eks-controlplane-apply", builder.WithVariables(want.Intent.Variables.Texts()))
	assert.Equal(t, "blue", desired.FargateIntent(controlPlane, &controlplanev1.FargateProfile{Name: "p"}, c.EKSCluster()).Variables.Text(naming.ClusterVariable))
}

func TestTheYoungerControlPlaneWaitsForTheNameOfItsEKSCluster(t *testing.T) {
	older := builder.CAPTControlPlane("first", builder.WithRegion(vpc().Spec.Region), builder.WithCreation(builder.Created.Add(-time.Hour)),
		builder.With(func(c *controlplanev1.CAPTControlPlane) { c.Spec.EKSClusterName = "demo" }), builder.OwnedBy(builder.Cluster("x")))
	env := newEnvironment(t, append(prepared(builder.WithCreation(builder.Created)), builder.WorkspaceTemplate("eks"), older)...)
	assert.Equal(t, []string{"status"}, env.reconcile())
	assert.Equal(t, "False EKSClusterNameConflict", builder.ConditionSummary(env.get().Status.Conditions)[controlplanev1.ReadyCondition])
	assert.Contains(t, env.message(controlplanev1.ReadyCondition), "is that of CAPTControlPlane first")
	assert.Empty(t, env.reconcile(), "at rest nothing is written")
	assert.Contains(t, env.requests().UsingControlPlane(t.Context(), older), demo()[0], "the end of the other one is noticed")

	require.NoError(t, env.Client.Delete(t.Context(), older))
	assert.Contains(t, env.reconcile(), "apply "+applyName)
}
