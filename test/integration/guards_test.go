// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox"
)

// What must never happen to a user's cluster.

func TestDefect05CandidateIsNotDoubled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), controlPlaneTemplate(), `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: demo-eks-controlplane-apply}
spec:
  templateRef: {name: eks}
  variables: {cluster_name: demo, kubernetes_version: "1.35"}
`)
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "demo-eks-controlplane-apply", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	w.apply(cluster("demo"), captCluster("demo"), controlPlane("demo", "v1.35.0"))

	w.awaitCondition(patience, &controlplanev1.CAPTControlPlane{}, "demo", controlplanev1.AdoptionRequiredCondition, metav1.ConditionTrue,
		controlplanev1.AdoptionRequiredReason, "demo-eks-controlplane-apply", "nothing is created")
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	require.Len(t, w.workspaces(), 2, "the VPC and the one control plane")

	// The user decides; the control plane takes it over and nothing is created twice.
	before := w.workspace("demo-eks-controlplane")
	w.apply(controlPlane("demo", "v1.35.0") + "  workspaceTemplateApplyRef: {name: demo-eks-controlplane-apply}\n")
	w.awaitReady("demo")
	require.Len(t, w.workspaces(), 2)
	require.Equal(t, before.GetUID(), w.workspace("demo-eks-controlplane").GetUID())
}

func TestForeignWorkspaceIsNotTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(`
apiVersion: tf.m.upbound.io/v1beta1
kind: Workspace
metadata: {name: demo-vpc}
spec:
  providerConfigRef: {kind: ClusterProviderConfig, name: sandbox}
  forProvider:
    source: Inline
    module: 'output "mine" { value = true }'
`, vpcTemplate(), cluster("demo"), captCluster("demo"))
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.WorkspaceConflictCondition, metav1.ConditionTrue,
		infrav1.WorkspaceConflictReason, "belongs to another object", "under another name")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceConflictReason)
	module, _, err := unstructured.NestedString(w.workspace("demo-vpc").Object, "spec", "forProvider", "module")
	require.NoError(t, err)
	require.Equal(t, `output "mine" { value = true }`, module)

	// Deleting what never owned it leaves it.
	require.NoError(t, w.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}}))
	w.awaitGone(&clusterv1.Cluster{}, "demo")
	require.Len(t, w.workspaces(), 1)
}

// The provider cannot destroy in a namespace that is being deleted: it fails to record its use of the ProviderConfig there
// (crossplane-runtime issue 1150). The user must see it.
func TestDeletedNamespaceReportsWhyItHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	require.NoError(t, sandbox.AllowDelete(t.Context(), w.Client, namespace))
	require.NoError(t, w.Delete(t.Context(), namespace))
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "demo-eks-controlplane-apply", infrav1.DeletingCondition, metav1.ConditionTrue,
		infrav1.NamespaceTerminatingReason, "delete the Cluster first, and the namespace when the Cluster is gone")
	w.awaitCondition(patience, &controlplanev1.CAPTControlPlane{}, "demo", controlplanev1.DeletingCondition, metav1.ConditionTrue,
		controlplanev1.WaitingForWorkspaceTemplateApplyDeletionReason, "namespace that is being deleted")
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.DeletingCondition, metav1.ConditionTrue,
		infrav1.WaitingForControlPlaneDeletionReason, "waiting for the deletion of CAPTControlPlane")

	// The way out that the message names.
	for _, name := range []string{"demo-vpc", "demo-eks-controlplane"} {
		workspace := w.workspace(name)
		patch := client.MergeFrom(workspace.DeepCopy())
		workspace.SetFinalizers(nil)
		require.NoError(t, w.Patch(t.Context(), workspace, patch))
	}
	w.awaitGone(namespace, w.namespace)
}

// The garbage collector deletes dependents of both owners at once. The VPC stays all the same until the control plane is gone.
func TestForegroundDeletionKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")
	for _, object := range []client.Object{
		&infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}},
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}},
	} {
		require.NoError(t, w.Delete(t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	w.awaitCondition(patience, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", infrav1.DeletingCondition, metav1.ConditionTrue,
		infrav1.WaitingForDependentsReason, "demo-eks-controlplane-apply")
	controlPlane := &infrav1.WorkspaceTemplateApply{}
	require.Eventually(t, func() bool {
		key := client.ObjectKey{Namespace: w.namespace, Name: "demo-eks-controlplane-apply"}
		for _, workspace := range w.workspaces() {
			if workspace.GetName() == "demo-vpc" && workspace.GetDeletionTimestamp() != nil {
				require.True(t, apierrors.IsNotFound(w.Get(t.Context(), key, controlPlane)), "the VPC is destroyed while the control plane is there")
			}
		}
		return len(w.workspaces()) == 0
	}, patience, 20*time.Millisecond)
	w.awaitGone(&clusterv1.Cluster{}, "demo")
}

func TestACopiedControlPlaneIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")
	before := w.workspace("demo-eks-controlplane")

	w.refuses(controlPlane("copy", "v1.36.0")+"  workspaceTemplateApplyRef: {name: demo-eks-controlplane-apply}\n",
		"spec.workspaceTemplateApplyRef.name", "in use by CAPTControlPlane demo")
	w.awaitReady("demo")
	require.Equal(t, before.GetResourceVersion(), w.workspace("demo-eks-controlplane").GetResourceVersion())
}
