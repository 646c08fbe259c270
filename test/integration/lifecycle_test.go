// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/sandbox"
)

func (w *world) awaitReady(name string) {
	w.Helper()
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, name, infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	w.awaitCondition(patience, &controlplanev1.CAPTControlPlane{}, name, controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)
}

func TestClusterBecomesReadyAndFollowsTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.2")...)
	w.awaitReady("demo")

	captCluster := &infrav1.CAPTCluster{}
	w.await(patience, captCluster, "demo", func() string {
		if captCluster.Status.Endpoint != "127.0.0.1:1" {
			return "status.endpoint is " + captCluster.Status.Endpoint
		}
		return ""
	})
	require.True(t, *captCluster.Status.Initialization.Provisioned)
	require.Regexp(t, `^vpc-0[0-9a-f]{8}$`, captCluster.Status.VPC.ID)
	require.Len(t, captCluster.Status.FailureDomains, 2)
	require.Equal(t, "eu-central-1a", captCluster.Status.FailureDomains[0].Name)

	controlPlane := &controlplanev1.CAPTControlPlane{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, controlPlane))
	require.Equal(t, clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}, controlPlane.Spec.ControlPlaneEndpoint)
	require.True(t, *controlPlane.Status.Initialization.ControlPlaneInitialized)
	require.True(t, *controlPlane.Status.ExternalManagedControlPlane)
	require.Equal(t, "v1.35.2", controlPlane.Status.Version)
	require.Equal(t, []clusterv1.StatusVersion{{Version: "v1.35.2"}}, controlPlane.Status.Versions)
	require.Equal(t, controlplanev1.StateReady, controlPlane.Status.State)
	require.NotContains(t, controlPlane.Status.WorkspaceTemplateApply.Outputs, "kubeconfig", "sensitive outputs never reach status")

	kubeconfig := &corev1.Secret{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo-kubeconfig"}, kubeconfig))
	require.Equal(t, clusterv1.ClusterSecretType, kubeconfig.Type)
	require.Equal(t, "demo", kubeconfig.Labels[clusterv1.ClusterNameLabel])
	require.Contains(t, string(kubeconfig.Data["value"]), "canary-token")
	require.True(t, metav1.IsControlledBy(kubeconfig, controlPlane))

	owner := &clusterv1.Cluster{}
	w.await(patience, owner, "demo", func() string {
		if owner.Spec.ControlPlaneEndpoint != controlPlane.Spec.ControlPlaneEndpoint || owner.Status.Phase != string(clusterv1.ClusterPhaseProvisioned) {
			return "the Cluster is " + owner.Status.Phase + " at " + owner.Spec.ControlPlaneEndpoint.String()
		}
		return ""
	})
}

func TestVersionChangeReachesTheWorkspaceOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.34.0")...)
	w.awaitReady("demo")
	before := w.workspace("demo-eks-controlplane")

	w.apply(controlPlane("demo", "v1.35.0"))
	after := &controlplanev1.CAPTControlPlane{}
	w.await(patience, after, "demo", func() string {
		if after.Status.Version != "v1.35.0" {
			return "status.version is " + after.Status.Version
		}
		return ""
	})
	w.awaitReady("demo")

	workspace := w.workspace("demo-eks-controlplane")
	require.Equal(t, before.GetUID(), workspace.GetUID())
	require.Equal(t, before.GetGeneration()+1, workspace.GetGeneration(), "one change of spec, one write")
	vars, _, err := unstructured.NestedSlice(workspace.Object, "spec", "forProvider", "vars")
	require.NoError(t, err)
	require.Contains(t, vars, map[string]any{"key": "kubernetes_version", "value": "1.35"})
}

func TestDeletionTakesTheControlPlaneFirstAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")

	require.NoError(t, w.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}}))
	w.awaitGone(&controlplanev1.CAPTControlPlane{}, "demo")
	vpc := &infrav1.WorkspaceTemplateApply{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo-vpc"}, vpc); err == nil && !vpc.DeletionTimestamp.IsZero() {
		controlPlane := &infrav1.WorkspaceTemplateApply{}
		err := w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo-eks-controlplane-apply"}, controlPlane)
		require.True(t, client.IgnoreNotFound(err) == nil && err != nil, "the VPC goes only after the control plane")
	}
	w.awaitGone(&clusterv1.Cluster{}, "demo")
	require.Empty(t, w.workspaces())
	w.awaitGone(&corev1.Secret{}, "demo-kubeconfig")
	w.awaitGone(&corev1.Secret{}, "demo-eks-connection")

	for _, name := range []string{"vpc", "eks"} {
		template := &infrav1.WorkspaceTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
		require.NoError(t, w.Delete(t.Context(), template))
		w.awaitGone(template, name)
	}
}

func TestRetainedVPCStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), cluster("demo"), captCluster("demo"))
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	before := w.workspace("demo-vpc")

	// The policy and the deletion come together: the policy must not be overtaken.
	captCluster := &infrav1.CAPTCluster{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, captCluster))
	patch := client.MergeFrom(captCluster.DeepCopy())
	captCluster.Spec.VPC.Template.DeletionPolicy = infrav1.DeletionPolicyRetain
	require.NoError(t, w.Patch(t.Context(), captCluster, patch))
	require.NoError(t, w.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}}))

	w.awaitGone(&clusterv1.Cluster{}, "demo")
	w.awaitGone(&infrav1.WorkspaceTemplateApply{}, "demo-vpc")
	after := w.workspace("demo-vpc")
	require.Equal(t, before.GetUID(), after.GetUID())
	require.Nil(t, after.GetDeletionTimestamp())
	require.Equal(t, before.GetResourceVersion(), after.GetResourceVersion(), "nothing was written to it")
}

func TestPausedClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), captCluster("demo"))
	w.apply(cluster("demo") + "  paused: true\n")
	w.awaitCondition(prompt, &clusterv1.Cluster{}, "demo", clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)

	// Cluster API does not make a paused Cluster an owner, so CAPT sees none. Once unpaused, everything goes on.
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WaitingForOwnerReason)
	require.Empty(t, w.workspaces())
	w.apply(cluster("demo"))
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)

	// Paused again, a change waits; unpaused, it is made.
	w.apply(cluster("demo") + "  paused: true\n")
	w.awaitCondition(prompt, &infrav1.CAPTCluster{}, "demo", clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason, "Cluster spec.paused")
	w.awaitCondition(prompt, &infrav1.WorkspaceTemplateApply{}, "demo-vpc", clusterv1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	before := w.workspace("demo-vpc")
	w.apply(template("vpc", vpcModule+"\n# changed\n", "sandbox", "vpc_name"))
	applied := &infrav1.WorkspaceTemplateApply{}
	w.awaitCondition(prompt, applied, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ProvisioningReason)
	require.Equal(t, before.GetGeneration(), w.workspace("demo-vpc").GetGeneration())
	w.apply(cluster("demo"))
	w.await(patience, applied, "demo-vpc", func() string {
		if w.workspace("demo-vpc").GetGeneration() == before.GetGeneration() {
			return "the change was not made"
		}
		return ""
	})
}

func TestDeletedWorkspaceIsRecreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), cluster("demo"), captCluster("demo"))
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	before := w.workspace("demo-vpc")
	require.NoError(t, sandbox.AllowDelete(t.Context(), w.Client, before))
	require.NoError(t, w.Delete(t.Context(), before))

	apply := &infrav1.WorkspaceTemplateApply{}
	w.await(patience, apply, "demo-vpc", func() string {
		if apply.Status.WorkspaceRef.UID == before.GetUID() {
			return "status still has the old UID"
		}
		return ""
	})
	w.awaitCondition(patience, apply, "demo-vpc", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
}

func TestEmptyConnectionSecretIsNotEnoughToGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, w.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "wanted"}}))
	w.apply(vpcTemplate(), `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: waits}
spec:
  templateRef: {name: vpc}
  variables: {vpc_name: late}
  waitForSecrets: [{name: wanted, keys: [a, b]}, {name: absent}]
  waitForWorkspaces: [{name: nowhere}]
`)
	apply := &infrav1.WorkspaceTemplateApply{}
	w.awaitCondition(prompt, apply, "waits", infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason,
		"Secret wanted has no value for key a", "key b", "Secret absent does not exist", "Workspace nowhere does not exist")
	require.Empty(t, w.workspaces())

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "wanted"}, StringData: map[string]string{"a": "1", "b": "2"}}
	require.NoError(t, w.Update(t.Context(), secret))
	require.NoError(t, w.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "absent"}, StringData: map[string]string{"any": "x"},
	}))
	w.awaitCondition(prompt, apply, "waits", infrav1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.WaitingForDependenciesReason, "Workspace nowhere")
	w.apply(`
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: WorkspaceTemplateApply
metadata: {name: nowhere-apply}
spec: {templateRef: {name: vpc}, variables: {vpc_name: first}}
`)
	w.awaitCondition(patience, apply, "waits", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
}

// workspace reads a Workspace that must exist.
func (w *world) workspace(name string) *unstructured.Unstructured {
	w.Helper()
	for _, workspace := range w.workspaces() {
		if workspace.GetName() == name {
			return &workspace
		}
	}
	require.Fail(w, "Workspace "+name+" does not exist")
	return nil
}

func TestDeletedTemplateBlocksNoReconcile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")

	// A user deletes the template by force, by removing its finalizer.
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "eks"}, template))
	require.NoError(t, w.Delete(t.Context(), template))
	w.awaitCondition(prompt, template, "eks", infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason, "demo-eks-controlplane-apply")
	patch := client.MergeFrom(template.DeepCopy())
	template.Finalizers = nil
	require.NoError(t, w.Patch(t.Context(), template, patch))

	apply := &infrav1.WorkspaceTemplateApply{}
	w.awaitCondition(prompt, apply, "demo-eks-controlplane-apply", infrav1.RenderedCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)
	w.awaitCondition(prompt, apply, "demo-eks-controlplane-apply", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	w.awaitCondition(prompt, &controlplanev1.CAPTControlPlane{}, "demo", controlplanev1.ReadyCondition, metav1.ConditionTrue, controlplanev1.ReadyReason)

	// And it can be deleted without it.
	require.NoError(t, w.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}}))
	w.awaitGone(&clusterv1.Cluster{}, "demo")
	require.Empty(t, w.workspaces())
}

func TestStatusIsRebuiltWithoutTouchingTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")
	before := w.workspace("demo-eks-controlplane")

	apply := &infrav1.WorkspaceTemplateApply{}
	wiped := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	for name, object := range map[string]client.Object{
		"demo-eks-controlplane-apply": apply, "demo": &controlplanev1.CAPTControlPlane{},
	} {
		object.SetNamespace(w.namespace)
		object.SetName(name)
		require.NoError(t, w.Status().Patch(t.Context(), object, wiped))
	}

	w.awaitCondition(patience, apply, "demo-eks-controlplane-apply", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.UpToDateReason)
	w.awaitReady("demo")
	require.Equal(t, before.GetUID(), apply.Status.WorkspaceRef.UID)
	require.Equal(t, before.GetResourceVersion(), w.workspace("demo-eks-controlplane").GetResourceVersion())
}
