// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

func approving(revision string) func(*infrav1.WorkspaceTemplate) {
	return func(template *infrav1.WorkspaceTemplate) {
		template.Annotations = map[string]string{naming.ApproveAnnotation: revision, naming.ApprovedByAnnotation: "alice"}
	}
}

func TestTheApprovalOfOneContentIsNotThatOfAnotherWithTheSameBeginningOfTheHash(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}, user("a"))
	s.edit(module(builder.Harmless))
	approved := s.settle().Status.Rollout.Revision
	s.edit(approving(approved))
	s.settle()
	assert.Equal(t, "a", s.assigned(approved))
	s.apply("a")

	s.edit(module(builder.Harmful))
	template := s.settle()
	assert.Equal(t, builder.Short(approved), builder.Short(rollout.HashOf(template)))
	assert.Equal(t, infrav1.RolloutWaitingForApproval, template.Status.Rollout.Stage)
	assert.Equal(t, "a", s.assigned(approved))
}

func (s *staging) revisions() []appsv1.ControllerRevision {
	s.Helper()
	var list appsv1.ControllerRevisionList
	require.NoError(s, s.Client.List(s.Context(), &list))
	return list.Items
}

// downgrade changes what is stored to what an earlier version would have stored.
func (s *staging) downgrade() {
	s.Helper()
	for _, revision := range s.revisions() {
		require.NoError(s, s.Client.Delete(s.Context(), revision.DeepCopy()))
		require.NoError(s, s.Client.Create(s.Context(), builder.StoredEarlier(&revision)))
	}
	for _, user := range s.users() {
		builder.RecordedEarlier(&user)
		require.NoError(s, s.Client.Update(s.Context(), &user))
	}
	template := s.template()
	template.Status.Revision, template.Status.Rollout.Revision = builder.Short(template.Status.Revision), builder.Short(template.Status.Rollout.Revision)
	require.NoError(s, s.Client.Status().Update(s.Context(), template))
	if approved := template.Annotations[naming.ApproveAnnotation]; approved != "" {
		template.Annotations[naming.ApproveAnnotation] = builder.Short(approved)
		require.NoError(s, s.Client.Update(s.Context(), template))
	}
}

func (s *staging) template() *infrav1.WorkspaceTemplate {
	s.Helper()
	template := &infrav1.WorkspaceTemplate{}
	require.NoError(s, s.Client.Get(s.Context(), client.ObjectKey{Namespace: builder.Namespace, Name: "vpc"}, template))
	return template
}

func TestARolloutThatWasCompleteRemainsCompleteAfterAnUpgrade(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}, user("a"), user("b"))
	first := s.settle().Status.Rollout.Revision
	s.edit(approving(first))
	s.settle()
	s.apply("a", "b")
	before := s.settle()
	require.Equal(t, infrav1.RolloutComplete, before.Status.Rollout.Stage)
	paused := &s.users()[1]
	builder.Paused()(paused)
	require.NoError(t, s.Client.Update(t.Context(), paused))
	s.downgrade()
	s.clock.Pass(time.Hour)
	after := s.settle()
	assert.Equal(t, infrav1.RolloutComplete, after.Status.Rollout.Stage)
	assert.Equal(t, first, after.Status.Rollout.Revision)
	assert.Equal(t, before.Status.Rollout.StartTime, after.Status.Rollout.StartTime)
	assert.Equal(t, before.Status.Rollout.Number, after.Status.Rollout.Number)
	assert.Equal(t, "a", s.assigned(first), "the assignment is completed")
	assert.Equal(t, "b", s.assigned(builder.Short(first)), "a paused user is not written")
	revisions := s.revisions()
	require.Len(t, revisions, 1)
	assert.Equal(t, naming.TemplateRevision("vpc", builder.Short(first)), revisions[0].Name)
	assert.Equal(t, "alice", revisions[0].Annotations[naming.ApprovedByAnnotation], "the record of the approval is kept")
	s.requireNoWrites()

	require.NoError(t, s.Client.Create(t.Context(), builder.WorkspaceTemplateApply("new", builder.WithResourceVersion(""))))
	s.edit(module("# 2"))
	s.settle()
	assert.Equal(t, "a new", s.assigned(first), "new users get what was rolled out")
	s.edit(module("# 1"))
	assert.EqualValues(t, 3, s.settle().Status.Rollout.Number)
	assert.Len(t, s.revisions(), 2, "a content that returns has its ControllerRevision")
}

func (s *staging) requireNoWrites() {
	s.Helper()
	reliable := s.Client
	defer func() { s.Client = reliable }()
	s.Client = interceptor.NewClient(reliable.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return assert.AnError
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return assert.AnError
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return assert.AnError
		},
	})
	s.settle()
}

