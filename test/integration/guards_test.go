// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"fmt"
	"slices"
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
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/fixture"
)

func TestCandidateIsNotDoubled(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(append(env.Templates(), document("WorkspaceTemplateApply", fixture.ControlPlane, `{templateRef: {name: eks}, variables: {cluster_name: demo, tags: a}}`))...)
	env.awaitUpToDate(fixture.ControlPlane)
	env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	env.Await(&controlplanev1.CAPTControlPlane{}, fixture.Demo, infrav1.AdoptionRequiredCondition, metav1.ConditionTrue,
		infrav1.AdoptionRequiredReason, fixture.ControlPlane, "nothing is created")
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
`, "NAMESPACE", env.Namespace), env.VPCTemplate(fixture.VPCModule), fixture.ClusterWithoutControlPlane(fixture.Demo), fixture.CAPTCluster(fixture.Demo))
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.WorkspaceConflictCondition, metav1.ConditionTrue,
		infrav1.WorkspaceConflictReason, "belongs to another object", "of another name")
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
	env.RemoveAllowed(&infrav1.CAPTCluster{}, fixture.Demo, foreground)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo, foreground)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
	for _, secret := range []string{"demo-kubeconfig", "demo-eks-connection"} {
		env.AwaitGone(&corev1.Secret{}, secret)
	}
}

// closed is a template of control planes whose API server only some networks can reach.
func closed(env environment) string {
	return env.Template(fixture.ControlPlaneTemplate, fixture.ControlPlaneModule+`
variable "endpoint_public_access_cidrs" { type = string }
output "networks" { value = var.endpoint_public_access_cidrs }
`, "cluster_name", "tags", "endpoint_public_access_cidrs")
}

// The template comes after the control plane, as with GitOps, so that admission cannot refuse it.
func TestARestrictedAPIServerIsNotReplacedByAnOpenOne(t *testing.T) {
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
		"nothing is created: spec.endpointAccess.publicCIDRs: ", "Add the placeholder",
		"WorkspaceTemplate "+env.Namespace+"/eks does not pass ${endpoint_public_access_cidrs}")
	env.AwaitVPC()
	env.AwaitState(infrav1.StateValidating, infrav1.FieldNotConsumedReason)
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

func TestATemplateThatLeavesIsNotTakenIntoUse(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t)
	env.User(env.VPCTemplate(fixture.VPCModule), applied("user", `variables: {vpc_name: a}`))
	env.awaitUpToDate("user")
	env.RemoveAllowed(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate)
	env.Await(&infrav1.WorkspaceTemplate{}, fixture.VPCTemplate, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForUsersReason)

	const text = "is being deleted and cannot be used by new objects"
	env.refuses(applied("other", `variables: {vpc_name: b}`), "spec.templateRef", text)
	env.refuses(legacyDocument("CAPTCluster", fixture.Demo, `{region: eu-central-1, vpcTemplateRef: {name: vpc}}`), "spec.vpc.template.ref", text)

	env.User(applied("user", `variables: {vpc_name: a, more: x}`))
	env.awaitUpToDate("user")
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
			// Paused, so that the controllers write nothing.
			metadata := "metadata: {annotations: {" + clusterv1.PausedAnnotation + ": ''}, finalizers: [test.example.com/kept], "
			manifest = strings.Replace(manifest, "metadata: {", metadata, 1)
			env := newEnvironment(t)
			env.User(manifest)
			object := fixture.Decode(env, env.Namespace, manifest)
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
			another := client.ApplyConfigurationFromUnstructured(fixture.Decode(env, env.Namespace, strings.ReplaceAll(manifest, "one}", "two}")))
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

// awaitDependency waits until the control plane reports a dependency: direction, kind, name, ready and reason.
func (env environment) awaitDependency(want string) *controlplanev1.CAPTControlPlane {
	env.Helper()
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.Eventually(func() string {
		var found []string
		if env.Exists(controlPlane, fixture.Demo) {
			for _, d := range controlPlane.Status.Dependencies {
				found = append(found, fmt.Sprintf("%s %s %s %s %s", d.Direction, d.Kind, d.Name, d.Ready, d.Reason))
			}
		}
		if !slices.Contains(found, want) {
			return fmt.Sprintf("%q is not among %q", want, found)
		}
		return ""
	})
	return controlPlane
}

func TestDependenciesFollowTheObjects(t *testing.T) {
	t.Parallel()
	env := ready(t)
	for _, want := range []string{
		"Upstream CAPTCluster demo True ",
		"Upstream Secret demo-eks-connection True ",
		"Upstream Workspace demo-eks-controlplane True ",
		"Upstream WorkspaceTemplate eks True ",
		"Upstream WorkspaceTemplateApply demo-vpc True ",
		"Downstream Secret demo-kubeconfig True ",
	} {
		env.awaitDependency(want)
	}
	env.User(applied("addon", `waitForWorkspaces: [{name: demo-eks-controlplane}], waitForSecrets: [{name: account}], variables: {vpc_name: addon}`))
	before := env.awaitDependency("Downstream WorkspaceTemplateApply addon False WaitingForDependencies")

	neighbor := newEnvironment(t)
	neighbor.User(document("WorkspaceTemplateApply", "neighbor", fmt.Sprintf(`{templateRef: {name: vpc}, waitForWorkspaces: [{name: demo-eks-controlplane, namespace: %s}]}`, env.Namespace)))
	after := env.awaitDependency("Downstream WorkspaceTemplateApply " + graph.Elsewhere + "  ")
	require.Len(t, after.Status.Dependencies, len(before.Status.Dependencies)+1)
}

// Admission does not follow Secrets.
func TestADependencyCycleIsReportedUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	env := ready(t)
	env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, `{"spec":{"waitForSecrets":[{"name":"demo-eks-connection"}]}}`)
	controlPlane := &controlplanev1.CAPTControlPlane{}
	env.Await(controlPlane, fixture.Demo, controlplanev1.DependencyCycleCondition, metav1.ConditionTrue, controlplanev1.DependencyCycleReason,
		"WorkspaceTemplateApply demo-vpc → Secret demo-eks-connection → ", "Remove spec.waitForSecrets[0] of WorkspaceTemplateApply demo-vpc")
	require.Equal(t, infrav1.StateReady, controlPlane.Status.State, "what exists needs no dependencies")
	env.Edit(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, `{"spec":{"waitForSecrets":null}}`)
	env.Await(controlPlane, fixture.Demo, controlplanev1.DependencyCycleCondition, metav1.ConditionFalse, controlplanev1.NoDependencyCycleReason)
}
