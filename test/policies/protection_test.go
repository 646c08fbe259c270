// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	protection = "deletionProtection: Enabled"
	protect    = `{"spec":{"deletionProtection":"Enabled"}}`
	unprotect  = `{"spec":{"deletionProtection":"Disabled"}}`
	forMove    = `{"metadata":{"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}}`
)

// protected returns a Cluster, its CAPTCluster and its CAPTControlPlane, both of which are protected. Nothing is created for them.
func protected(env *fixture.Environment) []client.Object {
	env.Helper()
	env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo)+"  "+protection+"\n", fixture.CAPTControlPlane(fixture.Demo, protection))
	meta := metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}
	return []client.Object{&clusterv1.Cluster{ObjectMeta: meta}, &infrav1.CAPTCluster{ObjectMeta: meta}, &controlplanev1.CAPTControlPlane{ObjectMeta: meta}}
}

// No user is exempt: deleting one of these objects is how everything else of a cluster is deleted.
func TestAProtectedObjectIsNotDeletedByAnyUser(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	manager, err := shared.InstalledManagerUser()
	require.NoError(t, err)
	for _, object := range protected(env) {
		message := refused(t, probe{shared.API, object}.delete)
		for _, part := range []string{"is protected from deletion", " demo ", "first set ", "spec.deletionProtection", "to Disabled"} {
			require.Contains(t, message, part)
		}
		for _, user := range []string{
			"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller",
			"system:kube-controller-manager", sandbox.ClusterAPIUser, manager,
		} {
			require.ErrorContains(t, probe{as(t, user, "system:masters"), object}.delete(t.Context()), "is protected from deletion", user)
		}
		require.ErrorContains(t, env.DeleteAllOf(t.Context(), object, client.InNamespace(env.Namespace)), "is protected from deletion")
		allow(t, object, "true")
		require.ErrorContains(t, env.Delete(t.Context(), object), "is protected from deletion", "the annotation does not replace the field")
	}
	older := &unstructured.Unstructured{}
	older.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("CAPTCluster"))
	older.SetNamespace(env.Namespace)
	older.SetName(fixture.Demo)
	require.ErrorContains(t, env.Delete(t.Context(), older), "is protected from deletion", "the older version does not bypass it")

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	allow(t, namespace, "true")
	require.Contains(t, kubectlRefused(t, env.Namespace), "demo, which is protected from deletion")
}

func TestWhatEndsTheProtectionFromDeletion(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	objects := protected(env)
	for _, object := range objects {
		refused(t, probe{shared.API, object}.delete)
		env.Edit(object, fixture.Demo, forMove)
		require.NoError(t, env.Delete(t.Context(), object, client.DryRunAll), "clusterctl move leaves nothing behind")
		env.Edit(object, fixture.Demo, `{"metadata":{"annotations":null}}`)
	}
	cluster, captCluster, controlPlane := objects[0], objects[1], objects[2]
	const inUse = "belongs to Cluster demo"
	env.Edit(captCluster, fixture.Demo, unprotect)
	require.ErrorContains(t, env.Delete(t.Context(), captCluster, client.DryRunAll), inUse)
	require.Contains(t, refused(t, probe{shared.API, cluster}.delete), "is protected from deletion")
	env.Edit(controlPlane, fixture.Demo, unprotect)
	require.ErrorContains(t, env.Delete(t.Context(), controlPlane, client.DryRunAll), inUse)
	fixture.EventuallyAccepted(t, func(ctx context.Context) error { return env.Delete(ctx, cluster) })
	env.AwaitGone(cluster, fixture.Demo)
}

// Webhooks restore the fields that v1beta1 does not have, but are not called for an object that is being deleted.
func TestAWriteInAnOlderVersionDoesNotContinueADeletion(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(fixture.CAPTCluster("alone"))
	object := &infrav1.CAPTCluster{}
	env.Edit(object, "alone", `{"metadata":{"finalizers":["test.capt.cluster.x-k8s.io/hold"]}}`)
	env.Remove(object, "alone")
	env.Edit(object, "alone", protect)

	older := &unstructured.Unstructured{}
	older.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("CAPTCluster"))
	env.Eventually(func() string { // CAPT writes status in between.
		require.NoError(t, env.Get(t.Context(), client.ObjectKey{Namespace: env.Namespace, Name: "alone"}, older))
		older.SetAnnotations(nil) // As in a manifest from before the migration.
		err := env.Update(t.Context(), older)
		if apierrors.IsConflict(err) {
			return err.Error()
		}
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, "spec.deletionProtection of alone cannot be removed in v1beta1")
		return ""
	})
	env.Edit(object, "alone", `{"metadata":{"finalizers":null}}`)
	env.AwaitGone(object, "alone")
}
