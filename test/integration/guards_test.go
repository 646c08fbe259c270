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
	env := newEnvironment(t)
	env.User(append(env.Templates(), document("WorkspaceTemplateApply", fixture.ControlPlane, `{templateRef: {name: eks}, variables: {cluster_name: demo, tags: a}}`))...)
	env.awaitUpToDate(fixture.ControlPlane)
	env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, controlplanev1.AdoptionRequiredCondition, metav1.ConditionTrue,
		controlplanev1.AdoptionRequiredReason, fixture.ControlPlane, "nothing is created")
	env.AwaitVPC()
	require.Equal(t, 2, env.workspaces(), "the VPC and the one control plane")

	// The user decides; the control plane takes it over and nothing is created twice.
	before := env.Workspace(fixture.ControlPlane)
	env.User(fixture.CAPTControlPlane(fixture.Demo, "workspaceTemplateApplyRef: {name: "+fixture.ControlPlane+"}"))
	env.awaitReady()
	require.Equal(t, 2, env.workspaces())
	require.Equal(t, before.GetUID(), env.Workspace(fixture.ControlPlane).GetUID())
}

func TestForeignWorkspaceIsNotTouched(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(strings.ReplaceAll(`
apiVersion: tf.m.upbound.io/v1beta1
kind: Workspace
metadata: {name: demo-vpc}
spec:
  providerConfigRef: {kind: ClusterProviderConfig, name: NAMESPACE}
  forProvider: {source: Inline, module: 'output "mine" { value = true }'}
`, "NAMESPACE", env.Namespace), env.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo))
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.WorkspaceConflictCondition, metav1.ConditionTrue,
		infrav1.WorkspaceConflictReason, "belongs to another object", "under another name")
	env.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceConflictReason)
	require.EqualValues(t, 1, env.Workspace(fixture.VPC).GetGeneration())

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	require.Equal(t, 1, env.workspaces())
}

// The garbage collector deletes dependents of both owners at once. The VPC stays all the same until the control plane is gone.
func TestForegroundDeletionKeepsTheOrder(t *testing.T) {
	t.Parallel()
	env := ready(t)
	foreground := client.PropagationPolicy(metav1.DeletePropagationForeground)
	env.Remove(&infrav1.CAPTCluster{}, fixture.Demo, foreground)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo, foreground)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
	for _, secret := range []string{"demo-kubeconfig", "demo-eks-connection"} {
		env.AwaitGone(&corev1.Secret{}, secret)
	}
}

func TestUnknownFieldIsReportedUntilCorrected(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(strings.Replace(env.VPCTemplate(fixture.VPCModule), "source: Inline", "source: Inline\n        modul: misspelled", 1), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo))
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.ReadyCondition, metav1.ConditionFalse,
		infrav1.WorkspaceRejectedReason, "modul", "Correct the WorkspaceTemplate")
	env.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.WorkspaceRejectedReason, "modul")
	require.Zero(t, env.workspaces())
	env.User(env.VPCTemplate(fixture.VPCModule))
	env.AwaitVPC()
}

