// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox"
)

// TestManagerKilledAtAnyTimeGoesOn kills the manager with SIGKILL at each step of a cluster's life, and starts it again.
func TestManagerKilledAtAnyTimeGoesOn(t *testing.T) {
	w := newWorld(t)
	w.kubectl("apply", "-f", samples)

	captCluster, controlPlane := &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}
	vpc, eks, profile := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplateApply{}
	for _, step := range []struct {
		name    string
		object  client.Object
		key     string
		reached func() bool
	}{
		{"finalizer on the CAPTCluster", captCluster, "demo", func() bool {
			return controllerutil.ContainsFinalizer(captCluster, infrav1.CAPTClusterFinalizer)
		}},
		{"WorkspaceTemplateApply of the VPC", vpc, "demo-vpc", func() bool { return true }},
		{"Workspace of the VPC named", vpc, "demo-vpc", func() bool { return vpc.Spec.WorkspaceName != "" }},
		{"Workspace of the VPC recorded", vpc, "demo-vpc", func() bool { return vpc.Status.WorkspaceRef != nil }},
		{"finalizer on the CAPTControlPlane", controlPlane, "demo", func() bool {
			return controllerutil.ContainsFinalizer(controlPlane, controlplanev1.CAPTControlPlaneFinalizer)
		}},
		{"WorkspaceTemplateApply of the control plane", eks, "demo-eks-controlplane-apply", func() bool { return true }},
		{"Workspace of the control plane recorded", eks, "demo-eks-controlplane-apply", func() bool { return eks.Status.WorkspaceRef != nil }},
		{"WorkspaceTemplateApply of the Fargate profile", profile, "demo-default-fargate-apply", func() bool { return true }},
		{"Workspace of the Fargate profile recorded", profile, "demo-default-fargate-apply", func() bool { return profile.Status.WorkspaceRef != nil }},
		{"endpoint known", controlPlane, "demo", func() bool { return controlPlane.Spec.ControlPlaneEndpoint.IsValid() }},
	} {
		w.await(step.object, step.key, func() string {
			if !step.reached() {
				return "not reached: " + step.name
			}
			return ""
		})
		require.NoError(t, w.Kill(sandbox.Manager))
		require.NoError(t, w.StartComponent(t.Context(), sandbox.Manager))
	}
	w.awaitTrue(captCluster, "demo", infrav1.ReadyCondition)
	w.awaitTrue(controlPlane, "demo", controlplanev1.ReadyCondition)
	require.ElementsMatch(t, []string{"default/demo-vpc", "default/demo-eks-controlplane", "default/demo-default-fargate"}, w.names("tf.m.upbound.io/v1beta1", "Workspace"))
	require.ElementsMatch(t, []string{"default/demo-vpc", "default/demo-eks-controlplane-apply", "default/demo-default-fargate-apply"}, w.names(infrav1.GroupVersion.String(), "WorkspaceTemplateApply"))

	// And while it is deleted.
	w.kubectl("delete", "cluster", "demo", "--wait=false")
	w.await(eks, "demo-eks-controlplane-apply", func() string {
		if eks.DeletionTimestamp.IsZero() {
			return "not being deleted"
		}
		return ""
	})
	require.NoError(t, w.Kill(sandbox.Manager))
	require.NoError(t, w.StartComponent(t.Context(), sandbox.Manager))
	w.awaitGone(captCluster, "demo")
	w.awaitGone(&clusterv1.Cluster{}, "demo")
	w.requireNothingLeft("demo")
}