func TestAnApprovalThatAnEarlierVersionRecordedIsAskedForAgain(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways, MaxConcurrent: 1}, user("a"), user("b"))
	revision := s.settle().Status.Rollout.Revision
	s.edit(approving(revision))
	s.settle()
	require.Equal(t, "a", s.assigned(revision))
	s.downgrade()
	s.settle()
	s.apply("a")
	template := s.settle()
	assert.Equal(t, infrav1.RolloutWaitingForApproval, template.Status.Rollout.Stage)
	assert.Equal(t, "a", s.assigned(revision))
	s.edit(approving(revision))
	s.settle()
	assert.Equal(t, "a b", s.assigned(revision))
}

// Before the upgrade, a user got a content with the hash of another one that is stored.
func TestAUserWhoseRecordMayMeanTwoContentsIsNotAssignedEither(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalAlways}, user("a"))
	s.edit(module(builder.Harmless))
	revision := s.settle().Status.Rollout.Revision
	s.edit(approving(revision))
	s.settle()
	s.apply("a")
	s.downgrade()
	template := s.template()
	module(builder.Harmful)(template)
	require.NoError(t, s.Client.Update(t.Context(), template))
	template = s.settle()
	assert.Equal(t, infrav1.RolloutWaitingForApproval, template.Status.Rollout.Stage)
	assert.Equal(t, "a", s.assigned(builder.Short(revision)))
	assert.Len(t, s.revisions(), 3, "both are stored")
}

// Users of a template without stages have a record as well.
func TestUsersAreNotOutdatedBecauseOfAnUpgrade(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithFinalizers(infrav1.WorkspaceTemplateFinalizer))
	env := newEnvironment(t, builder.WorkspaceTemplateApply("a", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Status.TemplateRevision = builder.Short(rollout.HashOf(template))
	})))
	f, err := env.observe(t.Context(), template, engine.GateDecision{})
	require.NoError(t, err)
	assert.Empty(t, f.Outdated)
}

func TestALabelOfARevisionThatAnotherClientChangedDoesNotMatter(t *testing.T) {
	s := newStaging(t, infrav1.WorkspaceTemplateRollout{}, user("a"))
	revision := s.settle().Status.Rollout.Revision
	stored := s.revisions()[0]
	stored.Labels[naming.TemplateRevisionLabel] = "other"
	require.NoError(t, s.Client.Update(t.Context(), &stored))
	_, wait := s.reconcile()
	assert.Greater(t, wait, time.Hour, "only the deadline of the user")
	s.requireNoWrites()
	s.apply("a")
	assert.Equal(t, infrav1.RolloutComplete, s.settle().Status.Rollout.Stage)
	assert.Equal(t, "a", s.assigned(revision))
}

// The cache has only those with the label, so that no event reports that a user has deleted it.
func TestARevisionThatCannotBeStoredIsReportedAndRetriedWithBackoff(t *testing.T) {
	for message, change := range map[string]func(*appsv1.ControllerRevision){
		"does not have the label capt.cluster.x-k8s.io/template-revision. Restore the label": func(stored *appsv1.ControllerRevision) { stored.Labels = nil },
		"is not its controller. Delete the ControllerRevision": func(stored *appsv1.ControllerRevision) {
			stored.OwnerReferences[0].UID = "other"
		},
	} {
		s := newStaging(t, infrav1.WorkspaceTemplateRollout{}, user("a"))
		revision := s.settle().Status.Rollout.Revision
		stored := s.revisions()[0]
		before := stored.DeepCopy()
		change(&stored)
		require.NoError(t, s.Client.Update(t.Context(), &stored))
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.template())}
		for range 2 {
			result, err := s.Reconcile(t.Context(), request)
			require.ErrorContains(t, err, message, "an error is retried with backoff")
			assert.Zero(t, result)
		}
		condition := meta.FindStatusCondition(s.template().Status.Conditions, infrav1.RollingOutCondition)
		assert.Equal(t, infrav1.RolloutWaitingReason, condition.Reason)
		assert.Contains(t, condition.Message, "revision "+builder.Short(revision)+" cannot be stored, and no user gets it before that: ControllerRevision "+stored.Name)
		assert.Contains(t, condition.Message, message)

		before.ResourceVersion = stored.ResourceVersion
		require.NoError(t, s.Client.Update(t.Context(), before))
		s.apply("a")
		assert.Equal(t, infrav1.RolloutComplete, s.settle().Status.Rollout.Stage)
	}
}
