// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/test/builder"
)

// staging is a template with a staged rollout and its users.
type staging struct {
	*testing.T
	*Reconciler
	clock *builder.Clock
}

func newStaging(t *testing.T, policy infrav1.WorkspaceTemplateRollout, users ...client.Object) *staging {
	t.Helper()
	policy.Strategy = infrav1.RolloutStaged
	template := builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer), builder.WithModule("# 1"),
		builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout = policy }))
	clock := builder.NewClock()
	r := newEnvironment(t, append(users, template)...)
	r.Clock = clock
	return &staging{t, r, clock}
}

func user(name string, options ...builder.Option) client.Object {
	return builder.WorkspaceTemplateApply(name, append(options, builder.WithWorkspaceName(name), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.WorkspaceRef, apply.Status.TemplateRevision = &infrav1.WorkspaceReference{Name: name}, "older"
	}))...)
}

// reconcile returns the template after a reconcile, and how long that wants to wait.
func (s *staging) reconcile() (*infrav1.WorkspaceTemplate, time.Duration) {
	s.Helper()
	template := &infrav1.WorkspaceTemplate{}
	key := client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}
	result, err := s.Reconcile(s.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(s, err)
	require.NoError(s, s.Client.Get(s.Context(), key, template))
	return template, result.RequeueAfter
}

// settle reconciles until nothing changes.
func (s *staging) settle() *infrav1.WorkspaceTemplate {
	s.Helper()
	s.reconcile()
	template, _ := s.reconcile()
	return template
}

func (s *staging) edit(change func(*infrav1.WorkspaceTemplate)) {
	s.Helper()
	template, _ := s.reconcile()
	change(template)
	require.NoError(s, s.Client.Update(s.Context(), template))
}

func module(text string) func(*infrav1.WorkspaceTemplate) {
	return func(template *infrav1.WorkspaceTemplate) { builder.WithModule(text)(template) }
}

func (s *staging) users() (users []infrav1.WorkspaceTemplateApply) {
	s.Helper()
	var list infrav1.WorkspaceTemplateApplyList
	require.NoError(s, s.Client.List(s.Context(), &list))
	return list.Items
}

// assigned lists the users with a revision.
func (s *staging) assigned(revision string) string {
	s.Helper()
	var names []string
	for _, user := range s.users() {
		if user.Spec.TemplateRevision == revision {
			names = append(names, user.Name)
		}
	}
	return strings.Join(names, " ")
}

// apply makes Terraform apply the assigned revisions of users.
func (s *staging) apply(names ...string) {
	s.Helper()
	for _, user := range s.users() {
		for _, name := range names {
			if user.Name != name {
				continue
			}
			revision := user.Spec.TemplateRevision
			user.Status.WrittenTemplateRevision, user.Status.TemplateRevision, user.Status.ObservedGeneration = revision, revision, user.Generation
			user.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, Reason: infrav1.UpToDateReason, LastTransitionTime: metav1.NewTime(s.clock.Now())}}
			require.NoError(s, s.Client.Update(s.Context(), &user))
		}
	}
}

