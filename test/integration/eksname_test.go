// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
)

// A Cluster may be called team1.blue, an EKS cluster may not.
func TestAClusterWhoseNameEKSRefusesGetsAnotherOne(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	const name = "team1.blue"
	dotted := strings.Replace(fixture.Cluster(), "metadata: {name: demo}", "metadata: {name: "+name+"}", 1)
	env.User(append(env.Templates(), dotted, fixture.CAPTCluster(fixture.Demo))...)
	env.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForControlPlaneReason, "waiting for CAPTControlPlane demo")

	const text = `EKS does not accept "team1.blue", the name of the Cluster`
	env.refuses(fixture.CAPTControlPlane(fixture.Demo), "spec.eksClusterName", text)
	env.User(fixture.CAPTControlPlane(fixture.Demo, "eksClusterName: team1_Blue"))
	env.awaitReady()
	for _, apply := range []string{fixture.VPC, fixture.ControlPlane} {
		require.Equal(t, "team1_Blue", env.awaitUpToDate(apply).Spec.Variables.Text(naming.ClusterVariable))
	}

	env.refuses(fixture.CAPTControlPlane(fixture.Demo, "eksClusterName: blue"), "spec.eksClusterName", "eksClusterName is immutable")
	env.User(fixture.CAPTControlPlane(fixture.Demo)) // A manifest without it keeps it.
	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.True(t, env.Exists(controlPlane, fixture.Demo))
	require.Equal(t, "team1_Blue", controlPlane.Spec.EKSClusterName)
	env.refuses(document("CAPTControlPlaneTemplate", "class", `{template: {spec: {workspaceTemplateRef: {name: eks}, eksClusterName: one}}}`),
		"spec.template.spec.eksClusterName", "all Clusters of the ClusterClass would have the same EKS cluster")
}

// The second Cluster of an account and a region gets the name when the first one is gone, and creates nothing before.
func TestTwoClustersDoNotGetOneEKSCluster(t *testing.T) {
	t.Parallel()
	first, second := ready(t), newEnvironment(t)
	for _, template := range second.Templates() {
		second.User(strings.Replace(template, "name: "+second.Namespace+"}", "name: "+first.Namespace+"}", 1))
	}
	second.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	text := "EKS cluster demo in region eu-central-1 with ProviderConfig " + first.Namespace + " is that of a CAPTControlPlane of another namespace"
	second.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.EKSClusterNameConflictReason, text)
	second.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.EKSClusterNameConflictReason, text)
	require.False(t, second.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.VPC))
	require.Zero(t, second.workspaces())
	first.awaitReady()

	first.Remove(&clusterv1.Cluster{}, fixture.Demo)
	second.awaitReady()
}