func TestStatusIsRebuiltWithoutTouchingTheWorkspace(t *testing.T) {
	t.Parallel()
	env := ready(t)
	before := env.Workspace(fixture.ControlPlane)
	for name, object := range map[string]client.Object{fixture.ControlPlane: &infrav1.WorkspaceTemplateApply{}, fixture.Demo: &controlplanev1.CAPTControlPlane{}} {
		object.SetNamespace(env.Namespace)
		object.SetName(name)
		require.NoError(t, env.Status().Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`))))
	}
	require.Equal(t, before.GetUID(), env.awaitUpToDate(fixture.ControlPlane).Status.WorkspaceRef.UID)
	env.awaitReady()
	require.Equal(t, before.GetResourceVersion(), env.Workspace(fixture.ControlPlane).GetResourceVersion())
}

// closed is a template of control planes whose API server only some networks can reach.
func closed(env environment) string {
	return env.Template(fixture.ControlPlaneTemplate, fixture.ControlPlaneModule+`
variable "endpoint_public_access_cidrs" { type = string }
output "networks" { value = var.endpoint_public_access_cidrs }
`, "cluster_name", "tags", "endpoint_public_access_cidrs")
}

// The template comes after the control plane, as with GitOps, so that admission cannot refuse it.
func TestSafety14ARestrictedAPIServerIsNotReplacedByAnOpenOne(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	const restricted = `endpointAccess: {publicCIDRs: [203.0.113.0/24]}`
	open := env.ControlPlaneTemplate(fixture.ControlPlaneModule)
	await := func(condition string, status metav1.ConditionStatus, reason string, parts ...string) {
		t.Helper()
		env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, condition, status, reason, parts...)
	}
	env.User(env.VPCTemplate(fixture.VPCModule), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), plane(restricted))
	await(controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.TemplateNotFoundReason)

	env.User(open)
	await(controlplanev1.DependenciesReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason,
		"spec.endpointAccess.publicCIDRs", "${endpoint_public_access_cidrs}", "Add the placeholder")
	env.AwaitVPC()
	await(controlplanev1.ReadyCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason)
	require.False(t, env.Exists(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane))

	env.User(closed(env))
	env.awaitReady()

	// The cluster runs: what was taken from the template is reported, and nothing is held up.
	env.User(open)
	await(infrav1.FieldsConsumedCondition, metav1.ConditionFalse, infrav1.FieldNotConsumedReason, "spec.endpointAccess.publicCIDRs")
	env.awaitReady()
	env.User(plane(restricted + `, timeouts: {secretSeconds: 600}`)) // Changes elsewhere are not refused.
	env.refuses(plane(`endpointAccess: {publicCIDRs: [203.0.113.0/24, 198.51.100.0/24]}`), "spec.endpointAccess.publicCIDRs", "does not pass ${endpoint_public_access_cidrs}")
}

func TestSafety13ATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(env.VPCTemplate(fixture.VPCModule), applied("user", `variables: {vpc_name: a}`))
	env.awaitUpToDate("user")
	env.Remove(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
	env.Await(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason)

	const text = "is being deleted and cannot be used by new objects"
	env.refuses(applied("other", `variables: {vpc_name: b}`), "spec.templateRef", text)
	env.refuses(legacyDocument("CAPTCluster", fixture.Demo, `{region: eu-central-1, vpcTemplateRef: {name: vpc}}`), "spec.vpc.template.ref", text)

	env.User(applied("user", `variables: {vpc_name: a, more: x}`))
	env.awaitUpToDate("user")
}

// paused adds the annotation that keeps the controllers from writing an object.
func paused(manifest string) string {
	return strings.Replace(manifest, "metadata: {", "metadata: {annotations: {"+clusterv1.PausedAnnotation+": ''}, ", 1)
}

// remove removes a field from the spec of an object, and returns what is there afterwards.
func (env environment) remove(object *unstructured.Unstructured, field, manager string) (any, error) {
	env.Helper()
	changed := object.DeepCopy()
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/`+field+`"}]`))
	err := env.Patch(env.Context(), changed, patch, client.FieldOwner(manager))
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
			env := newEnvironment(t)
			env.User(manifest)
			object := env.object(manifest)
			t.Cleanup(func() {
				patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				require.NoError(t, env.Patch(context.Background(), object.DeepCopy(), patch))
			})
			left, err := env.remove(object, field, "user")
			require.NoError(t, err)
			require.NotNil(t, left, "it is restored for users")
			left, err = env.remove(object, field, naming.MigrationFieldManager)
			require.NoError(t, err)
			require.Nil(t, left, "a rollback removes it")

			env.User(manifest)
			another := client.ApplyConfigurationFromUnstructured(env.object(strings.ReplaceAll(manifest, "one}", "two}")))
			err = env.Apply(t.Context(), another, client.FieldOwner(naming.MigrationFieldManager), client.ForceOwnership)
			require.ErrorContains(t, err, "is immutable", "no client may set another value")

			// The webhooks are not called for objects that are being deleted, but the policy applies.
			require.NoError(t, env.Delete(t.Context(), object.DeepCopy()))
			_, err = env.remove(object, field, "user")
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			require.ErrorContains(t, err, "Restore the name")
		}
	}
}

// A manifest in v1beta1, without the annotation in which conversion keeps what v1beta1 has no fields for, replaces the object.
func TestFieldsThatAnOlderManifestCannotExpressAreKept(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(document("WorkspaceTemplate", "vpc", `{workspaceScope: Namespaced, allowedNamespaces: {names: [shop]}, publishOutputs: [words],
		template: {spec: {providerConfigRef: {kind: ClusterProviderConfig, name: aws}, forProvider: {source: Inline, module: ""}}}}`))
	env.User(strings.Replace(legacyDocument("WorkspaceTemplate", "vpc", `{template: {spec: {providerConfigRef: {name: aws}, forProvider: {source: Inline, module: "locals {}"}}}}`),
		"{name: vpc}", "{name: vpc, annotations: {cluster.x-k8s.io/conversion-data: ''}}", 1))
	template := env.object(document("WorkspaceTemplate", "vpc", `{}`))
	require.NoError(t, env.Get(t.Context(), client.ObjectKeyFromObject(template), template))
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