func TestARolloutFromTheFirstToTheLastStage(t *testing.T) {
	canaries := infrav1.RolloutCanaries{Count: 1, SoakSeconds: 60}
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{MaxConcurrent: 1, Canary: canaries}, user("a"), user("b"), user("c"))
	first := s.settle().Status.Rollout
	assert.Equal(t, int64(1), first.Number)
	assert.Equal(t, infrav1.RolloutCanary, first.Stage)
	assert.Equal(t, "a", s.assigned(first.Revision))

	s.apply("a")
	template, wait := s.reconcile()
	assert.Equal(t, infrav1.RolloutSoaking, template.Status.Rollout.Stage)
	assert.InDelta(t, 60, wait.Seconds(), 1)
	assert.WithinDuration(t, s.clock.Now().Add(time.Minute), template.Status.Rollout.SoakUntil.Time, time.Second)
	s.clock.Pass(time.Minute)
	assert.Equal(t, infrav1.RolloutRemaining, s.settle().Status.Rollout.Stage)
	assert.Equal(t, "a b", s.assigned(first.Revision))
	s.apply("b")
	s.settle()
	assert.Equal(t, "a b c", s.assigned(first.Revision))
	s.apply("c")
	template = s.settle()
	assert.Equal(t, infrav1.WorkspaceTemplateRolloutStatus{
		Revision: rollout.HashOf(template), Number: 1, Stage: infrav1.RolloutComplete, StartTime: first.StartTime,
		Current: ptr.To(int32(3)), Updating: ptr.To(int32(0)), Waiting: ptr.To(int32(0)), Failed: ptr.To(int32(0)), Stalled: ptr.To(int32(0)), LeftBehind: ptr.To(int32(0)),
	}, template.Status.Rollout)
	assert.Equal(t, "False RolledOut", builder.ConditionSummary(template.Status.Conditions)["RollingOut"])

	require.NoError(t, s.Client.Create(t.Context(), builder.WorkspaceTemplateApply("new", builder.WithResourceVersion(""))))
	s.edit(module("# 2"))
	template = s.settle()
	assert.Equal(t, int64(2), template.Status.Rollout.Number)
	assert.Equal(t, "a", s.assigned(template.Status.Rollout.Revision), "canaries first")
	assert.Equal(t, "b c new", s.assigned(first.Revision), "a new user gets what was rolled out")

	s.edit(module("# 1")) // A rollback.
	template = s.settle()
	assert.Equal(t, int64(3), template.Status.Rollout.Number)
	assert.Equal(t, first.Revision, template.Status.Rollout.Revision)
	assert.Equal(t, "a b c new", s.assigned(first.Revision))
}

// The results are in the status of the users.
func TestPreviewsDecideWhoFollows(t *testing.T) {
	policy := infrav1.WorkspaceTemplateRollout{Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges}
	s := newStaging(t, policy, user("a"), user("b"), user("c"))
	revision := s.settle().Status.Rollout.Revision
	assert.Equal(t, infrav1.RolloutPreviewing, s.settle().Status.Rollout.Stage)
	for i, result := range []infrav1.PreviewResult{infrav1.PreviewEmpty, infrav1.PreviewChanges} {
		preview := s.users()[i]
		preview.Status.Preview = infrav1.RevisionPreview{TemplateRevision: revision, Result: result}
		require.NoError(t, s.Client.Update(t.Context(), &preview))
	}
	template := s.settle()
	assert.Equal(t, "a", s.assigned(revision))
	assert.Equal(t, infrav1.RolloutPreviewing, template.Status.Rollout.Stage, "c has no result")
	assert.Equal(t, []int32{1, 1, 0}, []int32{*template.Status.Rollout.PreviewedEmpty, *template.Status.Rollout.PreviewedChanges, *template.Status.Rollout.PreviewFailed})

	was := user("a").(*infrav1.WorkspaceTemplateApply)
	is := was.DeepCopy()
	is.Status.Preview = infrav1.RevisionPreview{TemplateRevision: revision, Result: infrav1.PreviewEmpty}
	queue := &delayed{}
	countLater(t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: is}, queue)
	assert.Equal(t, 1, queue.added, "also of a user without an assignment")
}

// At rest nothing is written, although each reconcile decides again.
func TestARolloutAtRestWritesNothing(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}, user("a"), user("b"))
	before := s.settle()
	assert.Equal(t, infrav1.RolloutWaitingForApproval, before.Status.Rollout.Stage)
	condition := meta.FindStatusCondition(before.Status.Conditions, infrav1.RollingOutCondition)
	assert.Equal(t, infrav1.RolloutWaitingReason, condition.Reason)
	assert.Contains(t, condition.Message, "0 of 2 users have revision "+before.Status.Rollout.Revision[:12]+"; waiting: default/a, default/b. The revision is not approved")
	s.clock.Pass(time.Hour)
	after := s.settle()
	assert.Equal(t, before.ResourceVersion, after.ResourceVersion)
	for _, user := range s.users() {
		assert.Equal(t, "999", user.ResourceVersion)
	}
}

