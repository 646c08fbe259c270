// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// No client is exempt: Cluster API deletes the objects of a running cluster with a copy of its Cluster.
func TestWhatALiveClusterRefersToIsNotDeletedByAnyUser(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	manager, err := shared.InstalledManagerUser()
	require.NoError(t, err)
	meta := metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}
	for _, object := range []client.Object{&infrav1.CAPTCluster{ObjectMeta: meta}, &controlplanev1.CAPTControlPlane{ObjectMeta: meta}} {
		message := refused(t, probe{shared.API, object}.delete)
		for _, part := range []string{" demo belongs to Cluster demo", "delete the Cluster", naming.AllowDeleteAnnotation + ` to "true"`} {
			require.Contains(t, message, part)
		}
		for _, user := range []string{
			"system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller",
			"system:kube-controller-manager", sandbox.ClusterAPIUser, manager,
		} {
			require.ErrorContains(t, probe{as(t, user, "system:masters"), object}.delete(t.Context()), "belongs to Cluster demo", user)
		}
		require.ErrorContains(t, env.DeleteAllOf(t.Context(), object, client.InNamespace(env.Namespace)), "belongs to Cluster demo")
		env.Edit(object, fixture.Demo, forMove)
		require.NoError(t, env.Delete(t.Context(), object, client.DryRunAll), "clusterctl move leaves nothing behind")
		env.Edit(object, fixture.Demo, `{"metadata":{"annotations":null}}`)
		allow(t, object, "false")
		require.ErrorContains(t, env.Delete(t.Context(), object), "belongs to Cluster demo", "only true allows it")
		allow(t, object, "true")
		require.NoError(t, env.Delete(t.Context(), object, client.DryRunAll))
		env.Edit(object, fixture.Demo, `{"metadata":{"annotations":null}}`)
	}
	older := &unstructured.Unstructured{}
	older.SetGroupVersionKind(infrav1beta1.GroupVersion.WithKind("CAPTCluster"))
	older.SetNamespace(env.Namespace)
	older.SetName(fixture.Demo)
	require.ErrorContains(t, env.Delete(t.Context(), older), "belongs to Cluster demo", "the older version does not bypass it")

	env.User(fixture.CAPTCluster("alone"))
	env.Remove(&infrav1.CAPTCluster{}, "alone")
	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	for _, object := range []client.Object{&clusterv1.Cluster{}, &infrav1.CAPTCluster{}, &controlplanev1.CAPTControlPlane{}} {
		env.AwaitGone(object, fixture.Demo)
	}
}

// clusterRefs changes the names in the references of a Cluster; empty ones stay.
func clusterRefs(t *testing.T, cluster *unstructured.Unstructured, captCluster, controlPlane string) *unstructured.Unstructured {
	t.Helper()
	for field, name := range map[string]string{"infrastructureRef": captCluster, "controlPlaneRef": controlPlane} {
		if name != "" {
			require.NoError(t, unstructured.SetNestedField(cluster.Object, name, "spec", field, "name"))
		}
	}
	return cluster
}

