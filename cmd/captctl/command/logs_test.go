// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/test/provider/executor"
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

// canary is a secret that the error of Terraform quotes across a line break.
const canary = "canary horse battery"

// aFailingWorkspace fails with two errors. The manager has published one of them.
func aFailingWorkspace() (env *environment, published string) {
	env = aFleet()
	apply := &infrav1.WorkspaceTemplateApply{ObjectMeta: named("failing")}
	published = "Terraform apply failed: first: [redacted] (1 of 2 errors). Complete text: " + failure.Command(apply)
	apply.Status.LastFailureClass, apply.Status.LastFailureMessage = "Unknown", published
	workspace := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"forProvider": map[string]any{"env": []any{
			map[string]any{"name": "A", "secretKeyRef": map[string]any{"name": "inputs", "key": "a"}},
		}}},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": "Synced", "status": "False", "reason": "ReconcileError", "lastTransitionTime": before(1).UTC().Format(time.RFC3339),
			"message": "update failed: cannot apply Terraform configuration: " + executor.Failure("\nError: first\n\nit is canary horse\nbattery\n\nError: second\n\n  on main.tf line 1:\n   1: "+canary+"\n").Error(),
		}}},
	}}
	workspace.SetGroupVersionKind(terraform.ScopeNamespaced.GroupVersionKind())
	workspace.SetNamespace("team-a")
	workspace.SetName("failing")
	workspace.SetUID("uid-of-workspace")
	apply.Status.WorkspaceRef = render.ReferenceTo(workspace)
	secret := &corev1.Secret{ObjectMeta: named("inputs"), Data: map[string][]byte{"a": []byte(canary)}}
	env.objects = append(env.objects, apply, workspace, secret)
	return env, published
}

func TestLogsShowsTheCompleteTextWithoutSecrets(t *testing.T) {
	env, published := aFailingWorkspace()
	out, _, err := env.run(t, "logs", "wta/team-a/failing")
	require.NoError(t, err)
	assert.Equal(t, `WorkspaceTemplateApply failing (Unknown):
  Error: first it is [redacted]

  Error: second

    on main.tf line 1:
     1: [redacted]
`, out)

	out, _, err = env.run(t, "logs", "wta/team-a/failing", "-o", "json")
	require.NoError(t, err)
	var document fleet.TerraformErrors
	require.NoError(t, json.Unmarshal([]byte(out), &document))
	require.Len(t, document.Errors, 1)
	assert.Equal(t, published, document.Errors[0].Message)
	assert.Contains(t, document.Errors[0].Text, "Error: second\n\n  on main.tf")
	assert.Empty(t, document.Errors[0].TextUnavailable)
	assert.NotContains(t, out, "canary")
}

// The manager does not run, or has not observed the error yet.
func TestLogsShowsAnErrorThatIsNotPublished(t *testing.T) {
	env, _ := aFailingWorkspace()
	_, _, err := env.run(t, "logs", "wta/team-a/failing")
	require.NoError(t, err)
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, env.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "failing"}, apply))
	apply.Status.LastFailureClass, apply.Status.LastFailureMessage = "", ""
	require.NoError(t, env.connected.Update(t.Context(), apply))
	out, _, err := env.run(t, "logs", "wta/team-a/failing", "-o", "yaml")
	require.NoError(t, err)
	assert.Contains(t, out, "class: Unknown")
	assert.Contains(t, out, "Complete text: captctl logs -n team-a workspacetemplateapply/failing")
	assert.Contains(t, out, "Error: second")
	assert.NotContains(t, out, "canary")
}

func TestLogsSaysWhyTheCompleteTextIsNotAvailable(t *testing.T) {
	forbidden := func(resource schema.GroupResource, name string) error {
		return apierrors.NewForbidden(resource, name, fmt.Errorf(`User "jane" cannot get resource %q in API group %q in the namespace "team-a"`, resource.Resource, resource.Group))
	}
	for name, row := range map[string]struct {
		get    func(object client.Object, name string) error
		change func(env *environment)
		why    string
	}{
		"Secret forbidden": {
			func(object client.Object, name string) error {
				if _, ok := object.(*corev1.Secret); ok {
					return forbidden(schema.GroupResource{Resource: "secrets"}, name)
				}
				return nil
			}, nil,
			`reading Secret team-a/inputs: secrets "inputs" is forbidden: User "jane" cannot get resource "secrets" in API group "" in the namespace "team-a"`,
		},
		"Workspace forbidden": {
			func(object client.Object, name string) error {
				if object.GetObjectKind().GroupVersionKind().Kind == terraform.WorkspaceKind {
					return forbidden(schema.GroupResource{Group: "tf.m.upbound.io", Resource: "workspaces"}, name)
				}
				return nil
			}, nil,
			`reading Workspace failing: workspaces.tf.m.upbound.io "failing" is forbidden: User "jane" cannot get resource "workspaces" in API group "tf.m.upbound.io" in the namespace "team-a"`,
		},
		"Secret rotated": {nil, func(env *environment) {
			env.objects[len(env.objects)-1].SetCreationTimestamp(metav1.NewTime(fleetNow))
		}, "the Secret team-a/inputs has changed since the error"},
		"Secret deleted": {nil, func(env *environment) { env.objects = env.objects[:len(env.objects)-1] }, "the Secret team-a/inputs has no key a"},
		"another Workspace": {nil, func(env *environment) { env.objects[len(env.objects)-2].SetUID("another") },
			"the Workspace failing does not have this error now"},
	} {
		t.Run(name, func(t *testing.T) {
			env, _ := aFailingWorkspace()
			if row.change != nil {
				row.change(env)
			}
			env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if row.get != nil {
					if err := row.get(object, key.Name); err != nil {
						return err
					}
				}
				return c.Get(ctx, key, object, options...)
			}
			out, _, err := env.run(t, "logs", "wta/team-a/failing")
			require.NoError(t, err)
			assert.Equal(t, "WorkspaceTemplateApply failing (Unknown):\n  Terraform apply failed: first: [redacted] (1 of 2 errors).\n"+
				"  The complete text is not available: "+row.why+".\n", out)
		})
	}
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
		env.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if _, is := object.(*clusterv1.Cluster); is && fails {
				return errors.New("the API server restarts")
			}
			return c.Get(ctx, key, object, options...)
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
