// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/plans"
	"github.com/capt-provider/capt/cmd/captctl/planning/request"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/builder"
)

// planningManager answers each PlanRequest with the same results.
type planningManager struct {
	environment
	results map[string]infrav1.RevisionPreview // By NAMESPACE/NAME of the WorkspaceTemplateApply.
	// hidden is how many more there are, and hiddenChanged for how many of them Terraform would change something.
	hidden, hiddenChanged int32
	silent                bool
	created               []infrav1.PlanRequest
}

func newPlanningManager() *planningManager {
	apply := func(namespace, name, cluster string) client.Object {
		return builder.WorkspaceTemplateApply(name, builder.WithNamespace(namespace), builder.WithLabel("cluster.x-k8s.io/cluster-name", cluster))
	}
	m := &planningManager{results: map[string]infrav1.RevisionPreview{
		"team-a/demo-vpc": {TemplateRevision: contentB, Result: infrav1.PreviewEmpty},
		"team-a/demo-eks": planned(contentB, updatedVPC),
		"team-b/shop-eks": planned(contentB, replacedCluster),
	}}
	m.clock = testclock.NewFakeClock(fleetNow)
	m.objects = []client.Object{apply("team-a", "demo-vpc", "demo"), apply("team-a", "demo-eks", "demo"), apply("team-b", "shop-eks", "shop")}
	m.funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		r := object.(*infrav1.PlanRequest)
		r.UID, r.CreationTimestamp = types.UID(r.Namespace+r.Spec.Template.Name), metav1.NewTime(fleetNow)
		m.created = append(m.created, *r.DeepCopy())
		if !m.silent {
			if err := m.answer(ctx, c, r); err != nil {
				return err
			}
		}
		return c.Create(ctx, r, options...)
	}
	return m
}

func (m *planningManager) answer(ctx context.Context, c client.WithWatch, r *infrav1.PlanRequest) error {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := c.List(ctx, &applies); err != nil {
		return err
	}
	progress := plans.Progress{}
	for i := range applies.Items {
		apply := &applies.Items[i]
		result := m.results[apply.Namespace+"/"+apply.Name]
		plans.Record(apply, nil, r, &result)
		if result.Result == "" {
			apply.Status.Plans = nil
		}
		if err := c.Update(ctx, apply); err != nil {
			return err
		}
		if r.Spec.Template.Name != "" || r.Namespace == apply.Namespace {
			progress.Add(r, apply, "is not adopted")
		}
	}
	r.Status = infrav1.PlanRequestStatus{
		Total: ptr.To(int32(progress.Total) + m.hidden), Planned: ptr.To(int32(progress.Planned)), Changed: ptr.To(int32(len(progress.Changed)) + m.hiddenChanged), Unknown: ptr.To(int32(len(progress.Unknown))),
		Failed: ptr.To(int32(len(progress.Failed))), Unavailable: ptr.To(int32(len(progress.Unavailable))), CompletionTime: ptr.To(metav1.NewTime(fleetNow)),
		Conditions: []metav1.Condition{{Type: infrav1.CompleteCondition, Status: metav1.ConditionTrue, Reason: progress.Reason(), Message: progress.Message()}},
	}
	return nil
}

// plan runs the command, and checks that no request is left.
func (m *planningManager) plan(t *testing.T, arguments ...string) (out, errOut string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			out, errOut, err = m.runIn(t.Context(), t, append([]string{"plan"}, arguments...)...)
		}()
		synctest.Wait()
		m.clock.Step(time.Second)
		<-ended
	})
	if m.connected != nil {
		var left infrav1.PlanRequestList
		require.NoError(t, m.connected.List(t.Context(), &left))
		assert.Empty(t, left.Items)
	}
	return out, errOut, err
}

func TestPlanOfClusters(t *testing.T) {
	m := newPlanningManager()
	out, _, err := m.plan(t, "team-a/demo", "team-b/shop", "--detailed-exitcode")
	assert.Equal(t, migrate.Pending, migrate.OutcomeOf(err))
	assert.Equal(t, strings.TrimLeft(`
Plans:     ~1 -/+1 in total for 2 Workspaces, no changes for 1 Workspace

NAMESPACE   NAME       CLUSTER   CONTENT                 PLAN
team-b      shop-eks   shop      revision bbbbbbbbbbbb   -/+1
team-a      demo-eks   demo      revision bbbbbbbbbbbb   ~1
team-a      demo-vpc   demo      revision bbbbbbbbbbbb   none

team-b/shop-eks: -/+1
  -/+ aws_eks_cluster.this (cannot_update)

team-a/demo-eks: ~1
  ~ module.vpc["a|b"].aws_vpc.this
`, "\n"), out)
	require.Len(t, m.created, 2)
	for _, r := range m.created {
		assert.Equal(t, map[string][]string{"team-a": {"demo-eks", "demo-vpc"}, "team-b": {"shop-eks"}}[r.Namespace], r.Spec.WorkspaceTemplateApplies)
	}

	_, _, err = newPlanningManager().plan(t, "demo", "-n", "team-a")
	require.NoError(t, err)
	_, _, err = newPlanningManager().plan(t, "absent", "-n", "team-a")
	assert.ErrorContains(t, err, "there is no WorkspaceTemplateApply of Cluster absent in namespace team-a")
}

