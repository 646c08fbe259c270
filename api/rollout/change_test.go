// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/stretchr/testify/assert"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func TestAChangeIsHeldAsThePolicyRequires(t *testing.T) {
	const (
		none, preview, approve = "", infrav1.PreviewingChangeReason, infrav1.WaitingForApprovalReason
		never, always          = infrav1.RolloutPreviewNever, infrav1.RolloutPreviewAlways
	)
	type result = infrav1.PreviewResult
	for _, row := range []struct {
		preview  infrav1.RolloutPreview
		approval infrav1.RolloutApproval
		want     map[result]string
	}{
		{never, infrav1.RolloutApprovalNone, map[result]string{"": none}},
		{never, infrav1.RolloutApprovalAlways, map[result]string{"": approve}},
		{always, infrav1.RolloutApprovalNone, map[result]string{"": preview, "Empty": none, "Changes": none, "Failed": approve, "Unavailable": approve}},
		{always, infrav1.RolloutApprovalOnDestroy, map[result]string{"": preview, "Empty": none, "Changes": none, "Failed": approve, "Unavailable": approve}},
		{always, infrav1.RolloutApprovalOnChanges, map[result]string{"": preview, "Empty": none, "Changes": approve, "Failed": approve, "Unavailable": approve}},
		{always, infrav1.RolloutApprovalAlways, map[result]string{"": preview, "Empty": approve, "Changes": approve, "Failed": approve, "Unavailable": approve}},
	} {
		for result, want := range row.want {
			previewed := infrav1.RevisionPreview{Result: result}
			if result == infrav1.PreviewChanges {
				previewed.Changes = &infrav1.PlannedChanges{Counts: []infrav1.PlannedCount{{Action: infrav1.PlanUpdate, Count: 1}}}
			}
			change := Change{Policy: infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: row.preview, Approval: row.approval}, Revision: "b"}
			assert.Equal(t, want, change.HeldBy(previewed), "%s %s %s", row.preview, row.approval, result)
			change.Approve = "a"
			assert.Equal(t, want, change.HeldBy(previewed), "an approval of another content")
			assert.Equal(t, row.preview == always, change.NeedsPreview(previewed))
			change.Approve = "b"
			awaited := row.preview == always && result == ""
			unknown := row.approval == infrav1.RolloutApprovalOnDestroy && (result == infrav1.PreviewFailed || result == infrav1.PreviewUnavailable)
			assert.Equal(t, awaited || unknown, change.HeldBy(previewed) != "", "%s %s %s: an approval passes, apart from what may be destroyed", row.preview, row.approval, result)
			assert.Equal(t, awaited || unknown, change.NeedsPreview(previewed))
			change.ApproveDestroy = "b"
			assert.Empty(t, change.HeldBy(previewed), "also without a plan")
			assert.False(t, change.NeedsPreview(previewed))
			change.IsPlannable = true
			assert.Equal(t, awaited, change.HeldBy(previewed) != "", "not if a plan is possible")
			assert.Equal(t, awaited, change.NeedsPreview(previewed))
			assert.Empty(t, Change{Policy: change.Policy}.HeldBy(previewed), "no change")
		}
	}
}