func TestASecondClusterCannotReferToTheObjectsOfAnother(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(fixture.Cluster(), fixture.CAPTCluster(fixture.Demo), fixture.CAPTControlPlane(fixture.Demo))
	create := func(object client.Object) func(context.Context) error {
		return func(ctx context.Context) error {
			return env.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	other := fixture.Decode(t, env.Namespace, fixture.ClusterNamed("other"))
	message := refused(t, create(clusterRefs(t, other.DeepCopy(), fixture.Demo, fixture.Demo)))
	for _, part := range []string{"Cluster other refers to CAPTC", " demo, which belongs to Cluster demo", "correct the reference", "namePrefix"} {
		require.Contains(t, message, part)
	}
	require.ErrorContains(t, create(clusterRefs(t, other.DeepCopy(), fixture.Demo, ""))(t.Context()), "both would have one VPC")
	require.ErrorContains(t, create(clusterRefs(t, other.DeepCopy(), "", fixture.Demo))(t.Context()), "both would have one EKS cluster")
	older := fixture.Decode(t, env.Namespace, `{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: older}, spec: {
		infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: CAPTCluster, name: demo}}}`)
	require.ErrorContains(t, create(older)(t.Context()), "both would have one VPC", "the older version does not bypass it")

	require.NoError(t, env.Create(t.Context(), other), "a Cluster with its own objects, which do not exist yet")
	patch := func(text string) error {
		return env.Patch(t.Context(), other.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	require.ErrorContains(t, patch(`{"spec":{"infrastructureRef":{"name":"demo"}}}`), "both would have one VPC")
	require.ErrorContains(t, patch(`{"spec":{"controlPlaneRef":{"name":"demo"}}}`), "both would have one EKS cluster")
	require.NoError(t, patch(`{"metadata":{"labels":{"any":"label"}}}`))
	require.NoError(t, patch(`{"spec":{"infrastructureRef":{"name":"another"}}}`))
	env.User(fixture.Cluster()) // The Cluster itself is applied again.

	elsewhere := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	elsewhere.User(fixture.Cluster())
}

// Cluster API would delete the template with the Cluster, also for a user who may not delete templates.
func TestAClusterRefersToNoOtherKind(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	for _, document := range []string{
		`{apiVersion: cluster.x-k8s.io/v1beta2, spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: WorkspaceTemplate, name: vpc}}}`,
		`{apiVersion: cluster.x-k8s.io/v1beta2, spec: {controlPlaneRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: WorkspaceTemplateApply, name: vpc}}}`,
		`{apiVersion: cluster.x-k8s.io/v1beta1, spec: {infrastructureRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: WorkspaceTemplate, name: vpc}}}`,
	} {
		cluster := fixture.Decode(t, env.Namespace, strings.Replace(document, "spec:", "kind: Cluster, metadata: {name: any}, spec:", 1))
		message := refused(t, func(ctx context.Context) error { return env.Create(ctx, cluster.DeepCopy(), client.DryRunAll) })
		require.Contains(t, message, "would be deleted with the Cluster. Refer to a CAPTCluster")
	}
}

// The deletion could not be reverted, and the template would stay until its last user is deleted.
func TestATemplateInUseIsNotDeleted(t *testing.T) {
	t.Parallel()
	env := shared.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(env.VPCTemplate(fixture.VPCModule), env.Template("unused", fixture.VPCModule, "vpc_name"))
	waits := []string{"variables: {vpc_name: any}", "waitForSecrets: [{name: missing}]"} // So nothing is created.
	env.User(fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "first", waits...), fixture.WorkspaceTemplateApply(fixture.VPCTemplate, "second", waits...))
	template := &infrav1.WorkspaceTemplate{}
	env.Eventually(func() string {
		require.True(t, env.Exists(template, fixture.VPCTemplate))
		return fixture.Unless(template.Status.Users != nil && *template.Status.Users == 2, "users: %v", template.Status.Users)
	})
	message := refused(t, probe{shared.API, template}.delete)
	for _, part := range []string{"WorkspaceTemplate vpc is used by 2 WorkspaceTemplateApplies", "captctl template status", naming.AllowDeleteAnnotation + ` to "true"`} {
		require.Contains(t, message, part)
	}
	gone := func(user string) error { return probe{as(t, user, "system:masters"), template}.delete(t.Context()) }
	require.ErrorContains(t, gone("system:serviceaccount:kube-system:generic-garbage-collector"), "is used by")
	require.NoError(t, gone("system:serviceaccount:kube-system:namespace-controller"))
	require.ErrorContains(t, env.DeleteAllOf(t.Context(), template, client.InNamespace(env.Namespace), client.DryRunAll), "is used by")
	env.Remove(&infrav1.WorkspaceTemplate{}, "unused")
	allow(t, template, "true")
	require.NoError(t, env.Delete(t.Context(), template, client.DryRunAll))
	env.Edit(template, fixture.VPCTemplate, `{"metadata":{"annotations":null}}`)

	env.Remove(&infrav1.WorkspaceTemplateApply{}, "first")
	env.Remove(&infrav1.WorkspaceTemplateApply{}, "second")
	fixture.EventuallyAccepted(t, func(ctx context.Context) error { return env.Delete(ctx, template) })
	env.AwaitGone(template, fixture.VPCTemplate)
}
