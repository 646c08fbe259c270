// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// Deleting a WorkspaceTemplateApply destroys a VPC or a cluster. Its owners may, and controllers that clean up after them.
func TestWhatAnOwnerHasIsNotDeletedByHand(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(fixture.CAPTCluster(fixture.Demo)) // No Cluster refers to it, so that nothing holds it.
	owner := &infrav1.CAPTCluster{}
	require.True(t, env.Exists(owner, fixture.Demo))
	create := func(name string, owners ...metav1.OwnerReference) *infrav1.WorkspaceTemplateApply {
		apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name, OwnerReferences: owners}}
		apply.Spec.TemplateRef.Name = "absent"
		require.NoError(t, env.Create(t.Context(), apply))
		return apply
	}
	apply := create("owned", *metav1.NewControllerRef(owner, infrav1.GroupVersion.WithKind("CAPTCluster")))
	require.NoError(t, env.Delete(t.Context(), create("no-owner")))
	orphan := create("another-owner", metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"})
	require.NoError(t, client.IgnoreNotFound(env.Delete(t.Context(), orphan)), "the garbage collector may be first")

	message := refused(t, probe{shared.API, apply}.delete)
	for _, part := range []string{"WorkspaceTemplateApply owned", "CAPTCluster demo", "delete the Cluster", naming.AllowDeleteAnnotation + ` to "true"`} {
		require.Contains(t, message, part)
	}
	for user, may := range map[string]bool{
		"system:serviceaccount:kube-system:generic-garbage-collector":      true,
		"system:serviceaccount:kube-system:namespace-controller":           true,
		"system:kube-controller-manager":                                   true,
		"system:serviceaccount:" + env.Namespace + ":namespace-controller": false,
		"system:serviceaccount:kube-system:job-controller":                 false,
		sandbox.ClusterAPIUser:                                             false,
	} {
		require.Equal(t, !may, apierrors.IsForbidden(probe{as(t, user, "system:masters"), apply}.delete(t.Context())), user)
	}
	require.True(t, apierrors.IsForbidden(env.DeleteAllOf(t.Context(), &infrav1.WorkspaceTemplateApply{}, client.InNamespace(env.Namespace))))
	older := &unstructured.Unstructured{}
	older.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	older.SetNamespace(env.Namespace)
	older.SetName("owned")
	require.True(t, apierrors.IsForbidden(env.Delete(t.Context(), older)), "the older version does not bypass it")

	allow(t, apply, "false")
	require.True(t, apierrors.IsForbidden(env.Delete(t.Context(), apply.DeepCopy())), "only true allows it")
	env.Edit(&infrav1.WorkspaceTemplateApply{}, "owned", `{"metadata":{"annotations":{"clusterctl.cluster.x-k8s.io/delete-for-move":""}}}`)
	require.NoError(t, env.Delete(t.Context(), apply.DeepCopy(), client.DryRunAll), "clusterctl move leaves nothing behind")
	env.Edit(apply, "owned", `{"metadata":{"annotations":null}}`)
	allow(t, apply, "true")
	require.NoError(t, env.Delete(t.Context(), apply))
	env.AwaitGone(apply, "owned")
}

func TestShardsLeadAtTheSameTime(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	shards := map[string][]string{
		naming.LeaderElectionLease("", "first"):            {"--watch-filter=first"},
		naming.LeaderElectionLease("", "second"):           {"--watch-filter=second"},
		naming.LeaderElectionLease(env.Namespace, "third"): {"--watch-filter=third", "--namespace=" + env.Namespace},
	}
	for lease, args := range shards {
		shared.StartInstance(t, lease, append(args, "--leader-elect", "--leader-elect-namespace=elsewhere")...)
	}
	api := administrator(t)
	for lease := range shards {
		held := &coordinationv1.Lease{}
		fixture.EventuallyObject(t, time.Second, api, client.ObjectKey{Namespace: "elsewhere", Name: lease}, held, func() string {
			return fixture.Unless(ptr.Deref(held.Spec.HolderIdentity, "") != "", "Lease %s has no holder", lease)
		})
	}
}