// What the plan destroys needs an approval of its own, and what is never destroyed another list.
func TestAChangeThatDestroysSomething(t *testing.T) {
	destroys := func(types ...string) infrav1.RevisionPreview {
		return infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{Destroys: types, Counts: []infrav1.PlannedCount{{Action: infrav1.PlanReplace, Count: 1}}}}
	}
	unknown := infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{Unknown: "the log is gone"}}
	for name, row := range map[string]struct {
		approval         infrav1.RolloutApproval
		never            []string
		preview          infrav1.RevisionPreview
		approve, destroy string
		held             bool
	}{
		"no approvals": {infrav1.RolloutApprovalNone, nil, destroys("aws_subnet"), "", "", false},
		"OnDestroy":    {infrav1.RolloutApprovalOnDestroy, nil, destroys("aws_subnet"), "", "", true},
		"OnDestroy, approved without what it destroys": {infrav1.RolloutApprovalOnDestroy, nil, destroys("aws_subnet"), "b", "", true},
		"OnDestroy, only the destruction approved":     {infrav1.RolloutApprovalOnDestroy, nil, destroys("aws_subnet"), "", "b", true},
		"OnDestroy, of another content":                {infrav1.RolloutApprovalOnDestroy, nil, destroys("aws_subnet"), "b", "a", true},
		"OnDestroy, approved":                          {infrav1.RolloutApprovalOnDestroy, nil, destroys("aws_subnet"), "b", "b", false},
		"OnDestroy, not known":                         {infrav1.RolloutApprovalOnDestroy, nil, unknown, "", "", true},
		"OnDestroy, not known, approved":               {infrav1.RolloutApprovalOnDestroy, nil, unknown, "b", "b", false},
		"OnChanges":                                    {infrav1.RolloutApprovalOnChanges, nil, destroys("aws_subnet"), "b", "", true},
		"OnChanges, approved":                          {infrav1.RolloutApprovalOnChanges, nil, destroys("aws_subnet"), "b", "b", false},
		"OnChanges, not known, approved":               {infrav1.RolloutApprovalOnChanges, nil, unknown, "b", "", false},
		"Always":                                       {infrav1.RolloutApprovalAlways, nil, destroys("aws_subnet"), "b", "", true},
		"never, without a list":                        {infrav1.RolloutApprovalNone, nil, destroys("aws_subnet", "aws_eks_cluster"), "b", "b", true},
		"never, of a list":                             {infrav1.RolloutApprovalOnDestroy, []string{"aws_subnet"}, destroys("aws_subnet"), "b", "b", true},
		"a list replaces the default":                  {infrav1.RolloutApprovalOnDestroy, []string{"aws_subnet"}, destroys("aws_eks_cluster"), "b", "b", false},
		"the empty list":                               {infrav1.RolloutApprovalNone, []string{"None"}, destroys("aws_eks_cluster"), "", "", false},
	} {
		change := Change{Revision: "b", Approve: row.approve, ApproveDestroy: row.destroy, Policy: infrav1.WorkspaceTemplateRollout{
			Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: row.approval, NeverDestroy: row.never}}
		want := ""
		if row.held {
			want = infrav1.WaitingForApprovalReason
		}
		assert.Equal(t, want, change.HeldBy(row.preview), name)
		assert.Equal(t, row.held || row.approve != "b", change.NeedsPreview(row.preview), "%s: the plan is kept while it holds the change", name)
	}
}

func TestTheMessageOfAChangeNamesTheCommand(t *testing.T) {
	const (
		command, approve = ". To approve this content, run: command", "capt.cluster.x-k8s.io/approve"
		allow            = "captctl template approve-change ns/a --allow-destroy"
		both             = "To approve that, set the annotations " + approve + " and " + approve + "-destroy to b. captctl lists what is destroyed, and asks: " + allow
	)
	onChanges := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges}
	onDestroy := onChanges
	onDestroy.Approval = infrav1.RolloutApprovalOnDestroy
	changes := func(destroys ...string) infrav1.RevisionPreview {
		c := &infrav1.PlannedChanges{Destroys: destroys, Counts: []infrav1.PlannedCount{{Action: infrav1.PlanUpdate, Count: 1}}}
		if len(destroys) > 0 {
			c.Counts[0].Action = infrav1.PlanReplace
		}
		return infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: c}
	}
	fails := infrav1.RevisionPreview{Result: infrav1.PreviewFailed, Message: "no"}
	for want, row := range map[string]struct {
		change  Change
		preview infrav1.RevisionPreview
	}{
		"Terraform plans it first, when the Workspace is up to date, as the rollout policy of T requires" + command: {Change{Policy: onChanges}, infrav1.RevisionPreview{}},
		"Terraform plans it first, when the Workspace is up to date, as the rollout policy of T requires. The approval takes effect then. To apply it without a plan, whatever it destroys, run: " + allow: {
			Change{Policy: onChanges, Approve: "b"}, infrav1.RevisionPreview{}},
		"Terraform plans it first, when the Workspace is up to date, as the rollout policy of T requires. The approval takes effect then": {
			Change{Policy: onChanges, Approve: "b", ApproveDestroy: "b", IsPlannable: true}, infrav1.RevisionPreview{}},
		"Terraform would change resources, and the rollout policy of T requires an approval" + command:                                           {Change{Policy: onChanges}, changes()},
		"Terraform would change nothing, and the rollout policy of T requires an approval" + command:                                             {Change{Policy: onChanges}, infrav1.RevisionPreview{Result: infrav1.PreviewEmpty}},
		"Terraform would replace or delete resources. " + both:                                                                                   {Change{Policy: onChanges}, changes("aws_subnet")},
		"Terraform would change resources, and it is not known which. " + both:                                                                   {Change{Policy: onDestroy}, infrav1.RevisionPreview{Result: infrav1.PreviewChanges}},
		"Terraform would destroy aws_vpc, which spec.rollout.neverDestroy does not allow. Change the template so that it does not, or that list": {Change{Policy: onChanges}, changes("aws_vpc")},
		"its plan fails: no. CAPT retries every 10 minutes" + command:                                                                            {Change{Policy: onChanges}, fails},
		"its plan fails: no. CAPT retries every 10 minutes. Terraform would change resources, and it is not known which. " + both: {
			Change{Policy: onDestroy}, fails},
		"it cannot be previewed: no. CAPT retries every 10 minutes" + command: {Change{Policy: onChanges}, infrav1.RevisionPreview{Result: infrav1.PreviewUnavailable, Message: "no"}},
		"the rollout policy of T requires an approval. The annotation " + approve + " is a, which is not the hash of this content, and has no effect" + command: {
			Change{Approve: "a"}, infrav1.RevisionPreview{}},
	} {
		change := row.change
		change.Revision = "b"
		assert.Equal(t, "the changed spec (content b) is not applied yet: "+want, change.Message("T", row.preview, "command", "ns/a"))
	}
}

