// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package policies_test proves the rules of config/policy on a cluster in which CAPT is installed under other names and in another
// namespace than config/default has: a manager that these rules did not recognize could delete nothing.
package policies_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

const installation = "testdata/elsewhere"

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// as is a client of another user.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := shared.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	c, err := client.New(config, client.Options{Scheme: controllers.Scheme()})
	require.NoError(t, err)
	return c
}

// administrator knows definitions too.
func administrator(t *testing.T) client.Client {
	t.Helper()
	return as(t, sandbox.AdminUser, "system:masters")
}

// kubectl runs kubectl as the administrator, and returns all that it prints.
func kubectl(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	return shared.Kubectl(t.Context(), arguments...)
}

// refused waits until the API server refuses a request, and returns why.
func refused(t *testing.T, request func(ctx context.Context) error) string {
	t.Helper()
	return fixture.EventuallyForbidden(t, request).Error()
}

// allow gives an object the annotation that allows its deletion, with a value.
func allow(t *testing.T, object client.Object, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, naming.AllowDeleteAnnotation, value)
	require.NoError(t, administrator(t).Patch(t.Context(), object, client.RawPatch(types.MergePatchType, patch)))
}
