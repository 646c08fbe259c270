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
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/cmd/captctl/template"
	"github.com/capt-provider/capt/test/builder"
)

// staging has the template team-a/vpc, whose revision 1 was rolled out and approved by alice, and whose content was edited since. Its users are
// a, the canary, of the Cluster blue, b of the Cluster green, and c of another namespace.
type staging struct {
	*environment
	template *infrav1.WorkspaceTemplate
	a, b, c  *infrav1.WorkspaceTemplateApply
	// one and two are the hashes of the revisions.
	one, two string
}

func newStaging() *staging {
	s := &staging{environment: &environment{}}
	s.template = builder.WorkspaceTemplate("vpc", builder.WithNamespace("team-a"), builder.WithModule("# one\n# common"), builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.AllowedNamespaces.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"vpcs": "shared"}}
		template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{
			Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways,
			Canary: infrav1.RolloutCanaries{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "canary"}}},
		}
	}), builder.WithAnnotation(naming.ApprovedByAnnotation, "alice"), builder.WithAnnotation(naming.ApprovedAtAnnotation, "2026-10-22T09:00:00Z"))
	s.one = rollout.HashOf(s.template)
	builder.WithAnnotation(naming.ApproveAnnotation, s.one)(s.template)
	s.store(1)
	builder.WithModule("# two\n# common")(s.template)
	s.two = rollout.HashOf(s.template)
	s.template.Status.Rollout = infrav1.WorkspaceTemplateRolloutStatus{
		Revision: s.two, Number: 2, Stage: infrav1.RolloutWaitingForApproval, StartTime: ptr.To(before(10)), Waiting: ptr.To[int32](3),
	}
	s.condition(infrav1.RolloutWaitingReason, "0 of 3 users have revision "+s.two[:12]+". The revision is not approved")
	s.a, s.b, s.c = s.user("team-a", "a", "blue"), s.user("team-a", "b", "green"), s.user("team-b", "c", "")
	foreign := s.user("team-c", "foreign", "")
	stranger := namespace("team-b")
	stranger.Labels = map[string]string{"vpcs": "shared"}
	s.objects = append(s.objects, namespace("team-a"), namespace("team-c"), stranger, s.template, s.a, s.b, s.c, foreign,
		builder.Cluster("blue", builder.WithNamespace("team-a"), builder.WithLabel("stage", "canary")), builder.Cluster("green", builder.WithNamespace("team-a")))
	return s
}

// store stores the current content as a revision.
func (s *staging) store(number int64) {
	revision := rollout.History(nil).Record(s.template)
	revision.Number, revision.RolledOut = number, true
	object, err := revision.Object(s.template)
	if err != nil {
		panic(err)
	}
	object.CreationTimestamp = before(60)
	s.objects = append(s.objects, object)
}

func (s *staging) condition(reason, message string) {
	s.template.Status.Conditions = []metav1.Condition{{Type: infrav1.RollingOutCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message}}
}

// user uses the template, with revision 1.
func (s *staging) user(namespace, name, cluster string) *infrav1.WorkspaceTemplateApply {
	return builder.WorkspaceTemplateApply(name, builder.WithNamespace(namespace), builder.WithWorkspaceName(name), builder.WithLabel(clusterv1.ClusterNameLabel, cluster),
		builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.TemplateRef = infrav1.WorkspaceTemplateReference{Namespace: "team-a", Name: "vpc"}
			apply.Spec.TemplateRevision = s.one
			apply.Status.WorkspaceRef = &infrav1.WorkspaceReference{Name: name}
			apply.Status.TemplateRevision, apply.Status.WrittenTemplateRevision, apply.Status.ObservedGeneration = s.one, s.one, 1
			apply.Status.Conditions = readyCondition(metav1.ConditionTrue, infrav1.UpToDateReason, "")
		}))
}

// fail makes Terraform fail for the canary with revision 2, which stops the rollout.
func (s *staging) fail() {
	builder.WithAnnotation(naming.ApproveAnnotation, s.two)(s.template)
	s.a.Spec.TemplateRevision, s.a.Status.WrittenTemplateRevision, s.a.Status.FailedTemplateRevision = s.two, s.two, s.two
	s.a.Status.Conditions = readyCondition(metav1.ConditionFalse, infrav1.ApplyFailedReason, "AccessDenied:\nnot allowed")
	s.template.Status.Rollout.Stage = infrav1.RolloutCanary
	s.condition(infrav1.RolloutStoppedReason, "failed: team-a/a")
}

// stored returns the template after a command.
func (s *staging) stored(t *testing.T) *infrav1.WorkspaceTemplate {
	t.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(t, s.connected.Get(t.Context(), client.ObjectKeyFromObject(s.template), template))
	return template
}

