// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/fixture"
)

// requestTimeout is the longest time that a request may take.
const requestTimeout = 30 * time.Second

// hostileClient is a client of a user who has the role edit in the namespace a, and nothing else.
func (f *fleet) hostileClient() dynamic.Interface {
	f.Helper()
	const user, role = "mallory", "edit"
	f.Eventually(func() string { // Kubernetes adds the rules of CAPT a moment after it is installed.
		edit := &rbacv1.ClusterRole{}
		require.NoError(f, f.Get(f.Context(), client.ObjectKey{Name: role}, edit))
		aggregated := slices.ContainsFunc(edit.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "captcontrolplanetemplates") })
		return fixture.Unless(aggregated, "the role edit has no kinds of CAPT")
	})
	require.NoError(f, f.Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.a, Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}))
	config := shared.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	config.Timeout, config.WarningHandler = requestTimeout, rest.NoWarnings{}
	c, err := dynamic.NewForConfig(config)
	require.NoError(f, err)
	return c
}
