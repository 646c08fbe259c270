// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
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

// closed is a template of control planes whose API server only some networks can reach.
func closed(w world) string {
	return w.Template(fixture.ControlPlaneTemplate, fixture.ControlPlaneModule+`
variable "endpoint_public_access_cidrs" { type = string }
output "networks" { value = var.endpoint_public_access_cidrs }
`, "cluster_name", "tags", "endpoint_public_access_cidrs")
}

// The template comes after the control plane, as with GitOps, so that admission cannot refuse it.
func TestSafety14ARestrictedAPIServerIsNotReplacedByAnOpenOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const restricted = `endpointAccess: {publicCIDRs: [203.0.113.0/24]}`
	open := w.ControlPlaneTemplate(fixture.ControlPlaneModule)
	await := func(condition string, status metav1.ConditionStatus, reason string, parts ...string) {
		t.Helper()
		w.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, condition, status, reason, parts...)
	}
	w.User(w.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), plane(restricted))
	await(controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)

	w.User(open)
	await(controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason,
		"spec.endpointAccess.publicCIDRs", "${endpoint_public_access_cidrs}", "Add the placeholder")
	w.AwaitVPC()
	await(controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason)
	require.False(t, w.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane))

	w.User(closed(w))
	w.awaitReady()

	// The cluster runs: what was taken from the template is reported, and nothing is held up.
	w.User(open)
	await(infrav1.FieldsConsumedCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason, "spec.endpointAccess.publicCIDRs")
	w.awaitReady()
	w.User(plane(restricted + `, timeouts: {secretSeconds: 600}`)) // Changes elsewhere are not refused.
	w.refuses(plane(`endpointAccess: {publicCIDRs: [203.0.113.0/24, 198.51.100.0/24]}`), "spec.endpointAccess.publicCIDRs", "does not pass ${endpoint_public_access_cidrs}")
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(w.VPCTemplate(fixture.VPCModule), applied("user", `variables: {vpc_name: a}`))
	w.awaitUpToDate("user")
	w.Remove(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
	w.Await(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason)

	const text = "is being deleted and cannot be used by new objects"
	w.refuses(applied("other", `variables: {vpc_name: b}`), "spec.templateRef", text)
	w.refuses(legacyDocument("CAPTCluster", fixture.Demo, `{region: eu-central-1, vpcTemplateRef: {name: vpc}}`), "spec.vpc.template.ref", text)

	w.User(applied("user", `variables: {vpc_name: a, more: x}`))
	w.awaitUpToDate("user")
}

// paused adds the annotation that keeps the controllers from writing an object.
func paused(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {annotations: {"+clusterv1.PausedAnnotation+": ''}, ", 1)
}

// remove removes a field from the spec of an object, and returns what is there afterwards.
func (w world) remove(object *unstructured.Unstructured, field, manager string) (any, error) {
	w.Helper()
	changed := object.DeepCopy()
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/`+field+`"}]`))
	err := w.Patch(w.Context(), changed, patch, client.FieldOwner(manager))
	left, _, _ := unstructured.NestedFieldNoCopy(changed.Object, "spec", field)
	return left, err
}

func TestImmutableFieldsAreRemovedByCaptctlOnly(t *testing.T) {
	t.Parallel()
	for field, manifests := range map[string][]string{
		"workspaceTemplateApplyRef": {network(`{region: eu-central-1, ` + vpcRef + `, workspaceTemplateApplyRef: {name: one}}`), plane(`workspaceTemplateApplyRef: {name: one}`)},
		"workspaceName":             {applied("demo", `workspaceName: one`)},
	} {
		for _, manifest := range manifests {
			manifest = strings.Replace(paused(manifest), "metadata: {", "metadata: {finalizers: [test.example.com/kept], ", 1)
			w := newWorld(t)
			w.User(manifest)
			object := w.object(manifest)
			t.Cleanup(func() {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				require.NoError(t, w.Patch(context.Background(), object.DeepCopy(), patch))
			})
			left, err := w.remove(object, field, "user")
			require.NoError(t, err)
			require.NotNil(t, left, "it is restored for users")
			left, err = w.remove(object, field, naming.MigrationFieldManager)
			require.NoError(t, err)
			require.Nil(t, left, "a rollback removes it")

			w.User(manifest)
			another := client.ApplyConfigurationFromUnstructured(w.object(strings.ReplaceAll(manifest, "one}", "two}")))
			err = w.Apply(t.Context(), another, client.FieldOwner(naming.MigrationFieldManager), client.ForceOwnership)
			require.ErrorContains(t, err, "is immutable", "no client may set another value")

			// The webhooks are not called for objects that are being deleted, but the policy applies.
			require.NoError(t, w.Delete(t.Context(), object.DeepCopy()))
			_, err = w.remove(object, field, "user")
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, "Restore the name")
		}
	}
}

// A manifest in v1beta1, without the annotation in which conversion keeps what v1beta1 has no fields for, replaces the object.
func TestFieldsThatAnOlderManifestCannotExpressAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.User(document("WorkspaceTemplate", "vpc", `{workspaceScope: Namespaced, allowedNamespaces: {names: [shop]}, publishOutputs: [words],
		template: {spec: {providerConfigRef: {kind: ClusterProviderConfig, name: aws}, forProvider: {source: Inline, module: ""}}}}`))
	w.User(strings.Replace(legacyDocument("WorkspaceTemplate", "vpc", `{template: {spec: {providerConfigRef: {name: aws}, forProvider: {source: Inline, module: "locals {}"}}}}`),
		"{name: vpc}", "{name: vpc, annotations: {cluster.x-k8s.io/conversion-data: ''}}", 1))
	template := w.object(document("WorkspaceTemplate", "vpc", `{}`))
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(template), template))
	for want, path := range map[any]string{
		"Namespaced": "workspaceScope", "ClusterProviderConfig": "template.spec.providerConfigRef.kind", "locals {}": "template.spec.forProvider.module",
	} {
		got, _, err := unstructured.NestedFieldNoCopy(template.Object, append([]string{"spec"}, strings.Split(path, ".")...)...)
		require.NoError(t, err)
		require.Equal(t, want, got, path)
	}
	names, _, err := unstructured.NestedStringSlice(template.Object, "spec", "allowedNamespaces", "names")
	require.NoError(t, err)
	require.Equal(t, []string{"shop"}, names)
}