func TestPlanOfAllAsADocument(t *testing.T) {
	m := newPlanningManager()
	m.results["team-a/demo-eks"] = infrav1.RevisionPreview{Result: infrav1.PreviewUnavailable, Message: "paused: Cluster demo"}
	delete(m.results, "team-b/shop-eks")
	out, _, err := m.plan(t, "--all", "-o", "json", "--detailed-exitcode")
	assert.ErrorContains(t, err, "2 Workspaces could not be planned")
	var document request.Document
	require.NoError(t, json.Unmarshal([]byte(out), &document))
	assert.Equal(t, "WorkspacePlans", document.Kind)
	assert.Equal(t, []int{3, 0, 2}, []int{document.Total, document.Changed, document.Unavailable})
	assert.Equal(t, []string{"0 of 1 WorkspaceTemplateApplies have a plan; cannot be planned: team-b/shop-eks (is not adopted)"}, document.Unplanned)
	assert.False(t, document.Destroys)
	for _, r := range m.created {
		assert.Equal(t, infrav1.PlanScopeNamespace, r.Spec.Scope)
	}
	m = newPlanningManager()
	_, _, err = m.plan(t, "--all", "-n", "team-a")
	require.NoError(t, err)
	assert.Len(t, m.created, 1)
}

func TestPlanOfFiles(t *testing.T) {
	m := newPlanningManager()
	m.hidden = 1
	file := written(t, eksTemplate+"---\n"+`{apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: CAPTCluster, metadata: {name: demo, namespace: team-a}, spec: {region: eu-west-1, vpc: {existingID: vpc-1}}}`)
	out, errOut, err := m.plan(t, "-f", file, "-o", "markdown")
	require.NoError(t, err)
	require.Len(t, m.created, 1)
	assert.NotEmpty(t, m.created[0].Spec.Template.Spec.Template.Spec.ForProvider.Module)
	assert.True(t, strings.HasPrefix(out, "### Terraform plan of "+m.created[0].Namespace+"/"+m.created[0].Spec.Template.Name+"\n\n~1 -/+1 in total for 2 Workspaces, no changes for 1 Workspace\n\n3 of 3 WorkspaceTemplateApplies have a plan; Terraform would change: "), out)
	assert.Contains(t, out, "| team-b/shop-eks | shop | revision bbbbbbbbbbbb | `-/+1` |")
	assert.Contains(t, errOut, "CAPTCluster demo is not planned: only the contents of WorkspaceTemplates are")

	m = newPlanningManager()
	m.results["team-a/demo-vpc"] = infrav1.RevisionPreview{Result: infrav1.PreviewFailed, Message: "Unsupported argument"}
	_, _, err = m.plan(t, "-f", file)
	assert.ErrorContains(t, err, "the plan of 1 Workspace fails")
	assert.Equal(t, migrate.Failed, migrate.OutcomeOf(err))
}

// What is not shown may destroy something.
func TestPlansThatMayNotBeReadCountAsDestructive(t *testing.T) {
	for _, changed := range []int32{0, 1} {
		m := newPlanningManager()
		m.results["team-b/shop-eks"] = infrav1.RevisionPreview{TemplateRevision: contentB, Result: infrav1.PreviewEmpty}
		m.hidden, m.hiddenChanged = 1, changed
		out, _, err := m.plan(t, "-f", written(t, eksTemplate), "-o", "json")
		require.NoError(t, err)
		var document request.Document
		require.NoError(t, json.Unmarshal([]byte(out), &document))
		assert.Equal(t, changed > 0, document.Destroys)
	}
}

func TestPlanWithoutAResult(t *testing.T) {
	m := newPlanningManager()
	m.silent = true
	_, _, err := m.plan(t, "--all", "--timeout", "1m")
	assert.ErrorContains(t, err, "CAPT has not begun to plan within 1m0s")

	m = newPlanningManager()
	m.hidden = 2
	create := m.funcs.Create
	m.funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		err := create(ctx, c, object, options...)
		object.(*infrav1.PlanRequest).Status.CompletionTime = nil
		return errors.Join(err, c.Update(ctx, object))
	}
	out, _, err := m.plan(t, "--all", "-n", "team-a", "--timeout", "1m")
	assert.ErrorContains(t, err, "2 of 4 Workspaces had no result within 1m0s")
	assert.Contains(t, out, "~1 for 1 Workspace", "what is known is shown")
}

func TestPlanEndsItsRequestsWhenItIsInterrupted(t *testing.T) {
	m := newPlanningManager()
	m.silent = true
	ctx, interrupt := context.WithCancel(t.Context())
	create := m.funcs.Create
	m.funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
		defer interrupt()
		return create(ctx, c, object, options...)
	}
	_, _, err := m.runIn(ctx, t, "plan", "--all", "-n", "team-a")
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, m.created, 1)
	var left infrav1.PlanRequestList
	require.NoError(t, m.connected.List(t.Context(), &left))
	assert.Empty(t, left.Items)
}

func TestPlanNeedsOneSelection(t *testing.T) {
	for _, arguments := range [][]string{{}, {"demo", "--all"}, {"--all", "-f", "x"}} {
		_, _, err := (&environment{}).run(t, append([]string{"plan"}, arguments...)...)
		assert.ErrorContains(t, err, "name Clusters, or use one of --all and --filename")
	}
}
