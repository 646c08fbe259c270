// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/test/builder"
)

// What the manager reports counts, because it sees all users, until it has not observed the revision or a resume of it.
func TestIsStopped(t *testing.T) {
	stopped, waiting := infrav1.RolloutStoppedReason, infrav1.RolloutWaitingReason
	for name, row := range map[string]struct {
		reported, reason string
		stage            infrav1.RolloutStage
		resume           string
		want             bool
	}{
		"stopped":                      {target, stopped, infrav1.RolloutRemaining, "", true},
		"stopped, and resumed since":   {target, stopped, infrav1.RolloutRemaining, target, false},
		"of another revision":          {before, stopped, infrav1.RolloutRemaining, "", false},
		"no condition":                 {target, "", infrav1.RolloutRemaining, "", false},
		"waits for canaries":           {target, waiting, infrav1.RolloutCanary, "", true},
		"waits for previews":           {target, waiting, infrav1.RolloutPreviewing, "", true},
		"waits for an approval":        {target, waiting, infrav1.RolloutWaitingForApproval, "", false},
		"waits for canaries, paused":   {target, waiting, infrav1.RolloutCanary, "paused", false},
		"goes on":                      {target, infrav1.RollingOutReason, infrav1.RolloutCanary, "", false},
		"resumed for another revision": {target, stopped, infrav1.RolloutRemaining, before, true},
		"nothing was observed":         {"", stopped, infrav1.RolloutRemaining, "", false},
	} {
		template := &Template{WorkspaceTemplate: builder.WorkspaceTemplate("vpc"), History: history(target)}
		template.Status.Rollout.Revision, template.Status.Rollout.Stage = row.reported, row.stage
		template.Annotations = map[string]string{naming.ResumeAnnotation: row.resume}
		if row.resume == "paused" {
			template.Policy.State = infrav1.RolloutPaused
		}
		if row.reason != "" {
			template.Status.Conditions = []metav1.Condition{{Type: infrav1.RollingOutCondition, Reason: row.reason}}
		}
		assert.Equal(t, row.want, template.IsStopped(Decision{}), name)
		assert.True(t, template.IsStopped(Decision{Resumable: true}), name)
	}
}

