// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// build creates a Cluster and waits until it is Ready.
func build(t *testing.T, scope terraform.Scope) *fixture.Environment {
	t.Helper()
	env := shared.NewEnvironment(t, scope)
	env.User(env.Everything()...)
	env.AwaitState(infrav1.StateReady, "")
	return env
}

func (p probe) delete(ctx context.Context) error {
	return p.client.Delete(ctx, p.object.DeepCopyObject().(client.Object), client.DryRunAll)
}

// probe asks whether a client may delete an object.
type probe struct {
	client client.Client
	object client.Object
}

// The manager's account has another name and another namespace than in config/default.
func TestPoliciesFollowTheInstallation(t *testing.T) {
	t.Parallel()
	manager, err := shared.InstalledManagerUser()
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:elsewhere:my-capt-manager", manager)

	env := build(t, terraform.ScopeNamespaced)
	vpc := &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(vpc, fixture.VPC))
	workspace := env.Workspace(fixture.VPC)
	require.NotNil(t, workspace)
	for _, object := range []client.Object{vpc, workspace} {
		refused(t, probe{shared.API, object}.delete)
		require.NoError(t, probe{as(t, manager), object}.delete(t.Context()), "CAPT itself")
		require.True(t, apierrors.IsForbidden(probe{as(t, sandbox.ManagerUser, "system:masters"), object}.delete(t.Context())),
			"the name in config/default means nothing here")
	}

	env.Remove(&clusterv1.Cluster{}, fixture.Demo)
	env.AwaitGone(&clusterv1.Cluster{}, fixture.Demo)
	env.RequireNothingLeft()
}

// Tools that apply manifests are often allowed everything, and are not CAPT's manager.
func TestAdministratorsAreGuardedToo(t *testing.T) {
	t.Parallel()
	env := build(t, terraform.ScopeCluster)
	vpc := &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(vpc, fixture.VPC))
	refused(t, probe{shared.API, vpc}.delete)

	grant := func(user, name string, rule rbacv1.PolicyRule) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule, {
			APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"workspacetemplateapplies"}, Verbs: []string{"delete"},
		}}}
		require.NoError(t, shared.API.Create(t.Context(), role))
		require.NoError(t, shared.API.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}))
	}
	all := []string{"*"}
	grant("gitops", "test-gitops", rbacv1.PolicyRule{APIGroups: all, Resources: all, Verbs: all})
	grant("capt-admin", "test-capt-admin", rbacv1.PolicyRule{APIGroups: []string{naming.GuardGroup}, Resources: all, Verbs: all})
	grant("shard", "test-shard", rbacv1.PolicyRule{APIGroups: []string{naming.GuardGroup}, Resources: []string{naming.GuardResource}, Verbs: []string{naming.GuardVerb}})

	// The last grant has reached the API server when it lets this user through; the others were made before.
	fixture.EventuallyAccepted(t, probe{as(t, "shard"), vpc}.delete)
	for _, user := range []string{"gitops", "capt-admin"} {
		err := probe{as(t, user), vpc}.delete(t.Context())
		require.True(t, apierrors.IsForbidden(err), "%s: %v", user, err)
		require.ErrorContains(t, err, "belongs to CAPTCluster demo", user)
	}
}

// An administrator of a namespace can grant any permission there, but no exemption.
func TestARoleInANamespaceIsNotAnExemption(t *testing.T) {
	t.Parallel()
	env := build(t, terraform.ScopeNamespaced)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "tool"}}
	require.NoError(t, shared.API.Create(t.Context(), account))
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "tool"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{naming.GuardGroup}, Resources: []string{naming.GuardResource}, Verbs: []string{naming.GuardVerb}},
		{APIGroups: []string{terraform.ScopeNamespaced.GroupVersionKind().Group}, Resources: []string{"workspaces"}, Verbs: []string{"delete"}},
	}}
	require.NoError(t, shared.API.Create(t.Context(), role))
	for name, kind := range map[string]string{"edit": "ClusterRole", role.Name: "Role"} {
		require.NoError(t, shared.API.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: env.Namespace, Name: account.Name}},
		}))
	}
	user := "system:serviceaccount:" + env.Namespace + ":" + account.Name
	for _, attributes := range []authorizationv1.ResourceAttributes{
		{Namespace: env.Namespace, Group: naming.GuardGroup, Resource: naming.GuardResource, Verb: naming.GuardVerb},
		{Namespace: env.Namespace, Group: infrav1.GroupVersion.Group, Resource: "workspacetemplateapplies", Verb: "delete"}, // edit has it.
	} {
		env.Eventually(func() string {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &attributes}}
			require.NoError(t, shared.API.Create(t.Context(), review))
			return fixture.Unless(review.Status.Allowed, "the roles are not known yet: %s", review.Status.Reason)
		})
	}
	vpc := &infrav1.WorkspaceTemplateApply{}
	require.True(t, env.Exists(vpc, fixture.VPC))
	for _, object := range []client.Object{vpc, env.Workspace(fixture.VPC)} {
		err := probe{as(t, user), object}.delete(t.Context())
		require.True(t, apierrors.IsForbidden(err), "%T: %v", object, err)
		require.ErrorContains(t, err, "would destroy", "not for lack of a right")
	}
}