func TestTheApprovedRevisionIsRolledOut(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}, user("a"))
	revision := s.settle().Status.Rollout.Revision
	s.edit(func(template *infrav1.WorkspaceTemplate) {
		template.Annotations = map[string]string{naming.ApproveAnnotation: revision, naming.ApprovedByAnnotation: "alice"}
	})
	assert.Equal(t, "alice", s.settle().Status.Rollout.ApprovedBy)
	assert.Equal(t, "a", s.assigned(revision))
	s.edit(module("# 2"))
	template := s.settle()
	assert.Equal(t, infrav1.RolloutWaitingForApproval, template.Status.Rollout.Stage)
	assert.Empty(t, template.Status.Rollout.ApprovedBy, "another content was approved")
	assert.Empty(t, s.assigned(template.Status.Rollout.Revision))
	for hash, by := range map[string]string{revision: "alice", template.Status.Rollout.Revision: ""} {
		stored := &appsv1.ControllerRevision{}
		require.NoError(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: naming.TemplateRevision("vpc", hash)}, stored))
		assert.Equal(t, by, stored.Annotations[naming.ApprovedByAnnotation], "the record stays with its revision")
	}
}

func TestCanariesAreSelectedByLabelsOfTheirClusters(t *testing.T) {
	of := func(cluster string) builder.Option { return builder.WithLabel(clusterv1.ClusterNameLabel, cluster) }
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Canary: infrav1.RolloutCanaries{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "yes"}}}},
		user("a", of("one")), user("b", of("two")), user("c"), user("d", of("missing")), builder.Cluster("one"), builder.Cluster("two", builder.WithLabel("canary", "yes")))
	assert.Equal(t, "b", s.assigned(s.settle().Status.Rollout.Revision))
	assert.Equal(t, []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}}}, s.ofCluster(t.Context(), builder.Cluster("one")))
}

func TestUsersFollowAtOnceWhenThePolicyIsRemoved(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{MaxConcurrent: 1}, user("a"), user("b", builder.Paused()))
	assert.Equal(t, "a", s.assigned(s.settle().Status.Rollout.Revision))
	s.edit(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{} })
	assert.Equal(t, infrav1.WorkspaceTemplateRolloutStatus{}, s.settle().Status.Rollout)
	assert.Equal(t, "a b", s.assigned(""))
}

// Users that CAPT v0.3 created stay as it wrote them until they are adopted.
func TestAUserThatAwaitsAdoptionIsNotWritten(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{}, builder.WorkspaceTemplateApply("a", builder.WithFinalizers(infrav1.LegacyWorkspaceTemplateApplyFinalizer)))
	s.settle()
	assert.Equal(t, "a", s.assigned(""))
}

func TestOldRevisionsAreDeleted(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{State: infrav1.RolloutPaused}, user("a"))
	for i := range 13 {
		s.edit(module(fmt.Sprint("# ", i)))
	}
	s.settle()
	var list appsv1.ControllerRevisionList
	require.NoError(t, s.Client.List(t.Context(), &list))
	assert.Len(t, list.Items, 10)
}

func TestTheTemplateOfAUserIsReconciledWhenItsRolloutMayContinue(t *testing.T) {
	was := user("a", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.TemplateRevision, apply.Annotations = "new", map[string]string{"large": "text"}
	})).(*infrav1.WorkspaceTemplateApply)
	for name, row := range map[string]struct {
		change func(*infrav1.WorkspaceTemplateApply)
		want   int
	}{
		"written": {func(apply *infrav1.WorkspaceTemplateApply) { apply.Status.WrittenTemplateRevision = "new" }, 1},
		"Ready": {func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.ObservedGeneration = apply.Generation
			apply.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(builder.Created)}}
		}, 1},
		"outputs": {func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Status.Outputs, apply.ResourceVersion = map[string]string{"a": "b"}, "2"
		}, 0},
		"fewer annotations": {func(apply *infrav1.WorkspaceTemplateApply) { apply.Annotations = map[string]string{} }, 1},
		"without an assignment": {func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.TemplateRevision, apply.Status.WrittenTemplateRevision = "", "new"
		}, 0},
		"without an assignment, paused": {func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.TemplateRevision = ""
			apply.Status.Conditions = []metav1.Condition{{Type: clusterv1.PausedCondition, Status: metav1.ConditionTrue}}
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			is := was.DeepCopy()
			row.change(is)
			queue := &delayed{}
			countLater(t.Context(), event.UpdateEvent{ObjectOld: was, ObjectNew: is}, queue)
			assert.Equal(t, row.want, queue.added)
		})
	}
}

