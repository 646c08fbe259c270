// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
)

// classyWorld has a ClusterClass and a Cluster of it, whose objects Cluster API has made.
func classyWorld(t *testing.T, version string) (*world, *clusterv1.Cluster) {
	t.Helper()
	w := newWorld(t)
	w.apply(controlPlaneTemplate(), captClusterTemplate, captControlPlaneTemplate, clusterClass)
	w.awaitTrue(&clusterv1.ClusterClass{}, "eks", clusterv1.ClusterClassVariablesReadyCondition)
	w.apply(classyCluster("classy", version))
	owner := &clusterv1.Cluster{}
	w.awaitTrue(owner, "classy", clusterv1.ClusterTopologyReconciledCondition)
	return w, owner
}

func clusterClassMakesInfrastructure(t *testing.T) {
	w, owner := classyWorld(t, "v1.34.0-eks-1")
	require.Equal(t, "CAPTCluster", owner.Spec.InfrastructureRef.Kind)
	captCluster := &infrav1.CAPTCluster{}
	w.awaitTrue(captCluster, owner.Spec.InfrastructureRef.Name, infrav1.ReadyCondition)
	require.Equal(t, "network", captCluster.Labels["team"], "the metadata of the template")
	require.Equal(t, "7", captCluster.Annotations["example.com/cost-center"])
	require.Equal(t, "eu-central-1", captCluster.Spec.Region)
	require.Equal(t, "vpc-0123456789abcdef0", captCluster.Spec.VPC.ExistingID)
	require.Equal(t, ptr.To(true), captCluster.Status.Initialization.Provisioned)

	w.Remove(&clusterv1.Cluster{}, "classy")
	w.AwaitGone(&clusterv1.Cluster{}, "classy")
	w.AwaitGone(captCluster, captCluster.Name)
	require.Empty(t, w.workspaces())
}

func clusterClassMakesControlPlanes(t *testing.T) {
	w, owner := classyWorld(t, "v1.34.0-eks-1")
	require.Equal(t, "CAPTControlPlane", owner.Spec.ControlPlaneRef.Kind)
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, owner.Spec.ControlPlaneRef.Name
	w.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	require.Equal(t, "platform", controlPlane.Labels["team"], "the metadata of the template")
	require.Equal(t, "7", controlPlane.Annotations["example.com/cost-center"])
	require.EqualValues(t, "platform", controlPlane.Spec.AdditionalTags["team"])
	require.Equal(t, "v1.34.0-eks-1", controlPlane.Spec.Version, "Cluster API adds it")

	// What CAPT wrote into the spec is not taken away when the topology changes.
	before := controlPlane.DeepCopy()
	w.apply(classyCluster("classy", "v1.35.0-eks-2"))
	w.await(controlPlane, name, func() string {
		if controlPlane.Status.Version == "v1.35.0-eks-2" {
			return ""
		}
		return "status.version is " + controlPlane.Status.Version
	})
	require.Equal(t, before.Spec.WorkspaceTemplateApplyRef, controlPlane.Spec.WorkspaceTemplateApplyRef)
	require.Equal(t, before.Spec.ControlPlaneEndpoint, controlPlane.Spec.ControlPlaneEndpoint)
	w.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)
	w.await(owner, "classy", func() string {
		for _, condition := range owner.Status.Conditions {
			if condition.Type == clusterv1.ClusterTopologyReconciledCondition && condition.Status == "True" && condition.ObservedGeneration == owner.Generation {
				return ""
			}
		}
		return "Cluster API waits for the upgrade"
	})
	require.Len(t, w.workspaces(), 1)
	w.awaitAvailable("classy")
}

// A ClusterClass that lists its versions lets a Cluster go through several of them. EKS takes one minor version at a time, so
// each must be over before the next begins.
func clusterClassGoesThroughVersions(t *testing.T) {
	w := newWorld(t)
	w.apply(controlPlaneTemplate(), captClusterTemplate, captControlPlaneTemplate,
		clusterClass+"  kubernetesVersions: [v1.33.0, v1.34.0, v1.35.0]\n")
	w.awaitTrue(&clusterv1.ClusterClass{}, "eks", clusterv1.ClusterClassVariablesReadyCondition)
	w.apply(classyCluster("classy", "v1.33.0"))
	owner := &clusterv1.Cluster{}
	w.awaitTrue(owner, "classy", clusterv1.ClusterTopologyReconciledCondition)
	controlPlane, name := &controlplanev1.CAPTControlPlane{}, owner.Spec.ControlPlaneRef.Name
	w.awaitTrue(controlPlane, name, controlplanev1.ReadyCondition)

	w.apply(classyCluster("classy", "v1.35.0"))
	w.await(controlPlane, name, func() string {
		if controlPlane.Status.Version == "v1.35.0" {
			return ""
		}
		return "status.version is " + controlPlane.Status.Version
	})
	require.Len(t, w.Operations(name+"-eks-controlplane-apply", scripted.Apply), 3, "the first version, and a step to each of the others")
}
