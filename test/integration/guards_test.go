// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/fixture"
)

func TestDefect05CandidateIsNotDoubled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(append(w.Templates(), document("WorkspaceTemplateApply", fixture.ControlPlane, `{templateRef: {name: eks}, variables: {cluster_name: demo, tags: a}}`))...)
	w.awaitUpToDate(fixture.ControlPlane)
	w.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.AdoptionRequiredCondition, metav1.ConditionTrue,
		controlplanev1.AdoptionRequiredReason, fixture.ControlPlane, "nothing is created")
	w.AwaitVPC()
	require.Equal(t, 2, w.workspaces(), "the VPC and the one control plane")

	// The user decides; the control plane takes it over and nothing is created twice.
	before := w.Workspace(fixture.ControlPlane)
	w.User(fixture.CAPTControlPlane(fixture.Demo, "workspaceTemplateApplyRef: {name: "+fixture.ControlPlane+"}"))
	w.awaitReady()
	require.Equal(t, 2, w.workspaces())
	require.Equal(t, before.GetUID(), w.Workspace(fixture.ControlPlane).GetUID())
}

func TestForeignWorkspaceIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(strings.ReplaceAll(`
apiVersion: tf.m.upbound.io/v1beta1
kind: Workspace
metadata: {name: demo-vpc}
spec:
  providerConfigRef: {kind: ClusterProviderConfig, name: NAMESPACE}
  forProvider: {source: Inline, module: 'output "mine" { value = true }'}
`, "NAMESPACE", w.Namespace), w.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo))
	w.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.WorkspaceConflictCondition, metav1.ConditionTrue,
		infrav1.WorkspaceConflictReason, "belongs to another object", "under another name")
	w.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceConflictReason)
	require.EqualValues(t, 1, w.Workspace(fixture.VPC).GetGeneration())

	w.Remove(&clusterv1.Cluster{}, fixture.Demo)
	w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	require.Equal(t, 1, w.workspaces())
}

// The garbage collector deletes dependents of both owners at once. The VPC stays all the same until the control plane is gone.
func TestForegroundDeletionKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := ready(t)
	foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
	w.Remove(&infrav1.CAPTCluster{}, fixture.Demo, foreground)
	w.Remove(&clusterv1.Cluster{}, fixture.Demo, foreground)
	w.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	w.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	w.RequireNothingLeft()
	for _, secret := range []string{"demo-kubeconfig", "demo-eks-connection"} {
		w.AwaitGone(&corev1.Secret{}, secret)
	}
}

func TestUnknownFieldIsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(strings.Replace(w.VPCTemplate(fixture.VPCModule), "source: Inline", "source: Inline\n        modul: misspelled", 1), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo))
	w.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.WorkspaceRejectedReason, "modul", "Correct the WorkspaceTemplate")
	w.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceRejectedReason, "modul")
	require.Zero(t, w.workspaces())
	w.User(w.VPCTemplate(fixture.VPCModule))
	w.AwaitVPC()
}

func TestStatusIsRebuiltWithoutTouchingTheWorkspace(t *testing.T) {
	t.Parallel()
	w := ready(t)
	before := w.Workspace(fixture.ControlPlane)
	for name, object := range map[string]client.Object{fixture.ControlPlane: &infrav1.WorkspaceTemplateApply{}, fixture.Demo: &controlplanev1.CAPTControlPlane{}} {
		object.SetNamespace(w.Namespace)
		object.SetName(name)
		require.NoError(t, w.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))))
	}
	require.Equal(t, before.GetUID(), w.awaitUpToDate(fixture.ControlPlane).Status.WorkspaceRef.UID)
	w.awaitReady()
	require.Equal(t, before.GetResourceVersion(), w.Workspace(fixture.ControlPlane).GetResourceVersion())
}
