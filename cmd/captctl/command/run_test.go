// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/builder"
)

// runner is a manager and a provider: each request ends at once, as row says.
type runner struct {
	environment
	row      builder.Row
	checksum string
	silent   bool
	requests []string
}

func newRunner() *runner {
	r := &runner{row: builder.AtRest, checksum: "planned"}
	r.clock = testclock.NewFakeClock(fleetNow)
	workspace := builder.Workspace("good-eks", builder.AtRest, builder.WithNamespace("team-a"))
	r.objects = append(capt("good", infrav1.StateReady, func(_ *controlplanev1.CAPTControlPlane, apply *infrav1.WorkspaceTemplateApply) {
		builder.WithRecordedWorkspace(workspace)(apply)
		apply.Labels = map[string]string{clusterv1.ClusterNameLabel: "good"}
	}), workspace)
	r.funcs.Patch = func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
		if err := c.Patch(ctx, object, patch, options...); err != nil || r.silent {
			return err
		}
		request := object.GetAnnotations()[naming.RecoveryAnnotation]
		r.requests = append(r.requests, request)
		live := builder.Workspace("good-eks", r.row, builder.WithNamespace("team-a"))
		if err := c.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return err
		}
		done := builder.Workspace("good-eks", r.row, builder.WithNamespace("team-a"), builder.WithAnnotation(naming.RecoveryAnnotation, request))
		if r.checksum != "" {
			if err := unstructured.SetNestedField(done.Object, r.checksum, "status", "atProvider", "checksum"); err != nil {
				return err
			}
		}
		done.SetResourceVersion(live.GetResourceVersion())
		return c.Update(ctx, done)
	}
	return r
}

// after runs a command while the time passes in steps.
func (env *environment) after(t *testing.T, steps []time.Duration, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			out, errOut, err = env.runIn(t.Context(), t, arguments...)
		}()
		for _, step := range steps {
			synctest.Wait()
			env.clock.Step(step)
		}
		<-ended
	})
	return out, errOut, err
}

var aSecond = []time.Duration{time.Second}

func TestRunRequestsOneRunAndWaitsForIt(t *testing.T) {
	for _, row := range []struct {
		of                   builder.Row
		checksum, want, fail string
	}{
		{builder.AtRest, "planned", "NothingToChange", ""},
		{builder.AtRest, "", "Applied", ""},
		{builder.UpdateFailed, "planned", "Failed", "the run of Terraform failed for 1 of 1 Workspace; captctl logs shows the whole error"},
	} {
		r := newRunner()
		r.row, r.checksum = row.of, row.checksum
		out, errOut, err := r.after(t, aSecond, "run", "team-a/good", "-o", "json")
		if row.fail == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, row.fail)
		}
		var list fleet.TerraformRuns
		require.NoError(t, json.Unmarshal([]byte(out), &list))
		require.Len(t, list.Runs, 1)
		assert.Equal(t, row.want, string(list.Runs[0].Result))
		assert.Equal(t, row.fail != "", list.Runs[0].Message != "")
		assert.Empty(t, errOut)
		assert.Equal(t, []string{"Run/" + string(builder.UID(terraform.WorkspaceKind, "good-eks")) + "/1792663200"}, r.requests)
	}
}

func TestRunSaysWhyNothingRuns(t *testing.T) {
	r := newRunner()
	r.objects[0].(*clusterv1.Cluster).Spec.Paused = new(bool)
	*r.objects[0].(*clusterv1.Cluster).Spec.Paused = true
	for _, object := range r.objects {
		if apply, is := object.(*infrav1.WorkspaceTemplateApply); is {
			apply.Status.Conditions = append(apply.Status.Conditions, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue, Reason: "Paused", Message: "paused; clusterctl move would wait"})
		}
	}
	out, _, err := r.after(t, aSecond, "run", "team-a/good")
	require.EqualError(t, err, "no run of Terraform started for 1 of 1 Workspace, see above")
	assert.Equal(t, strings.TrimLeft(`
NAMESPACE   CLUSTER   WORKSPACETEMPLATEAPPLY   RESULT       MESSAGE
team-a      good      good-eks                 NotStarted   the Cluster is paused: captctl resume ends that
`, "\n"), out)
	assert.Empty(t, r.requests)

	r = newRunner()
	_, _, err = r.run(t, "run", "team-a/good", "--only", "vpc")
	require.ErrorContains(t, err, "the Cluster good has no WorkspaceTemplateApply with the role or the name vpc: --only must be one of [vpc controlplane")
	_, _, err = r.run(t, "run", "team-a/good", "--timeout", "0s")
	require.EqualError(t, err, "--timeout must be positive")
	_, _, err = r.run(t, "run", "team-a/nosuch")
	require.ErrorContains(t, err, "there is no Cluster nosuch of CAPT in namespace team-a")
	_, _, err = r.run(t, "run", "a/b/c")
	require.ErrorContains(t, err, "must be CLUSTER or NAMESPACE/CLUSTER")
}

func TestRunEndsAfterItsTimeout(t *testing.T) {
	r := newRunner()
	r.silent = true
	_, _, err := r.after(t, []time.Duration{time.Second, time.Second}, "run", "team-a/good", "--timeout", "10s")
	assert.Equal(t, migrate.TimedOut, migrate.OutcomeOf(err))
	require.ErrorContains(t, err, "the manager has not forwarded the request for 1 of 1 Workspace within 10s")
}

func TestARunCanBeRequestedWithoutTheRightToReadWorkspaces(t *testing.T) {
	r := newRunner()
	r.funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
		if _, is := object.(*unstructured.Unstructured); is {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "workspaces"}, key.Name, nil)
		}
		return c.Get(ctx, key, object, options...)
	}
	_, _, err := r.run(t, "run", "team-a/good", "--only", "controlplane")
	require.ErrorContains(t, err, "you can request the run with --wait=false")
	assert.Empty(t, r.requests)
	r.silent = true
	out, _, err := r.run(t, "run", "team-a/good", "--only", "good-eks", "--wait=false")
	require.NoError(t, err)
	assert.Contains(t, out, "Requested")
	apply := &infrav1.WorkspaceTemplateApply{}
	require.NoError(t, r.connected.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "good-eks"}, apply))
	assert.Contains(t, apply.Annotations[naming.RecoveryAnnotation], "Run/")
}