// forbid makes the API server refuse to list objects of a type.
func forbid[T client.ObjectList](s *staging, when func(*client.ListOptions) bool) {
	s.funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		if _, is := list.(T); is && when((&client.ListOptions{}).ApplyOptions(options)) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil)
		}
		return c.List(ctx, list, options...)
	}
}

// No approval helps.
func TestTemplateStatusShowsWhatNoApprovalContinues(t *testing.T) {
	for want, change := range map[string]func(s *staging){
		"Change what the message names": func(s *staging) {
			s.template.Status.Conditions = append(s.template.Status.Conditions, metav1.Condition{Type: infrav1.ValidCondition, Reason: infrav1.WriteRefusedReason, Message: "revisions are denied"})
		},
		"kubectl edit workspacetemplate -n team-a vpc": func(s *staging) {
			s.condition(infrav1.RolloutWaitingReason, "Terraform would destroy aws_vpc, which spec.rollout.neverDestroy does not allow")
		},
	} {
		s := newStaging()
		change(s)
		out, _, err := s.run(t, "template", "status", "vpc", "-n", "team-a")
		require.NoError(t, err)
		assert.Contains(t, out, want)
		assert.NotContains(t, out, "captctl template approve")
	}
}

func TestTemplateStatusShowsWhatARolloutWaitsFor(t *testing.T) {
	s := newStaging()
	out, errOut, err := s.run(t, "template", "status", "vpc", "-n", "team-a")
	require.NoError(t, err)
	assert.Empty(t, errOut)
	want := strings.NewReplacer("<one>", s.one[:12], "<two>", s.two[:12], "<whole two>", s.two).Replace(strings.TrimLeft(`
Template:  team-a/vpc
Strategy:  Staged
Revision:  2 (<two>)
Stage:     WaitingForApproval (started 10m ago)
Approved:  no
Users:     3 Waiting

0 of 3 users have revision <two>. The revision is not approved

Next step: See what the revision changes, and approve it, or roll back.
  captctl template approve team-a/vpc --revision <whole two>
  captctl template rollback team-a/vpc

NAMESPACE   NAME   CLUSTER   STATE     REVISION   CANARY   PLAN   MESSAGE
team-a      a      blue      Waiting   1          yes      -      -
team-a      b      green     Waiting   1          -        -      -
team-b      c      -         Waiting   1          -        -      -

REVISION   HASH           AGE   USERS   APPROVED           NOTES
2          <two>   -     0       -                  current content
1          <one>   60m   3       alice, 60m ago   for new users
`, "\n"))
	assert.Equal(t, strings.Fields(want), strings.Fields(out), out)
}

// The canary was assigned the revision three hours ago, and nothing reports that it fails.
func TestTemplateStatusShowsUsersThatDoNotFinish(t *testing.T) {
	s := newStaging()
	s.fail()
	s.a.Status.FailedTemplateRevision = ""
	s.a.Status.Assignment = infrav1.RevisionAssignment{TemplateRevision: s.two, Time: ptr.To(before(180))}
	out, _, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, out, "Stage:     Canary, stopped (started 10m ago)\n")
	assert.Contains(t, out, "Users:     1 Stalled, 2 Waiting\n")
	assert.Contains(t, out, "continue without them.\n  captctl logs team-a/blue\n")
	out, _, err = s.run(t, "template", "resume", "team-a/vpc")
	require.ErrorContains(t, err, "add --yes")
	assert.Contains(t, out, "stalled: team-a/a; waiting: team-a/b, team-b/c. The rollout stopped because users have not finished the update within 2 hours")

	_, _, err = s.run(t, "template", "resume", "team-a/vpc", "--yes")
	require.NoError(t, err)
	assert.Equal(t, s.two, s.stored(t).Annotations[naming.ResumeAnnotation])
	s.objects = []client.Object{s.stored(t)}
	out, _, err = s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Regexp(t, `team-a +a +blue +Stalled,left behind +2 +yes`, out)
}

func TestTemplateStatusShowsFailuresAndHowToContinue(t *testing.T) {
	s := newStaging()
	s.fail()
	builder.Paused()(s.b)
	out, _, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, out, "Stage:     Canary, stopped by a failure (started 10m ago)\n")
	assert.Contains(t, out, "Approved:  alice, 60m ago\n")
	assert.Contains(t, out, "Users:     1 Failed, 2 Waiting\n")
	assert.Contains(t, out, "  captctl logs team-a/blue\n  captctl template rollback team-a/vpc\n  captctl template resume team-a/vpc\n")
	assert.Regexp(t, `team-a +a +blue +Failed +2 +yes +- +ApplyFailed: AccessDenied: not allowed`, out)
	assert.Regexp(t, `team-a +b +green +Waiting,paused +1`, out)

	out, _, err = s.run(t, "template", "status", "team-a/vpc", "-o", "json")
	require.NoError(t, err)
	var status rollout.Status
	require.NoError(t, json.Unmarshal([]byte(out), &status))
	assert.Equal(t, infrav1.RolloutCanary, status.Stage)
	assert.Equal(t, infrav1.RolloutStoppedReason, status.Reason)
	assert.Equal(t, map[rollout.UserState]int{rollout.UserFailed: 1, rollout.UserWaiting: 2}, status.Counts)
	assert.Equal(t, &rollout.Approval{By: "alice", At: "2026-10-22T09:00:00Z"}, status.Approval)
	assert.True(t, status.Revisions[0].Target)
	assert.Equal(t, s.two, status.Users[0].Assigned)
}