// What to do next names the commands in the order in which they help.
func TestTheNextStepOfARollout(t *testing.T) {
	failed := func(reason, cluster string) UserStatus {
		return UserStatus{Namespace: "team-a", Name: "demo-vpc", Cluster: cluster, State: UserFailed, Reason: reason}
	}
	with := func(s Status, users ...UserStatus) Status {
		s.Users, s.Counts = users, map[UserState]int{}
		for _, user := range users {
			s.Counts[user.State]++
		}
		return s
	}
	stopped := Status{Reason: infrav1.RolloutStoppedReason, Stage: infrav1.RolloutWaitingForApproval}
	waiting := Status{Stage: infrav1.RolloutWaitingForApproval}
	stalled := UserStatus{Namespace: "team-a", Name: "demo-vpc", Cluster: "demo", State: UserStalled, Reason: "PlanFailed"}
	for name, row := range map[string]struct {
		status              Status
		previewed, destroys bool
		step                string
		commands            string
	}{
		"it proceeds":                             {Status{Stage: infrav1.RolloutCanary, Reason: infrav1.RollingOutReason}, true, true, "", ""},
		"stopped by a failure":                    {with(stopped, failed("ApplyFailed", "demo"), stalled), true, true, "although it fails", "logs team-a/demo; rollback; resume"},
		"of a user without a Cluster":             {with(stopped, failed("ApplyFailed", "")), true, true, "although it fails", "logs workspacetemplateapply/team-a/demo-vpc; rollback; resume"},
		"stopped by a plan":                       {with(stopped, failed("PlanFailed", "demo")), true, true, "although the plan fails", "plan; rollback; resume"},
		"stopped by a user that stalls":           {with(stopped, stalled), true, true, "continue without them", "logs team-a/demo; rollback; resume"},
		"stopped for no user":                     {with(stopped, UserStatus{State: UserCurrent}), true, true, "although it fails", "rollback; resume"},
		"a plan failed, and an approval is due":   {with(waiting, failed("PlanFailed", "demo")), true, true, "cannot be planned for some users", "plan; rollback"},
		"a plan failed, and canaries are updated": {with(Status{Stage: infrav1.RolloutCanary}, failed("PlanFailed", "demo")), true, true, "", ""},
		"an approval is due":                      {waiting, false, true, "See what the revision changes, and approve it", "approve; rollback"},
		"an approval of a plan":                   {waiting, true, false, "See what the revision changes, and approve it", "plan; approve; rollback"},
		"an approval of what is destroyed":        {waiting, true, true, "changes and destroys, and approve both", "plan; approve --allow-destroy; rollback"},
		"an approval of a rollback":               {Status{Stage: infrav1.RolloutWaitingForApproval, Revisions: []RevisionStatus{{Target: true, RolledOut: true}, {}}}, true, true, "changes and destroys, and approve both. It is the content of an earlier revision again", "plan; approve --allow-destroy"},
		"what is never destroyed":                 {Status{Stage: infrav1.RolloutWaitingForApproval, Message: neverAllowed}, true, true, "No approval releases users", "plan; kubectl edit workspacetemplate -n team-a vpc; rollback"},
		"canaries are missing":                    {Status{Stage: infrav1.RolloutCanary, Reason: infrav1.RolloutWaitingReason}, true, true, "continue without it", "resume"},
		"previews are missing":                    {Status{Stage: infrav1.RolloutPreviewing, Reason: infrav1.RolloutWaitingReason}, true, true, "continue without it", "resume"},
		"other users are waited for":              {Status{Stage: infrav1.RolloutRemaining, Reason: infrav1.RolloutWaitingReason}, true, true, "", ""},
		"paused":                                  {Status{Stage: infrav1.RolloutCanary, State: infrav1.RolloutPaused, Reason: infrav1.RolloutWaitingReason}, true, true, "The rollout is paused", "resume"},
		"complete, and paused":                    {Status{Stage: infrav1.RolloutComplete, State: infrav1.RolloutPaused}, true, true, "", ""},
		"being deleted":                           {Status{Stage: infrav1.RolloutWaitingForApproval, DeletionTime: &metav1.Time{}}, true, true, "The template is being deleted", ""},
	} {
		s := row.status
		s.Namespace, s.Name, s.Revision, s.Strategy, s.Observed = "team-a", "vpc", target, infrav1.RolloutStaged, true
		next := nextStep(&s, row.previewed, row.destroys)
		if row.step == "" {
			assert.Nil(t, next, name)
			continue
		}
		assert.Contains(t, next.Step, row.step, name)
		commands := strings.NewReplacer("captctl template ", "", "captctl ", "", " team-a/vpc", "", " --revision "+target, "").Replace(strings.Join(next.Commands, "; "))
		assert.Equal(t, row.commands, commands, name)
	}
	immediate := &Status{Strategy: infrav1.RolloutImmediate, Observed: true, Reason: infrav1.RolloutStoppedReason}
	assert.Nil(t, nextStep(immediate, false, false), "without stages, nothing is approved or resumed")
	immediate.Observed = false
	assert.Contains(t, nextStep(immediate, false, false).Step, "has not observed the current content")
}

func TestWhetherARolloutIsComplete(t *testing.T) {
	for name, row := range map[string]struct {
		status Status
		want   bool
	}{
		"all stages":                   {Status{Strategy: infrav1.RolloutStaged, Stage: infrav1.RolloutComplete}, true},
		"a stage":                      {Status{Strategy: infrav1.RolloutStaged, Stage: infrav1.RolloutCanary, Observed: true}, false},
		"without stages, all users":    {Status{Observed: true, Users: make([]UserStatus, 2), Counts: map[UserState]int{UserCurrent: 2}}, true},
		"without stages, one of two":   {Status{Observed: true, Users: make([]UserStatus, 2), Counts: map[UserState]int{UserCurrent: 1}}, false},
		"without stages, not observed": {Status{Users: make([]UserStatus, 2), Counts: map[UserState]int{UserCurrent: 2}}, false},
	} {
		assert.Equal(t, row.want, row.status.IsComplete(), name)
	}
}

