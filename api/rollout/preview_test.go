// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

func TestNextWithPreviews(t *testing.T) {
	empty, changes, fails, none := planned(infrav1.PreviewEmpty), planned(infrav1.PreviewChanges), planned(infrav1.PreviewFailed), planned(infrav1.PreviewUnavailable)
	onChanges := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges}
	with := func(change func(*infrav1.WorkspaceTemplateRollout)) infrav1.WorkspaceTemplateRollout {
		p := onChanges
		change(&p)
		return p
	}
	always := with(func(p *infrav1.WorkspaceTemplateRollout) { p.Approval = infrav1.RolloutApprovalAlways })
	unasked := with(func(p *infrav1.WorkspaceTemplateRollout) { p.Approval = "" })
	canary := with(func(p *infrav1.WorkspaceTemplateRollout) {
		p.Approval, p.Canary = "", infrav1.RolloutCanaries{Count: 1}
	})
	for name, row := range map[string]struct {
		policy          infrav1.WorkspaceTemplateRollout
		users           []User
		approve, resume string
		assign          string // Names of users.
		stage           infrav1.RolloutStage
		reason, message string
	}{
		"none has a result": {unasked, []User{on("a", before), on("b", before)}, "", "", "", infrav1.RolloutPreviewing, infrav1.RollingOutReason,
			"waiting: ns/a, ns/b; no preview yet: ns/a, ns/b"},
		"an approval does not replace the preview": {onChanges, []User{on("a", before)}, target, "", "", infrav1.RolloutPreviewing, infrav1.RollingOutReason, ""},
		"a result of another revision is none": {unasked, []User{on("a", before, empty, func(u *User) { u.Preview.TemplateRevision = before })}, "", "",
			"", infrav1.RolloutPreviewing, infrav1.RollingOutReason, ""},
		"empty plans pass while others are planned": {onChanges, []User{on("a", before), on("b", before, empty)}, "", "",
			"b", infrav1.RolloutPreviewing, infrav1.RollingOutReason, "updating: ns/b; waiting: ns/a; nothing changes for 1 users; no preview yet: ns/a"},
		"empty plans pass without an approval": {onChanges, []User{on("a", before, empty), on("b", before, changes)}, "", "",
			"a", infrav1.RolloutWaitingForApproval, infrav1.RolloutWaitingReason, "Terraform would change: ns/b. The revision is not approved"},
		"changes pass with it":                   {onChanges, []User{on("a", target, empty), on("b", before, changes)}, target, "", "b", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"nothing to approve":                     {onChanges, []User{on("a", before, empty)}, "", "", "a", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"no users":                               {onChanges, nil, "", "", "", infrav1.RolloutComplete, infrav1.RolledOutReason, ""},
		"with approval Always, empty plans wait": {always, []User{on("a", before, empty)}, "", "", "", infrav1.RolloutWaitingForApproval, infrav1.RolloutWaitingReason, ""},
		"but the plans are known before":         {always, []User{on("a", before)}, "", "", "", infrav1.RolloutPreviewing, infrav1.RollingOutReason, ""},
		"empty plans are not limited": {with(func(p *infrav1.WorkspaceTemplateRollout) { p.MaxConcurrent = 1 }),
			[]User{on("a", before, empty), on("b", before, empty), on("c", before, empty)}, "", "", "a b c", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"a canary is a user with changes": {canary, []User{on("a", before, empty), on("b", before, changes), on("c", before, changes)}, "", "",
			"a b", infrav1.RolloutCanary, infrav1.RollingOutReason, ""},
		"without changes no canary is needed": {with(func(p *infrav1.WorkspaceTemplateRollout) { p.Canary.Selector = selecting() }),
			[]User{on("a", before, empty)}, "", "", "a", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"an empty plan proves nothing for others": {with(func(p *infrav1.WorkspaceTemplateRollout) { p.Approval, p.Canary.Selector = "", selecting() }),
			[]User{on("a", target, empty, labeled), on("b", before, changes)}, "", "", "", infrav1.RolloutCanary, infrav1.RolloutWaitingReason, "No user is a canary"},
		"a plan that fails stops": {unasked, []User{on("a", before, fails), on("b", before, changes), on("c", before, empty)}, "", "",
			"", infrav1.RolloutRemaining, infrav1.RolloutStoppedReason, "the plan fails for: ns/a. The rollout stopped because the revision fails"},
		"and shows why": {unasked, []User{on("a", before, fails)}, "", "", "", infrav1.RolloutRemaining, infrav1.RolloutStoppedReason, "The plan for ns/a fails: why"},
		"after a resume it counts as changes": {onChanges, []User{on("a", before, fails)}, "", target, "",
			infrav1.RolloutWaitingForApproval, infrav1.RolloutWaitingReason, ""},
		"which can be approved": {onChanges, []User{on("a", before, fails)}, target, target, "a", infrav1.RolloutRemaining, infrav1.RollingOutReason, ""},
		"with onFailure Continue, the others follow": {with(func(p *infrav1.WorkspaceTemplateRollout) {
			p.Approval, p.OnFailure = "", infrav1.RolloutFailureContinue
		}),
			[]User{on("a", before, fails), on("b", before, changes)}, "", "", "b", infrav1.RolloutRemaining, infrav1.RollingOutReason, "failed: ns/a"},
		"no preview is possible": {unasked, []User{on("a", before, none), on("b", before, changes)}, "", "",
			"", infrav1.RolloutPreviewing, infrav1.RolloutWaitingReason, "ns/a cannot be previewed: why. To continue without such users, set the annotation capt.cluster.x-k8s.io/resume to revision-new. To roll out without previews, set spec.rollout.preview to Never"},
		"users with a change of their own are not planned": {onChanges, []User{on("a", before, held), on("b", target, changes)}, "", "", "", infrav1.RolloutRemaining, infrav1.RollingOutReason, "Users with a change of their own"},
		"paused users are not planned":                     {onChanges, []User{on("a", before, paused), on("b", target, changes)}, "", "", "", infrav1.RolloutRemaining, infrav1.RollingOutReason, "Paused users"},
		"a paused rollout assigns nothing": {with(func(p *infrav1.WorkspaceTemplateRollout) { p.State = infrav1.RolloutPaused }), []User{on("a", before, empty)}, "", "",
			"", infrav1.RolloutRemaining, infrav1.RolloutWaitingReason, "The rollout is paused"},
		"without the policy, results have no effect": {infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}, []User{on("a", before, fails)}, "", "",
			"a", infrav1.RolloutRemaining, infrav1.RollingOutReason, "0 of 1 users have revision revision-new; updating: ns/a"},
	} {
		t.Run(name, func(t *testing.T) {
			d := Next(Facts{Now: now, Policy: row.policy, Target: target, History: history(before), Approve: row.approve, Resume: row.resume, Users: row.users})
			assert.Equal(t, row.assign, names(d.Assign))
			assert.Equal(t, row.stage, d.Stage)
			assert.Equal(t, row.reason, d.Reason)
			assert.Contains(t, d.Message, row.message)
		})
	}
}

// plansTo gives a user a preview of the target that destroys resources of some types; none is an update in place.
func plansTo(types ...string) func(*User) {
	return func(u *User) {
		counts := []infrav1.PlannedCount{{Action: infrav1.PlanUpdate, Count: 1}}
		if len(types) > 0 {
			counts = []infrav1.PlannedCount{{Action: infrav1.PlanReplace, Count: 1}}
		}
		u.Preview = infrav1.RevisionPreview{TemplateRevision: target, Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{Destroys: types, Counts: counts}}
	}
}

func TestWhatAPlanDestroys(t *testing.T) {
	update, replace, cluster := plansTo(), plansTo("aws_subnet"), plansTo("aws_eks_cluster")
	unknown, fails, empty := planned(infrav1.PreviewChanges), planned(infrav1.PreviewFailed), planned(infrav1.PreviewEmpty)
	canary := infrav1.RolloutCanaries{Count: 1}
	for name, row := range map[string]struct {
		approval                 infrav1.RolloutApproval
		canary                   infrav1.RolloutCanaries
		users                    []User
		approve, destroy, resume string
		assign                   string
		stage                    infrav1.RolloutStage
		message                  string
	}{
		"updates in place follow without an approval": {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("a", before, update), on("b", before, replace), on("c", before, empty), on("d", before, unknown)},
			"", "", "", "c a", infrav1.RolloutRemaining, "updating: ns/a, ns/c; waiting: ns/b, ns/d"},
		"then the others wait": {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("a", target, update), on("b", before, replace), on("d", before, unknown)},
			"", "", "", "", infrav1.RolloutWaitingForApproval, "Terraform would replace or delete resources for ns/b, ns/d. To approve that, set the annotations capt.cluster.x-k8s.io/approve and capt.cluster.x-k8s.io/approve-destroy to revision-new"},
		"an approval alone releases none of them": {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("b", before, replace)}, target, "", "", "", infrav1.RolloutWaitingForApproval, "To approve that"},
		"nor one of another revision":             {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("b", before, replace)}, target, before, "", "", infrav1.RolloutWaitingForApproval, "To approve that"},
		"both do":                                 {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("b", before, replace), on("d", before, unknown)}, target, target, "", "b d", infrav1.RolloutRemaining, ""},
		"but not what is never destroyed": {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("a", before, cluster)}, target, target, "", "", infrav1.RolloutWaitingForApproval,
			"Terraform would destroy aws_eks_cluster for ns/a, which spec.rollout.neverDestroy does not allow"},
		"also without approvals": {infrav1.RolloutApprovalNone, infrav1.RolloutCanaries{}, []User{on("a", before, cluster), on("b", before, replace)}, "", "", "", "b", infrav1.RolloutRemaining, ""},
		"OnChanges: an approval covers the others only": {infrav1.RolloutApprovalOnChanges, infrav1.RolloutCanaries{}, []User{on("a", before, update), on("b", before, replace), on("c", before, unknown)},
			target, "", "", "a c", infrav1.RolloutRemaining, ""},
		"OnChanges: without one no user follows": {infrav1.RolloutApprovalOnChanges, infrav1.RolloutCanaries{}, []User{on("a", before, update), on("b", before, replace)}, "", "", "", "", infrav1.RolloutWaitingForApproval, "The revision is not approved"},
		"who waits is not a canary":              {infrav1.RolloutApprovalOnDestroy, canary, []User{on("a", before, replace), on("b", before, update), on("c", before, update)}, "", "", "", "b", infrav1.RolloutCanary, ""},
		"a canary that is updated is awaited":    {infrav1.RolloutApprovalOnDestroy, canary, []User{on("a", before, replace), on("b", before, update, assigned)}, "", "", "", "", infrav1.RolloutCanary, ""},
		"without others no user is a canary":     {infrav1.RolloutApprovalOnDestroy, canary, []User{on("a", before, replace)}, "", "", "", "", infrav1.RolloutWaitingForApproval, "To approve that"},
		"a plan that fails is not known":         {infrav1.RolloutApprovalOnDestroy, infrav1.RolloutCanaries{}, []User{on("a", before, fails)}, "", "", target, "", infrav1.RolloutWaitingForApproval, "and it is not known which"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: row.approval, Canary: row.canary}
			d := Next(Facts{Now: now, Policy: policy, Target: target, History: history(before), Approve: row.approve, ApproveDestroy: row.destroy, Resume: row.resume, Users: row.users})
			assert.Equal(t, row.assign, names(d.Assign))
			assert.Equal(t, row.stage, d.Stage)
			assert.Contains(t, d.Message, row.message)
			assert.NotEqual(t, infrav1.RolloutComplete, d.Stage)
		})
	}
}

