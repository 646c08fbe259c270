// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/migrate"
)

func TestWaitEndsAtOnceWithWhatIsKnown(t *testing.T) {
	env := aFleet()
	for _, row := range []struct {
		arguments []string
		out, err  string
	}{
		{[]string{"team-a/good", "--for", "ready"}, "Cluster team-a/good: ready\n", ""},
		{[]string{"team-a/good", "--for", "version=1.36"}, "Cluster team-a/good: version=1.36\n", ""},
		{[]string{"team-a/nosuch", "--for", "deleted"}, "Cluster team-a/nosuch: deleted\n", ""},
		{[]string{"team-a/nosuch", "--for", "ready"}, "", "there is no Cluster nosuch of CAPT in namespace team-a; captctl get lists all Clusters"},
		{[]string{"team-a/good"}, "", `--for must be ready, deleted or version=VERSION, not ""`},
		{[]string{"team-a/good", "--for", "ready", "--timeout=-1s"}, "", "--timeout must be positive"},
	} {
		out, _, err := env.run(t, append([]string{"wait"}, row.arguments...)...)
		assert.Equal(t, row.out, out)
		if row.err == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, row.err)
		assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
	}
}

func TestWaitEndsWhenAUserMustAct(t *testing.T) {
	env := aFleet()
	_, errOut, err := env.run(t, "wait", "team-a/broken", "--for", "ready")
	require.Error(t, err)
	assert.Equal(t, `Cluster team-a/broken is Failed, and continues only when a user acts:
  WorkspaceTemplateApply broken-eks: ApplyFailed: AccessDenied: not allowed to create a cluster `+"\x1b"+`[31mred
  Correct what Terraform reports: the module of the WorkspaceTemplate, a variable of the Cluster, or something in AWS. An edit starts Terraform immediately; without one, provider-terraform retries.
  captctl logs team-a/broken
  kubectl edit captcontrolplane -n team-a broken
captctl describe shows more; --ignore-failures continues to wait.`, cli.Line(err))
	assert.Equal(t, "It is Failed: AccessDenied: not allowed to create a cluster ^[[31mred\n", errOut)

	env.clock = testclock.NewFakeClock(fleetNow)
	_, _, err = env.after(t, []time.Duration{time.Second, time.Second}, "wait", "team-a/broken", "--for", "ready", "--ignore-failures", "--timeout", "10s")
	assert.Equal(t, migrate.TimedOut, migrate.OutcomeOf(err))
	require.ErrorContains(t, err, "Cluster team-a/broken: not ready within 10s. It is Failed: AccessDenied")
}

func TestWaitShowsProgressUntilTheClusterChanges(t *testing.T) {
	env, reads := aFleet(), 0
	env.clock = testclock.NewFakeClock(fleetNow)
	env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*clusterv1.Cluster); is {
			reads++
		}
		if reads > 1 {
			key.Name = strings.Replace(key.Name, "growing", "good", 1)
		}
		return c.Get(ctx, key, object, options...)
	}
	out, errOut, err := env.after(t, []time.Duration{time.Second}, "wait", "team-a/growing", "--for", "ready")
	require.NoError(t, err)
	assert.Equal(t, "Cluster team-a/growing: ready\n", out)
	assert.Equal(t, "It is Configuring, 40% of Update, about 12m left: waiting for Terraform to apply a change\n", errOut)

	env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*clusterv1.Cluster); is {
			reads++
		}
		if reads > 3 {
			key.Name = "gone"
		}
		return c.Get(ctx, key, object, options...)
	}
	env.connected, env.clock, reads = nil, testclock.NewFakeClock(fleetNow), 2
	_, _, err = env.after(t, []time.Duration{time.Second}, "wait", "team-a/growing", "--for", "version=2.0")
	require.EqualError(t, err, "the Cluster team-a/growing was deleted")
}