func TestTemplateStatusOfEachState(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*staging)
		want   []string
	}{
		"paused": {func(s *staging) {
			s.template.Spec.Rollout.State, s.template.Status.Rollout.Stage = infrav1.RolloutPaused, infrav1.RolloutRemaining
		}, []string{"Stage:     Remaining, paused", "captctl template resume team-a/vpc"}},
		"soaking": {func(s *staging) {
			s.template.Status.Rollout.Stage, s.template.Status.Rollout.SoakUntil = infrav1.RolloutSoaking, ptr.To(metav1.NewTime(fleetNow.Add(20*time.Minute)))
		}, []string{"Stage:     Soaking, for another 20m"}},
		"not observed": {func(s *staging) { s.template.Status.Rollout.Revision = s.one }, []string{"Next step: The manager has not observed the current content yet."}},
		"without a staged rollout": {func(s *staging) {
			s.template.Spec.Rollout, s.template.Status.Revision = infrav1.WorkspaceTemplateRollout{}, s.two
			s.b.Status.TemplateRevision, s.b.Status.WrittenTemplateRevision, s.b.Spec.TemplateRevision = s.two, s.two, ""
		}, []string{"Strategy:  Immediate: edits reach all users at once\nRevision:  " + "<two>" + "\nUsers:     2 Updating, 1 Current\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaging()
			row.change(s)
			out, _, err := s.run(t, "template", "status", "team-a/vpc")
			require.NoError(t, err)
			for _, want := range row.want {
				assert.Contains(t, out, strings.ReplaceAll(want, "<two>", s.two[:12]))
			}
		})
	}
}

// A template cannot be deleted while a user remains, also one that is being deleted itself.
func TestTemplateStatusShowsUsersThatAreBeingDeleted(t *testing.T) {
	s := newStaging()
	for _, user := range []*infrav1.WorkspaceTemplateApply{s.a, s.b, s.c} {
		user.DeletionTimestamp, user.Finalizers = ptr.To(before(1)), []string{infrav1.WorkspaceTemplateApplyFinalizer}
	}
	out, _, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Regexp(t, `Users: +3 being deleted \(team-a/a, team-a/b, team-b/c\)\n`, out)
	out, _, err = s.run(t, "template", "status", "team-a/vpc", "-o", "json")
	require.NoError(t, err)
	var status rollout.Status
	require.NoError(t, json.Unmarshal([]byte(out), &status))
	assert.Equal(t, []string{"team-a/a", "team-a/b", "team-b/c"}, status.Deleting)
	assert.Empty(t, status.Users)
}

func TestTemplateStatusShowsThatTheTemplateIsBeingDeleted(t *testing.T) {
	s := newStaging()
	s.template.DeletionTimestamp, s.template.Finalizers = ptr.To(before(5)), []string{infrav1.WorkspaceTemplateFinalizer}
	out, _, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Regexp(t, `Deletion: +requested 5m ago; waits for 3 users\n`, out)
	assert.Contains(t, out, "The template is being deleted, which cannot be reverted")
	assert.NotContains(t, out, "The manager has not observed")
}

func TestTemplateStatusShowsWhatTheUserMayRead(t *testing.T) {
	s := newStaging()
	forbid[*appsv1.ControllerRevisionList](s, func(*client.ListOptions) bool { return true })
	out, errOut, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, errOut, "Warning: stored revisions are not shown: listing the revisions of WorkspaceTemplate team-a/vpc: things is forbidden")
	assert.Contains(t, out, "Revision:  2 ("+s.two[:12]+")")
	assert.NotContains(t, out, "NOTES")
	_, _, err = s.run(t, "template", "pause", "team-a/vpc")
	require.ErrorContains(t, err, "things is forbidden: <nil>; ask for a role that grants this")

	s = newStaging()
	forbid[*infrav1.WorkspaceTemplateApplyList](s, func(options *client.ListOptions) bool { return options.Namespace == "" })
	out, errOut, err = s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.Contains(t, errOut, "Warning: users in other namespaces than team-a are not shown")
	assert.Contains(t, out, "Users:     2 Waiting\n")

	_, _, err = newStaging().run(t, "template", "status", "nothing")
	require.EqualError(t, err, "there is no WorkspaceTemplate nothing in namespace default; captctl template list lists all")
	_, _, err = newStaging().run(t, "template", "status", "a/b/c")
	assert.EqualError(t, err, `"a/b/c": must be NAME or NAMESPACE/NAME`)
}

