// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const copied = "copy"

// copyOf returns the Cluster under another name, as kustomize does with namePrefix: with the references of the first.
func copyOf(env *fixture.Environment) *unstructured.Unstructured {
	env.Helper()
	cluster := fixture.Decode(env, env.Namespace, fixture.Cluster())
	cluster.SetName(copied)
	return cluster
}

// An administrator on a bad day copies the Cluster of a running EKS cluster, and deletes the copy. The API server rejects both, also while the
// manager and its webhooks are stopped. If it did not, the manager destroys nothing, and reports what to do.
func TestACopyOfAClusterDestroysNothing(t *testing.T) {
	server := shared.Exclusive(t)
	env := server.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	untouched := untouchedSince(env, fixture.VPC, fixture.ControlPlane)
	rejected := func(request func(ctx context.Context) error, parts ...string) {
		t.Helper()
		err := fixture.EventuallyForbidden(t, request)
		for _, part := range parts {
			require.ErrorContains(t, err, part)
		}
	}
	deletion := func(object client.Object, name string) func(ctx context.Context) error {
		object.SetNamespace(env.Namespace)
		object.SetName(name)
		return func(ctx context.Context) error { return env.Delete(ctx, object, client.DryRunAll) }
	}
	rejected(func(ctx context.Context) error { return env.Create(ctx, copyOf(env), client.DryRunAll) }, "Cluster copy refers to CAPT", "belongs to Cluster demo")

	restore := suspendPolicies(env)
	fixture.EventuallyAccepted(t, func(ctx context.Context) error { return env.Create(ctx, copyOf(env)) })
	for _, object := range []engine.Object{&infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}} {
		env.Await(object, fixture.Demo, infrav1.ClusterConflictCondition, metav1.ConditionTrue, infrav1.ClusterConflictReason, "Clusters copy, demo refer to this object")
	}
	restore()

	require.NoError(t, server.StopComponent(t.Context(), sandbox.Manager))
	started := false
	t.Cleanup(func() {
		if !started {
			require.NoError(t, server.StartComponent(context.Background(), sandbox.Manager))
		}
	})
	rejected(deletion(&clusterv1.Cluster{}, copied),
		"Cluster copy refers to CAPTControlPlane demo, to which Cluster demo refers too", "to names that do not exist")
	rejected(deletion(&clusterv1.Cluster{}, fixture.Demo), "to which Cluster copy refers too")
	rejected(deletion(&controlplanev1.CAPTControlPlane{}, fixture.Demo), "belongs to Cluster")
	rejected(deletion(&infrav1.CAPTCluster{}, fixture.Demo), "belongs to Cluster")
	require.NoError(t, server.StartComponent(t.Context(), sandbox.Manager))
	started = true

	suspendPolicies(env)
	env.Remove(&clusterv1.Cluster{}, copied, client.PropagationPolicy(metav1.DeletePropagationForeground))
	awaitHeld := func(object engine.Object) {
		t.Helper()
		env.Await(object, fixture.Demo, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.UsedByClusterReason,
			"Cluster demo refers to", "Cluster copy refers to it too", "delete Cluster demo", naming.AllowDeleteAnnotation)
	}
	awaitHeld(&controlplanev1.CAPTControlPlane{})
	env.Remove(&infrav1.CAPTCluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
	awaitHeld(&infrav1.CAPTCluster{})
	env.Await(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.UsedByClusterReason, "CAPTCluster demo")
	untouched(fixture.VPC, fixture.ControlPlane)

	// The copy goes when it refers to nothing.
	env.Edit(&clusterv1.Cluster{}, copied, `{"spec":{"infrastructureRef":{"name":"none"},"controlPlaneRef":{"name":"none"}}}`)
	env.AwaitGone(&clusterv1.Cluster{}, copied)
	untouched(fixture.VPC, fixture.ControlPlane)

	// The deletion that was held cannot be reverted. It continues when the other Cluster is deleted.
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
}

// A copy that existed before the policy can be removed.
func TestACopyOfAClusterIsRemovedWithoutItsObjects(t *testing.T) {
	server := shared.Exclusive(t)
	env := server.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	untouched := untouchedSince(env, fixture.VPC, fixture.ControlPlane)
	restore := suspendPolicies(env)
	fixture.EventuallyAccepted(t, func(ctx context.Context) error { return env.Create(ctx, copyOf(env)) })
	env.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ClusterConflictCondition, metav1.ConditionTrue, infrav1.ClusterConflictReason)
	restore()
	env.Edit(&clusterv1.Cluster{}, copied, `{"spec":{"infrastructureRef":{"name":"none"},"controlPlaneRef":{"name":"none"}}}`)
	fixture.EventuallyAccepted(t, func(ctx context.Context) error {
		return env.Delete(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: copied}})
	})
	env.AwaitGone(&clusterv1.Cluster{}, copied)
	env.Await(&infrav1.CAPTCluster{}, fixture.Demo, infrav1.ClusterConflictCondition, metav1.ConditionFalse, infrav1.NoClusterConflictReason)
	env.AwaitState(infrav1.StateReady, "")
	untouched(fixture.VPC, fixture.ControlPlane)
}

// suspendPolicies removes the effect of all policies until the function that it returns is called, or the test ends.
func suspendPolicies(env *fixture.Environment) (restore func()) {
	env.Helper()
	bindings := &admissionv1.ValidatingAdmissionPolicyBindingList{}
	require.NoError(env, env.API.List(env.Context(), bindings))
	require.NotEmpty(env, bindings.Items)
	deletion := func(ctx context.Context) error {
		object := &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}}
		return env.Delete(ctx, object, client.DryRunAll)
	}
	restored := sync.OnceFunc(func() {
		for i := range bindings.Items {
			binding := bindings.Items[i].DeepCopy()
			binding.ResourceVersion, binding.UID = "", ""
			require.NoError(env, env.API.Create(context.Background(), binding))
		}
	})
	env.Cleanup(restored)
	require.NoError(env, env.API.DeleteAllOf(env.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{}))
	fixture.EventuallyAccepted(env, deletion)
	return func() {
		restored()
		_ = fixture.EventuallyForbidden(env, deletion)
	}
}
