// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package default_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// role returns the ClusterRole with a name.
func role(t *testing.T, i installation, name string) *rbacv1.ClusterRole {
	t.Helper()
	return named[rbacv1.ClusterRole](t, i, "ClusterRole", name)
}

func allows(rules []rbacv1.PolicyRule, group, resource, verb string) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb)
	})
}

func TestManagerHasOneServiceAccount(t *testing.T) {
	i := load(t)
	account := one[corev1.ServiceAccount](t, i, "ServiceAccount")
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}}
	assert.Equal(t, "capt-system/capt-manager", account.Namespace+"/"+account.Name)

	everywhere := one[rbacv1.ClusterRoleBinding](t, i, "ClusterRoleBinding")
	assert.Equal(t, want, everywhere.Subjects)
	assert.Equal(t, role(t, i, "capt-manager-role").Name, everywhere.RoleRef.Name)
	here := one[rbacv1.RoleBinding](t, i, "RoleBinding")
	assert.Equal(t, want, here.Subjects)
	assert.Equal(t, one[rbacv1.Role](t, i, "Role").Name, here.RoleRef.Name)
	assert.Equal(t, account.Name, one[appsv1.Deployment](t, i, "Deployment").Spec.Template.Spec.ServiceAccountName)
}

// aggregations are the labels that aggregate a role to other roles.
func aggregations(role *rbacv1.ClusterRole) []string {
	var labels []string
	for name, value := range role.Labels {
		if strings.HasPrefix(name, "rbac.authorization.k8s.io/aggregate-to-") && value == "true" {
			labels = append(labels, name)
		}
	}
	return labels
}

func TestUserRolesDoNotAllowCodeExecution(t *testing.T) {
	i := load(t)
	view, edit, author := role(t, i, "capt-view"), role(t, i, "capt-edit"), role(t, i, "capt-template-author")
	requester := role(t, i, "capt-plan-requester")
	assert.Equal(t, []string{"rbac.authorization.k8s.io/aggregate-to-view"}, aggregations(view))
	assert.Equal(t, []string{"rbac.authorization.k8s.io/aggregate-to-edit"}, aggregations(edit))
	assert.Empty(t, aggregations(author), "an administrator must grant it explicitly")
	assert.Empty(t, requester.Labels["capt.cluster.x-k8s.io/aggregate-to-tenant"])
	assert.Empty(t, aggregations(requester), "what is planned runs code, too")

	reading, writing := []string{"get", "list", "watch"}, []string{"create", "update", "patch", "delete", "deletecollection"}
	for _, definition := range all[apiextensionsv1.CustomResourceDefinition](t, i, "CustomResourceDefinition") {
		group, resource := definition.Spec.Group, definition.Spec.Names.Plural
		for _, verb := range reading {
			assert.True(t, allows(view.Rules, group, resource, verb), "%s %s", verb, resource)
		}
		for _, verb := range writing {
			assert.False(t, allows(view.Rules, group, resource, verb), "%s %s", verb, resource)
			code, plan := resource == "workspacetemplates", resource == "planrequests"
			assert.Equal(t, !code && !plan, allows(edit.Rules, group, resource, verb), "%s %s", verb, resource)
			assert.Equal(t, plan && (verb == "create" || verb == "delete"), allows(requester.Rules, group, resource, verb), "%s %s", verb, resource)
			assert.Equal(t, code, allows(author.Rules, group, resource, verb), "%s %s", verb, resource)
		}
	}
}

func TestTenantsWriteNoTemplatesAndReadNoSecrets(t *testing.T) {
	i := load(t)
	rule := role(t, i, "capt-tenant").AggregationRule
	require.Len(t, rule.ClusterRoleSelectors, 1)
	selector, err := metav1.LabelSelectorAsSelector(&rule.ClusterRoleSelectors[0])
	require.NoError(t, err)
	var parts []string
	for _, role := range all[rbacv1.ClusterRole](t, i, "ClusterRole") {
		if !selector.Matches(labels.Set(role.Labels)) {
			continue
		}
		parts = append(parts, role.Name)
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			assert.False(t, allows(role.Rules, infrav1.GroupVersion.Group, "workspacetemplates", verb), "%s %s", role.Name, verb)
			assert.False(t, allows(role.Rules, terraform.ScopeNamespaced.GroupVersionKind().Group, "workspaces", verb), "%s %s", role.Name, verb)
		}
		assert.False(t, allows(role.Rules, "", "secrets", "get"), role.Name)
	}
	assert.ElementsMatch(t, []string{"capt-view", "capt-edit", "capt-tenant-clusters"}, parts)
}

func TestNoRoleHasAWildcard(t *testing.T) {
	for _, role := range all[rbacv1.ClusterRole](t, load(t), "ClusterRole") {
		for _, rule := range role.Rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				assert.NotContains(t, list, "*", role.Name)
			}
		}
	}
}