// A user whose plan is never empty waits for every revision.
func TestTheMessageNamesUsersWhosePlanIsNeverEmpty(t *testing.T) {
	never := func(u *User) { u.NeverEmpty = true }
	users := []User{on("a", before, plansTo(), never), on("b", before, plansTo()), on("c", before, planned(infrav1.PreviewEmpty), never)}
	const text = "Terraform changes something of ns/a at each run, whatever the revision (condition PlanNeverEmpty, which names it)"
	for approval, named := range map[infrav1.RolloutApproval]bool{infrav1.RolloutApprovalOnChanges: true, infrav1.RolloutApprovalAlways: false} {
		policy := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: approval}
		d := Next(Facts{Now: now, Policy: policy, Target: target, History: history(before), Users: slices.Clone(users)})
		require.Equal(t, infrav1.RolloutWaitingForApproval, d.Stage)
		assert.Equal(t, named, strings.Contains(d.Message, text), d.Message)
	}
}

func names(assignments []Assignment) (text string) {
	for _, a := range assignments {
		if text != "" {
			text += " "
		}
		text += a.User.Name
	}
	return text
}

func TestResultsOfPreviewsAreCounted(t *testing.T) {
	policy := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways}
	d := Next(Facts{Now: now, Policy: policy, Target: target, History: history(before), Users: []User{
		on("a", target, planned(infrav1.PreviewEmpty)), on("b", before, planned(infrav1.PreviewChanges)),
		on("c", before, planned(infrav1.PreviewFailed)), on("d", before, planned(infrav1.PreviewUnavailable)), on("e", before),
	}})
	assert.Equal(t, []string{"ns/a"}, d.PreviewedEmpty)
	assert.Equal(t, []string{"ns/b"}, d.PreviewedChanges)
	assert.Equal(t, []string{"ns/b"}, d.PreviewedDestroy, "that is not known")
	assert.Equal(t, []string{"ns/c"}, d.PreviewFailed)
	assert.Equal(t, []string{"ns/c"}, d.Failed)
}