// delayed counts what is added to a queue with a delay.
type delayed struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]
	added int
}

func (d *delayed) AddAfter(ctrl.Request, time.Duration) { d.added++ }

// A manager that ends between two writes leaves nothing that another one does not complete.
func TestARolloutContinuesAfterAnyWriteThatFails(t *testing.T) {
	for failing := range 7 {
		s := newStaging(t, infrav1.WorkspaceTemplateRollout{MaxConcurrent: 1}, user("a"), user("b"))
		reliable, writes := s.Client.(client.WithWatch), 0
		write := func(do func() error) error {
			if writes++; writes == failing+1 {
				return assert.AnError
			}
			return do()
		}
		s.Client = interceptor.NewClient(reliable, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				return write(func() error { return c.Create(ctx, object, options...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
				return write(func() error { return c.Patch(ctx, object, patch, options...) })
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
				return write(func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
			},
		})
		request := ctrl.Request{NamespacedName: client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}}
		for range 8 {
			_, _ = s.Reconcile(t.Context(), request)
			target := rollout.HashOf(builder.WorkspaceTemplate("vpc", builder.WithModule("# 1")))
			before := s.Client
			s.Client = reliable
			names := strings.Fields(s.assigned(target))
			s.apply(names...)
			s.Client = before
		}
		assert.Greater(t, writes, failing, "no write failed")
		s.Client = reliable
		template := s.settle()
		assert.Equal(t, infrav1.RolloutComplete, template.Status.Rollout.Stage, "write %d failed", failing)
		assert.Equal(t, "a b", s.assigned(template.Status.Rollout.Revision))
	}
}

func TestTheDefaultPolicyAppliesToTemplatesWithoutOne(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{}, user("a"))
	s.DefaultRollout = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways}
	assert.Empty(t, s.settle().Status.Rollout.DefaultPolicy, "the template has a policy")
	s.edit(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout = infrav1.WorkspaceTemplateRollout{} })
	s.edit(module("# 2"))
	template := s.settle()
	assert.Equal(t, infrav1.RolloutWaitingForApproval, template.Status.Rollout.Stage)
	assert.Equal(t, s.DefaultRollout, template.Status.Rollout.DefaultPolicy)
	assert.Equal(t, s.DefaultRollout, template.RolloutPolicy())
	assert.Empty(t, template.Spec.Rollout, "it is not written")

	s.edit(func(template *infrav1.WorkspaceTemplate) { template.Spec.Rollout.Strategy = infrav1.RolloutImmediate })
	template = s.settle()
	assert.Empty(t, template.Status.Rollout, "a template can opt out")
	assert.Equal(t, infrav1.RolloutImmediate, template.RolloutPolicy().Strategy)
}

func TestStagesAndApprovalsAreEvents(t *testing.T) {
	before, after := builder.WorkspaceTemplate("vpc"), builder.WorkspaceTemplate("vpc")
	reasons := func() (list []string) {
		for _, event := range stageEvents(before, after) {
			list = append(list, event.Reason+": "+event.Message)
		}
		return list
	}
	assert.Empty(t, reasons())
	after.Status.Rollout = infrav1.WorkspaceTemplateRolloutStatus{Revision: "2", Stage: infrav1.RolloutCanary, ApprovedBy: "alice"}
	assert.Equal(t, []string{"RolloutApproved: revision 2 was approved by alice", "RolloutStage: the rollout of revision 2 is at stage Canary"}, reasons())
	after.DeepCopyInto(before)
	after.Status.Rollout.LeftBehind = ptr.To(int32(1))
	assert.Equal(t, []string{"RolloutLeftBehind: the rollout of revision 2 does not wait for 1 users any more: see condition RollingOut"}, reasons())
	after.DeepCopyInto(before)
	after.Status.Rollout.Stage = infrav1.RolloutComplete
	assert.Empty(t, reasons(), "the condition reports it")
}
