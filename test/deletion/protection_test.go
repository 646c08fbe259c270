// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/provider/executor/scripted"
	"github.com/capt-provider/capt/test/sandbox"
)

const (
	protection = "deletionProtection: Enabled"
	unprotect  = `{"spec":{"deletionProtection":"Disabled"}}`
)

// Each of the two is effective alone: the API server rejects the deletion while the manager, and with it every webhook, is stopped; and the
// manager destroys nothing when all policies are gone.
func TestDeletionProtectionHoldsWithoutWebhooksAndWithoutPolicies(t *testing.T) {
	server := shared.Exclusive(t)
	env := server.NewEnvironment(t, terraform.ScopeNamespaced)
	env.User(append(env.Templates(), fixture.Cluster(), fixture.CAPTCluster(fixture.Demo)+"  "+protection+"\n", fixture.CAPTControlPlane(fixture.Demo, protection))...)
	env.AwaitState(infrav1.StateReady, "")
	untouched := untouchedSince(env, fixture.VPC, fixture.ControlPlane)

	require.NoError(t, server.StopComponent(t.Context(), sandbox.Manager))
	start := func(ctx context.Context) { require.NoError(t, server.StartComponent(ctx, sandbox.Manager)) }
	t.Cleanup(func() {
		if start != nil {
			start(context.Background())
		}
	})
	requireDeletionRejected(env)
	start(t.Context())
	start = nil

	suspendPolicies(env)
	env.Remove(&clusterv1.Cluster{}, fixture.Demo, client.PropagationPolicy(metav1.DeletePropagationForeground))
	awaitProtected := func(object engine.Object, name string, parts ...string) {
		t.Helper()
		env.Await(object, name, infrav1.DeletingCondition, metav1.ConditionTrue, infrav1.DeletionProtectedReason,
			append(parts, "is Enabled, so nothing is destroyed", "Then set spec.deletionProtection to Disabled")...)
	}
	awaitProtected(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
	awaitProtected(&infrav1.CAPTCluster{}, fixture.Demo)
	awaitProtected(&infrav1.WorkspaceTemplateApply{}, fixture.ControlPlane, "of CAPTControlPlane demo")
	awaitProtected(&infrav1.WorkspaceTemplateApply{}, fixture.VPC, "of CAPTCluster demo")
	untouched(fixture.VPC, fixture.ControlPlane)

	env.Edit(&controlplanev1.CAPTControlPlane{}, fixture.Demo, unprotect)
	env.AwaitGone(&controlplanev1.CAPTControlPlane{}, fixture.Demo)
	untouched(fixture.VPC)
	env.Edit(&infrav1.CAPTCluster{}, fixture.Demo, unprotect)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireDestroyedInOrder(fixture.VPC, fixture.ControlPlane)
	env.RequireNothingLeft()
}

// untouchedSince returns a function that checks that Workspaces are those of now, and that nothing of them is destroyed.
func untouchedSince(env *fixture.Environment, names ...string) func(names ...string) {
	env.Helper()
	before := map[string]types.UID{}
	for _, name := range names {
		before[name] = env.Workspace(name).GetUID()
	}
	return func(names ...string) {
		env.Helper()
		for _, name := range names {
			workspace := env.Workspace(name)
			require.NotNil(env, workspace, name)
			require.Equal(env, before[name], workspace.GetUID(), name)
			require.Nil(env, workspace.GetDeletionTimestamp(), name)
			require.Empty(env, env.Operations(name, scripted.Destroy), name)
		}
	}
}

// requireDeletionRejected tries to delete everything that a cluster is deleted with.
func requireDeletionRejected(env *fixture.Environment) {
	env.Helper()
	meta := metav1.ObjectMeta{Namespace: env.Namespace, Name: fixture.Demo}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Namespace}}
	require.NoError(env, sandbox.AllowDelete(env.Context(), env.Client, namespace))
	for _, object := range []client.Object{
		&clusterv1.Cluster{ObjectMeta: meta}, &controlplanev1.CAPTControlPlane{ObjectMeta: meta}, &infrav1.CAPTCluster{ObjectMeta: meta}, namespace,
	} {
		err := env.Delete(env.Context(), object)
		require.True(env, apierrors.IsForbidden(err), "%T: %v", object, err)
		require.ErrorContains(env, err, "protected from deletion")
	}
}