func TestTheMessageOfAMoveNamesBothTemplates(t *testing.T) {
	move := Change{Policy: ofMoves, MovedFrom: "ns/old", Revision: "b"}
	const is = "the move from WorkspaceTemplate ns/old to ns/new (content b) is not applied yet: "
	const keep = ". To keep what the former template created, refer to it again. "
	assert.Equal(t, is+"Terraform plans it first, when the Workspace is up to date, as such a move requires"+keep+"To approve this content, run: command",
		move.Message("WorkspaceTemplate ns/new", infrav1.RevisionPreview{}, "command", "ns/a"))
	message := move.Message("WorkspaceTemplate ns/new", infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &infrav1.PlannedChanges{
		Destroys: []string{"aws_eks_cluster"}, Counts: []infrav1.PlannedCount{{Action: infrav1.PlanDelete, Count: 1}},
	}}, "command", "ns/a")
	assert.Contains(t, message, is+"Terraform would replace or delete resources. ")
	assert.Contains(t, message, keep+"captctl lists what is destroyed, and asks: captctl template approve-change ns/a --allow-destroy")
}

func TestTheHashOfASpecIsOfWhatIsRendered(t *testing.T) {
	with := func(change func(*infrav1.WorkspaceTemplateApplySpec)) string {
		apply := builder.WorkspaceTemplateApply("a")
		change(&apply.Spec)
		return SpecHash(apply)
	}
	same := with(func(*infrav1.WorkspaceTemplateApplySpec) {})
	assert.Equal(t, same, with(func(s *infrav1.WorkspaceTemplateApplySpec) { s.TemplateRevision, s.WorkspaceName = "other", "other" }))
	none := with(func(s *infrav1.WorkspaceTemplateApplySpec) { s.Variables = nil })
	assert.Equal(t, none, with(func(s *infrav1.WorkspaceTemplateApplySpec) { s.Variables = infrav1.TextVariables(map[string]string{}) }))
	assert.NotEqual(t, same, none)
	assert.NotEqual(t, same, with(func(s *infrav1.WorkspaceTemplateApplySpec) {
		s.Variables = infrav1.TextVariables(map[string]string{"a": "b"})
	}))
	assert.NotEqual(t, same, with(func(s *infrav1.WorkspaceTemplateApplySpec) { s.TemplateRef.Name = "other" }))
	assert.NotEqual(t, same, SpecHash(builder.WorkspaceTemplateApply("a", builder.WithConnectionSecret("out", ""))))
}

// A move is recognized by the template that Terraform has applied: a return to it undoes the move.
func TestAMoveIsHeldUnlessItReturns(t *testing.T) {
	staged := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}
	always := staged
	always.Preview, always.Approval = infrav1.RolloutPreviewAlways, infrav1.RolloutApprovalAlways
	for name, row := range map[string]struct {
		policy  infrav1.WorkspaceTemplateRollout
		applied string
		want    Change
	}{
		"never applied":                       {staged, "", Change{}},
		"the template that was applied":       {staged, "default/vpc", Change{}},
		"another one":                         {staged, "default/old", Change{Policy: ofMoves, MovedFrom: "default/old", Revision: "r"}},
		"another one without a policy":        {infrav1.WorkspaceTemplateRollout{}, "default/old", Change{Policy: ofMoves, MovedFrom: "default/old", Revision: "r"}},
		"a policy that holds all changes":     {always, "default/old", Change{Policy: always, Revision: "r"}},
		"the same name in another namespace":  {staged, "other/vpc", Change{Policy: ofMoves, MovedFrom: "other/vpc", Revision: "r"}},
		"a policy that holds all, not a move": {always, "default/vpc", Change{Policy: always, Revision: "r"}},
	} {
		apply := builder.WorkspaceTemplateApply("a")
		apply.Status.AppliedTemplate = row.applied
		assert.Equal(t, row.want, ChangeOf(apply, row.policy, "r"), name)
	}
}
