// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// requestTimeout is the longest time that a request may take.
const requestTimeout = 30 * time.Second

// hostileClient is a client of a user who has the role edit in the namespace a, and nothing else.
func (f *fleet) hostileClient() dynamic.Interface {
	f.Helper()
	const user = "mallory"
	role := &rbacv1.ClusterRole{}
	require.NoError(f, f.Get(f.Context(), client.ObjectKey{Name: "edit"}, role))
	if len(role.Rules) == 0 { // No controller aggregates roles.
		role = &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.a + "-edit"}, Rules: aggregated(f, "edit")}
		require.NoError(f, f.Create(f.Context(), role))
	}
	require.NoError(f, f.Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.a, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	config := shared.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	config.Timeout, config.WarningHandler = requestTimeout, rest.NoWarnings{}
	c, err := dynamic.NewForConfig(config)
	require.NoError(f, err)
	return c
}

// aggregated returns the rules that the controller of aggregated ClusterRoles would give to a role.
func aggregated(f *fleet, name string) (rules []rbacv1.PolicyRule) {
	f.Helper()
	roles := &rbacv1.ClusterRoleList{}
	require.NoError(f, f.List(f.Context(), roles))
	var collect func(name string)
	seen := map[string]bool{}
	collect = func(name string) {
		for _, role := range roles.Items {
			if role.Name != name || seen[name] {
				continue
			}
			seen[name] = true
			rules = append(rules, role.Rules...)
			if role.AggregationRule == nil {
				continue
			}
			for _, selector := range role.AggregationRule.ClusterRoleSelectors {
				selects, err := metav1.LabelSelectorAsSelector(&selector)
				require.NoError(f, err)
				for _, other := range roles.Items {
					if selects.Matches(labels.Set(other.Labels)) {
						collect(other.Name)
					}
				}
			}
		}
	}
	collect(name)
	require.NotEmpty(f, rules)
	return rules
}
