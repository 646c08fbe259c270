// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func TestLogsShowsWhatTerraformReported(t *testing.T) {
	env := aFleet()
	out, _, err := env.run(t, "logs", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "The last runs of Terraform have reported no errors.\n", out)
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "good-eks"}, apply))
	apply.Status.LastFailureMessage, apply.Status.LastFailureClass = "Error: a\n  with b", "Auth"
	require.NoError(t, env.connected.Update(t.Context(), apply))
	out, _, err = env.run(t, "logs", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "WorkspaceTemplateApply good-eks (Auth):\n  Error: a\n    with b\n", out)

	apply.Status = infrav1.WorkspaceTemplateApplyStatus{Conditions: []metav1.Condition{
		{Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.DestroyFailedReason, Message: "the VPC has dependencies"},
	}}
	require.NoError(t, env.connected.Update(t.Context(), apply))
	out, _, err = env.run(t, "logs", "team-a/good")
	require.NoError(t, err)
	assert.Equal(t, "WorkspaceTemplateApply good-eks (DestroyFailed):\n  the VPC has dependencies\n", out)
}

func TestLogsNeedsAClusterOrAWorkspaceTemplateApply(t *testing.T) {
	env := aFleet()
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("good")}
	apply.Status.LastFailureMessage, apply.Status.LastFailureClass = "Error: a", "Quota"
	standalone := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("standalone"), Status: apply.Status}
	env.objects = append(env.objects, apply, standalone)
	const none, failed = "The last runs of Terraform have reported no errors.\n", "WorkspaceTemplateApply %s (Quota):\n  Error: a\n"
	for argument, want := range map[string]string{
		"cluster/team-a/good": none, "cl/good": none, "good-eks": none, "wta/good": fmt.Sprintf(failed, "good"), "standalone": fmt.Sprintf(failed, "standalone"),
		"WorkspaceTemplateApply/team-a/standalone": fmt.Sprintf(failed, "standalone"), "team-a/standalone": fmt.Sprintf(failed, "standalone"),
	} {
		out, _, err := env.run(t, "logs", argument, "-n", "team-a")
		require.NoError(t, err, argument)
		assert.Equal(t, want, out, argument)
	}
	for argument, want := range map[string]string{
		"team-a/good":               "there are a Cluster and a WorkspaceTemplateApply good in namespace team-a; use cluster/team-a/good or workspacetemplateapply/team-a/good",
		"good":                      "there is no Cluster and no WorkspaceTemplateApply good in namespace default; did you mean team-a/good?",
		"cluster/team-a/standalone": "there is no Cluster standalone in namespace team-a; captctl get lists all Clusters",
		"wta/team-a/broken":         "there is no WorkspaceTemplateApply broken in namespace team-a; kubectl get workspacetemplateapplies -A lists all",
		"a/b/c":                     `"a/b/c": must be CLUSTER or NAMESPACE/CLUSTER; a WorkspaceTemplateApply is named workspacetemplateapply/NAME or workspacetemplateapply/NAMESPACE/NAME`,
	} {
		_, _, err := env.run(t, "logs", argument)
		assert.EqualError(t, err, want, argument)
	}
	out, _, err := env.run(t, "__complete", "logs", "")
	require.NoError(t, err)
	assert.Contains(t, out, "\nteam-a/good\n")
	assert.Contains(t, out, "\nworkspacetemplateapply/team-a/standalone\n")
}

func TestLogsFollowsOneWorkspaceTemplateApplyForAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := aFleet()
		env.clock = testclock.NewFakeClock(fleetNow)
		ended := make(chan string)
		go func() {
			out, _, err := env.runIn(t.Context(), t, "logs", "wta/team-a/good-eks", "-f", "-o", "yaml")
			assert.NoError(t, err)
			ended <- out
		}()
		synctest.Wait()
		second := func() { env.clock.Step(time.Second); synctest.Wait() }
		second()
		apply := &infrav1.WorkspaceTemplateApply{}
		require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "good-eks"}, apply))
		apply.Status.LastFailureClass, apply.Status.LastFailureMessage = "Quota", "Error: a"
		require.NoError(t, env.connected.Update(t.Context(), apply))
		synctest.Wait()
		second()
		require.NoError(t, env.connected.Delete(t.Context(), apply))
		synctest.Wait()
		second()
		const head = "apiVersion: migrate.capt.cluster.x-k8s.io/v1\n%skind: TerraformErrors\nnamespace: team-a\n"
		assert.Equal(t, fmt.Sprintf(head, "errors: []\n")+"---\n"+fmt.Sprintf(head,
			"errors:\n- class: Quota\n  message: 'Error: a'\n  name: good-eks\n  observed: \"2026-10-22T10:00:02Z\"\n"), <-ended)
	})
}

func TestLogsFollowsUntilTheClusterIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := aFleet()
		env.clock = testclock.NewFakeClock(fleetNow)
		fails := false
		env.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if fails {
				return errors.New("the API server restarts")
			}
			return c.List(ctx, list, options...)
		}
		type result struct{ out, errOut string }
		ended := make(chan result)
		go func() {
			out, errOut, err := env.runIn(t.Context(), t, "logs", "team-a/good", "-f")
			assert.NoError(t, err)
			ended <- result{out, errOut}
		}()
		synctest.Wait()
		second := func() { env.clock.Step(time.Second); synctest.Wait() }
		apply := &infrav1.WorkspaceTemplateApply{}
		change := func(message string, labels map[string]string) {
			require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "good-eks"}, apply))
			apply.Status.LastFailureClass, apply.Status.LastFailureMessage, apply.Labels = "Quota", message, labels
			require.NoError(t, env.connected.Update(t.Context(), apply))
			synctest.Wait()
			second()
		}
		second() // What changed before the objects were watched is read.
		change("Error: a\n  with b", nil)
		change("Error: a\n  with b", map[string]string{"another": "change"})
		fails = true
		change("Error: c", nil)
		fails = false
		change("Error: c", map[string]string{"further": "change"})
		change("", nil)
		change("Error: c", nil)
		require.NoError(t, env.connected.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "good"}}))
		synctest.Wait()
		second()
		got := <-ended
		assert.Equal(t, strings.TrimLeft(`
The last runs of Terraform have reported no errors.

2026-10-22 10:00:02 UTC WorkspaceTemplateApply good-eks (Quota):
  Error: a
    with b

2026-10-22 10:00:05 UTC WorkspaceTemplateApply good-eks (Quota):
  Error: c

2026-10-22 10:00:07 UTC WorkspaceTemplateApply good-eks (Quota):
  Error: c

2026-10-22 10:00:08 UTC Cluster good is gone.
`, "\n"), got.out)
		assert.Equal(t, "Warning: the API server restarts\n", got.errOut)
	})
}

func TestLogsFollowsUntilItIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, _, err := aFleet().runIn(ctx, t, "logs", "team-a/good", "--follow")
			ended <- err
		}()
		synctest.Wait()
		interrupt()
		assert.NoError(t, <-ended, "to be interrupted is not an error")
	})
}
