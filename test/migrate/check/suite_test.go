// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/legacy"
	"github.com/capt-provider/capt/test/sandbox"
)

const tick = 50 * time.Millisecond

// w has a cluster that CAPT v0.3 built, and its definitions. Tests of the later stages call install.
var env *legacy.Environment

func TestMain(m *testing.M) { os.Exit(fixture.Suite{Start: start}.Run(m)) }

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) (err error) {
	if env, err = legacy.Start(ctx, sandbox.Options{Log: os.Stderr}); err != nil {
		return err
	}
	keep(env.Sandbox)
	fleet := legacy.Named()["reference-set"]
	fleet.ControlPlaneTemplates = 1
	_, err = env.Create(ctx, fleet, legacy.NamesOf("reference-set"))
	return err
}

// installed is true once this version is.
var installed = sync.OnceValue(func() error {
	if _, err := env.TakeTemplates(context.Background()); err != nil {
		return err
	}
	return env.Upgrade(context.Background(), legacy.WebhooksOnly)
})

func install(t *testing.T) {
	t.Helper()
	require.NoError(t, installed())
}

// report runs the checks as a user.
func report(t *testing.T, user string, change ...func(*check.Options)) *check.Report {
	t.Helper()
	config, err := env.ConfigOf(user)
	require.NoError(t, err)
	// Earlier tests may have written as CAPT v0.3 in the same second.
	options := check.Options{Config: config, JournalNamespace: "capt-system", Quiet: -time.Minute}
	for _, c := range change {
		c(&options)
	}
	report, err := check.Run(t.Context(), options)
	require.NoError(t, err)
	return report
}

func find(t *testing.T, report *check.Report, name string) check.Check {
	t.Helper()
	for _, check := range report.Checks {
		if check.Name == name {
			return check
		}
	}
	require.Failf(t, "no such check", "%s", name)
	return check.Check{}
}

// look returns one check, as a user with all roles.
func look(t *testing.T, name string, change ...func(*check.Options)) check.Check {
	t.Helper()
	return find(t, report(t, sandbox.Captctl, change...), name)
}

// quiet waits until the fixture was written long ago: managedFields have seconds.
func quiet(t *testing.T) {
	t.Helper()
	fixture.EventuallyTrue(t, tick, func() bool { return look(t, check.CheckLegacy).Status == check.OK }, "the fixture was written a moment ago")
}

// create creates an object until the test ends.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if namespace := object.GetNamespace(); namespace != "" {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		require.NoError(t, client.IgnoreAlreadyExists(env.Admin.Create(t.Context(), n)))
	}
	require.NoError(t, env.Admin.Create(t.Context(), object))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Admin.Delete(context.Background(), object, client.GracePeriodSeconds(0))))
	})
}

// patch changes an object.
func patch(t *testing.T, object client.Object, body string) {
	t.Helper()
	require.NoError(t, env.Admin.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(body))))
}
