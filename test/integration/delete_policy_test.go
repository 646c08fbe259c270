// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/sandbox"
)

// Who deletes a WorkspaceTemplateApply destroys a VPC or a cluster. Its owners may, and those who clean up after them.

// vpcOwned makes a CAPTCluster that no Cluster refers to and a WorkspaceTemplateApply that it owns. Nothing holds either.
func (w *world) vpcOwned() *infrav1.WorkspaceTemplateApply {
	w.Helper()
	w.apply(captCluster("demo"))
	owner := &infrav1.CAPTCluster{}
	require.NoError(w, w.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo"}, owner))
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owned",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, infrav1.GroupVersion.WithKind("CAPTCluster"))}}}
	apply.Spec.TemplateRef.Name = "absent"
	require.NoError(w, w.Create(w.Context(), apply))
	w.awaitPolicy(apply)
	return apply
}

// awaitPolicy waits until the API server knows the policy, which it learns a moment after it was installed.
func (w *world) awaitPolicy(apply *infrav1.WorkspaceTemplateApply) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, prompt, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsForbidden(w.Delete(ctx, apply.DeepCopy(), client.DryRunAll)), nil
	})
	require.NoError(w, err, "the policy refuses nothing")
}

// annotate sets an annotation, as kubectl annotate does.
func (w *world) annotate(object client.Object, key, value string) {
	w.Helper()
	patch := client.MergeFrom(object.DeepCopyObject().(client.Object))
	object.SetAnnotations(map[string]string{key: value})
	require.NoError(w, w.Patch(w.Context(), object, patch))
}

// as is a client of another user.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := shared.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	c, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	return c
}

func TestWhatAnOwnerHasIsNotDeletedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apply := w.vpcOwned()

	err := w.Delete(t.Context(), apply.DeepCopy())
	require.True(t, apierrors.IsForbidden(err), "got %v", err)
	for _, part := range []string{"WorkspaceTemplateApply owned", "CAPTCluster demo", "delete the Cluster", naming.AllowDeleteAnnotation + ` to "true"`} {
		require.ErrorContains(t, err, part)
	}

	require.True(t, apierrors.IsForbidden(w.DeleteAllOf(t.Context(), &infrav1.WorkspaceTemplateApply{}, client.InNamespace(w.namespace))))
	older := &unstructured.Unstructured{}
	older.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta1")
	older.SetKind("WorkspaceTemplateApply")
	older.SetNamespace(w.namespace)
	older.SetName("owned")
	require.True(t, apierrors.IsForbidden(w.Delete(t.Context(), older)), "the older version does not bypass it")

	w.annotate(apply, naming.AllowDeleteAnnotation, "false")
	require.True(t, apierrors.IsForbidden(w.Delete(t.Context(), apply.DeepCopy())), "only true allows it")
	w.annotate(apply, naming.AllowDeleteAnnotation, "true")
	require.NoError(t, w.Delete(t.Context(), apply))
	w.awaitGone(&infrav1.WorkspaceTemplateApply{}, "owned")
}

func TestObjectsWithoutOwnerCanBeDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vpcOwned() // From here on the policy is known to hold.
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "owner"}}
	require.NoError(t, w.Create(t.Context(), configMap))
	for name, owners := range map[string][]metav1.OwnerReference{
		"no-owner":      nil,
		"another-owner": {*metav1.NewControllerRef(configMap, corev1.SchemeGroupVersion.WithKind("ConfigMap"))},
	} {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, OwnerReferences: owners}}
		apply.Spec.TemplateRef.Name = "absent"
		require.NoError(t, w.Create(t.Context(), apply))
		require.NoError(t, w.Delete(t.Context(), apply), "owned by %s", name)
	}
}

func TestControllersThatCleanUpMayDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apply := w.vpcOwned()
	for user, may := range map[string]bool{
		sandbox.ManagerUser: true,
		"system:serviceaccount:kube-system:generic-garbage-collector":    true,
		"system:serviceaccount:kube-system:namespace-controller":         true,
		"system:kube-controller-manager":                                 true,
		"system:serviceaccount:" + w.namespace + ":namespace-controller": false,
		"system:serviceaccount:kube-system:job-controller":               false,
		sandbox.ClusterAPIUser:                                           false,
		sandbox.AdminUser:                                                false,
	} {
		groups := []string{"system:masters"}
		if user == sandbox.ManagerUser {
			groups = nil // The manager is recognized by the right that it has, not by its name.
		}
		err := as(t, user, groups...).Delete(t.Context(), apply.DeepCopy(), client.DryRunAll)
		if may {
			require.NoError(t, err, user)
		} else {
			require.True(t, apierrors.IsForbidden(err), "%s: %v", user, err)
		}
	}
	w.annotate(apply, "clusterctl.cluster.x-k8s.io/delete-for-move", "")
	require.NoError(t, w.Delete(t.Context(), apply.DeepCopy(), client.DryRunAll), "clusterctl move leaves nothing behind")
}

func TestGarbageCollectionTakesWhatAnOwnerLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vpcOwned()
	require.NoError(t, w.Delete(t.Context(), &infrav1.CAPTCluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}}))
	w.awaitGone(&infrav1.WorkspaceTemplateApply{}, "owned")
}

func TestDeletingANamespaceDeletesItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.vpcOwned()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	require.NoError(t, sandbox.AllowDelete(t.Context(), w.Client, namespace))
	require.NoError(t, w.Delete(t.Context(), namespace))
	w.awaitGone(namespace, w.namespace)
}

func TestAClusterTakesEverythingAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(everything("demo", "v1.35.0")...)
	w.awaitReady("demo")
	apply := &infrav1.WorkspaceTemplateApply{}
	for _, name := range []string{"demo-vpc", "demo-eks-controlplane-apply"} {
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, apply))
		w.awaitPolicy(apply)
	}
	require.NoError(t, w.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "demo"}}))
	w.awaitGone(&clusterv1.Cluster{}, "demo")
	for _, name := range []string{"demo-vpc", "demo-eks-controlplane-apply"} {
		w.awaitGone(apply, name)
	}
	require.Empty(t, w.workspaces())
}

// With the override annotation the object is deleted, and its owner recreates it.
func TestAllowedDeletionStartsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(vpcTemplate(), cluster("demo"), captCluster("demo"))
	w.awaitCondition(patience, &infrav1.CAPTCluster{}, "demo", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReadyReason)
	before, after := &infrav1.WorkspaceTemplateApply{}, &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "demo-vpc"}, before))
	w.annotate(before, naming.AllowDeleteAnnotation, "true")
	require.NoError(t, w.Delete(t.Context(), before))
	w.await(patience, after, "demo-vpc", func() string {
		if after.UID == before.UID {
			return "it is still the old one"
		}
		return ""
	})
	require.Empty(t, after.Annotations[naming.AllowDeleteAnnotation], "the new one is protected again")
}