func TestAShellCompletesTemplatesAndRevisions(t *testing.T) {
	s := newStaging()
	for want, arguments := range map[string][]string{
		"team-a/vpc\n:4\n":              {"status", ""},
		"1\t" + s.one[:12] + "\n:4\n":   {"approve", "team-a/vpc", "--revision", ""},
		"none\nserver\n:4\n":            {"pause", "team-a/vpc", "--dry-run="},
		":4\n":                          {"rollback", "nothing", "--to-revision", ""},
		"table\nwide\njson\nyaml\n:4\n": {"status", "team-a/vpc", "-o", ""},
	} {
		out, _, err := s.run(t, append([]string{"__complete", "template"}, arguments...)...)
		require.NoError(t, err)
		assert.Equal(t, want, out)
	}
}

func TestARolloutWhosePlanFailsIsNotApproved(t *testing.T) {
	s := newStaging()
	s.template.Spec.Rollout.Preview = infrav1.RolloutPreviewAlways
	s.b.Status.Preview = infrav1.RevisionPreview{TemplateRevision: s.two, Result: infrav1.PreviewFailed, Message: "AccessDenied: no plan"}
	s.condition(infrav1.RolloutStoppedReason, "failed: team-a/b")
	out, _, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.NotContains(t, out, "template approve")
	assert.Contains(t, out, "See why the revision cannot be planned. Then edit the template again, roll back, or continue although the plan fails.\n"+
		"  captctl template plan team-a/vpc\n  captctl template rollback team-a/vpc\n  captctl template resume team-a/vpc\n")
	assert.Regexp(t, `team-a +b +green +Failed +1 +- +failed +PlanFailed: AccessDenied: no plan`, out)

	s.condition(infrav1.RolloutWaitingReason, "the plan fails for team-a/b")
	out, _, err = s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.NotContains(t, out, "template approve", "with onFailure: Continue")
}

func TestACompleteRolloutIsNotUnapproved(t *testing.T) {
	s := newStaging()
	s.template.Status.Rollout.Stage = infrav1.RolloutComplete
	out, _, err := s.run(t, "template", "status", "team-a/vpc")
	require.NoError(t, err)
	assert.NotContains(t, out, "Approved:")
}

func TestWatchingARolloutEndsWhenItIsComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStaging()
		s.clock = testclock.NewFakeClock(fleetNow)
		ended := make(chan string)
		go func() {
			out, _, err := s.run(t, "template", "status", "team-a/vpc", "--watch")
			assert.NoError(t, err)
			ended <- out
		}()
		synctest.Wait()
		template := s.stored(t)
		template.Status.Rollout.Stage = infrav1.RolloutComplete
		require.NoError(t, s.connected.Update(t.Context(), template))
		for range 2 {
			s.clock.Step(2 * time.Second)
			synctest.Wait()
		}
		assert.Contains(t, <-ended, "Stage:     Complete")
	})
}

func TestTemplateListShowsWhatNeedsAnActionFirst(t *testing.T) {
	s := newStaging()
	ready := builder.WorkspaceTemplate("eks", builder.WithNamespace("team-a"))
	ready.CreationTimestamp, ready.Status.Users = before(90), ptr.To[int32](4)
	s.template.CreationTimestamp, s.template.Status.Users, s.template.Status.OutdatedUsers = before(60), ptr.To[int32](3), ptr.To[int32](2)
	s.objects = append(s.objects, ready)
	out, _, err := s.run(t, "template", "list")
	require.NoError(t, err)
	assert.Equal(t, strings.ReplaceAll(strings.TrimLeft(`
NAMESPACE   NAME   STRATEGY    REVISION   STAGE                USERS   OUTDATED   AGE   MESSAGE
team-a      vpc    Staged      2          WaitingForApproval   3       2          60m   0 of 3 users have revision <two>. The revision is not approved
team-a      eks    Immediate   -          -                    4       0          90m   -

2 WorkspaceTemplates
Needs action: team-a/vpc
`, "\n"), "<two>", s.two[:12]), out)

	out, _, err = s.run(t, "template", "list", "-n", "team-b")
	require.NoError(t, err)
	assert.Contains(t, out, "There are no WorkspaceTemplates in namespace team-b.")
	out, _, err = s.run(t, "template", "list", "-o", "json")
	require.NoError(t, err)
	var list template.List
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	assert.Equal(t, "TemplateList", list.Kind)
	assert.True(t, list.Templates[1].NeedsAction)
}