// A document for programs shows what the objects have, and the defaults of the policy.
func TestTheStatusOfATemplate(t *testing.T) {
	user := func(name string, change func(*User), options ...builder.Option) (User, *infrav1.WorkspaceTemplateApply) {
		apply := builder.WorkspaceTemplateApply(name, options...)
		u := on(name, before, change)
		u.Key = types.NamespacedName{Namespace: apply.Namespace, Name: name}
		return u, apply
	}
	preview := func(revision string, result infrav1.PreviewResult) func(*User) {
		return func(u *User) {
			u.Preview = infrav1.RevisionPreview{TemplateRevision: revision, Result: result, Message: "why"}
		}
	}
	owned, first := user("a", func(u *User) { u.Applied, u.Written = before, before }, builder.OwnedBy(builder.CAPTMachinePool("workers")), builder.WithLabel(clusterv1.ClusterNameLabel, "demo"))
	failing, second := user("b", preview(target, infrav1.PreviewFailed))
	unplanned, third := user("c", preview(target, infrav1.PreviewUnavailable))
	former, fourth := user("d", preview(before, infrav1.PreviewFailed))
	changed, fifth := user("e", preview(target, infrav1.PreviewChanges), builder.NotUpToDate("ApplyFailed", "AccessDenied"))
	planned, sixth := user("f", preview(target, infrav1.PreviewChanges))
	template := &Template{WorkspaceTemplate: builder.WorkspaceTemplate("vpc"), History: history(before), Users: []User{owned, failing, unplanned, former, changed, planned}, Applies: map[types.NamespacedName]*infrav1.WorkspaceTemplateApply{}}
	for i, apply := range []*infrav1.WorkspaceTemplateApply{first, second, third, fourth, fifth, sixth} {
		template.Applies[template.Users[i].Key] = apply
	}
	template.History[1].Created = metav1.NewTime(builder.Created)
	template.Policy = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}
	template.Status.Conditions = []metav1.Condition{{Type: infrav1.RollingOutCondition, Status: "True", Reason: infrav1.RollingOutReason, Message: "the canaries follow"}}

	s := template.StatusOf(builder.Created)
	assert.False(t, s.Observed)
	assert.Empty(t, s.Message, "it is about another revision")
	template.Status.Rollout.Revision = target
	s = template.StatusOf(builder.Created)
	assert.True(t, s.Observed)
	assert.Equal(t, "the canaries follow", s.Message)
	assert.Equal(t, infrav1.RolloutApprovalNone, s.RequiredApproval)
	assert.Equal(t, infrav1.RolloutRunning, s.State)
	assert.Equal(t, []RevisionStatus{
		{Number: 2, Hash: target, Target: true},
		{Number: 1, Hash: before, Created: &template.History[1].Created, Users: 6, RolledOut: true, ForNewUsers: true},
	}, s.Revisions)
	assert.Equal(t, []string{"CAPTMachinePool/workers", ""}, []string{s.Users[0].Owner, s.Users[1].Owner})
	assert.Equal(t, before, s.Users[0].Applied)
	reasons := []string{}
	for _, u := range s.Users {
		reasons = append(reasons, u.Reason+": "+u.Message)
	}
	assert.Equal(t, []string{": ", "PlanFailed: why", "PlanUnavailable: why", ": ", "ApplyFailed: AccessDenied", ": "}, reasons)

	template.Policy = infrav1.WorkspaceTemplateRollout{}
	assert.False(t, template.StatusOf(builder.Created).Observed, "without stages, the manager reports the content of the template")
	template.Status.Revision = target
	assert.True(t, template.StatusOf(builder.Created).Observed)
	assert.Empty(t, template.StatusOf(builder.Created).State)
	template.Status.Conditions = nil
	assert.Empty(t, template.StatusOf(builder.Created).Message)
}

// Only plans of the current revision count, and what is never destroyed needs no approval but another template.
func TestWhetherAnApprovalIncludesWhatIsDestroyed(t *testing.T) {
	plan := func(revision string, destroys ...string) User {
		return User{Preview: infrav1.RevisionPreview{TemplateRevision: revision, Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{
			Destroys: destroys, Counts: []infrav1.PlannedCount{{Action: infrav1.PlanDelete, Count: int32(len(destroys))}},
		}}}
	}
	for name, row := range map[string]struct {
		user User
		want bool
	}{
		"a resource":                 {plan(target, "aws_subnet"), true},
		"nothing":                    {plan(target), false},
		"of another revision":        {plan(before, "aws_subnet"), false},
		"what must not be destroyed": {plan(target, "aws_eks_cluster"), false},
	} {
		template := &Template{WorkspaceTemplate: builder.WorkspaceTemplate("vpc"), History: history(target), Users: []User{row.user}}
		template.Policy = infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalAlways}
		assert.Equal(t, row.want, template.destroys(), name)

		template.Status.Rollout.Revision, template.Status.Rollout.Stage, template.Applies = target, infrav1.RolloutWaitingForApproval, map[types.NamespacedName]*infrav1.WorkspaceTemplateApply{{}: {}}
		assert.Equal(t, row.want, strings.HasSuffix(template.StatusOf(builder.Created).NextStep.Commands[1], " --allow-destroy"), name)
	}
}