// A preview of another revision says nothing about this one, and without previews there is nothing to say.
func TestOnlyPreviewsOfTheTargetCount(t *testing.T) {
	of := func(revision string) func(*User) {
		return func(u *User) {
			u.Preview = infrav1.RevisionPreview{TemplateRevision: revision, Result: infrav1.PreviewChanges, Message: "about " + revision}
		}
	}
	for name, row := range map[string]struct {
		preview infrav1.RolloutPreview
		of      string
		want    []string
	}{
		"of the target":       {infrav1.RolloutPreviewAlways, target, []string{"ns/a"}},
		"of another revision": {infrav1.RolloutPreviewAlways, before, nil},
		"not asked for":       {infrav1.RolloutPreviewNever, target, nil},
	} {
		policy := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: row.preview}
		d := Next(Facts{Now: now, Policy: policy, Target: target, History: history(before), Users: []User{on("a", before, of(row.of))}})
		assert.Equal(t, row.want, d.PreviewedChanges, name)
		assert.Equal(t, row.want != nil, strings.Contains(d.Message, "Terraform would change: ns/a"), "%s: %s", name, d.Message)
	}
}

// The message names what can be done about a preview that is not possible.
func TestWhyThereIsNoPreview(t *testing.T) {
	for want, u := range map[string]User{
		"paused by a user": {ReadySince: now, Preview: infrav1.RevisionPreview{TemplateRevision: target, Message: "paused by a user"}},
		"it has not been at rest since the rollout started": {Preview: infrav1.RevisionPreview{TemplateRevision: before, Message: "of another revision"}},
		"no preview has run": {ReadySince: now},
	} {
		assert.Contains(t, (&rollout{Facts: &Facts{Target: target}}).whyUnavailable(&u), want)
	}
}
