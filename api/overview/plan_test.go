// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/test/builder"
)

func counts(of ...any) (list []infrav1.PlannedCount) {
	for i := 0; i < len(of); i += 2 {
		list = append(list, infrav1.PlannedCount{Action: of[i].(infrav1.PlanAction), Count: int32(of[i+1].(int))}) //nolint:forcetypeassert // They are pairs.
	}
	return list
}

func TestPlanSummary(t *testing.T) {
	changes := func(c infrav1.PlannedChanges) infrav1.RevisionPreview {
		return infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: &c}
	}
	for want, preview := range map[string]infrav1.RevisionPreview{
		"":            {},
		"none":        {Result: infrav1.PreviewEmpty},
		"failed":      {Result: infrav1.PreviewFailed, Message: "no"},
		"unavailable": {Result: infrav1.PreviewUnavailable, Message: "no"},
		"?":           {Result: infrav1.PreviewChanges},
		"outputs 2":   changes(infrav1.PlannedChanges{Outputs: 2, Drifted: 1}),
		"drift 1":     changes(infrav1.PlannedChanges{Drifted: 1}),
		"+1 ~2 -/+3 -4 import 5 forget 6 move 7": changes(infrav1.PlannedChanges{Outputs: 2, Counts: counts(
			infrav1.PlanReplace, 3, infrav1.PlanDelete, 4, infrav1.PlanForget, 6, infrav1.PlanUpdate, 2, infrav1.PlanCreate, 1, infrav1.PlanImport, 5, infrav1.PlanMove, 7,
		)}),
	} {
		assert.Equal(t, want, planSummary(&preview))
	}
	unknown := changes(infrav1.PlannedChanges{Unknown: "the log is gone"})
	assert.Equal(t, UnknownPlan, planSummary(&unknown))
}

func TestLinesOfAPlan(t *testing.T) {
	c := &infrav1.PlannedChanges{
		Counts: counts(infrav1.PlanReplace, 1, infrav1.PlanDelete, 60, infrav1.PlanUpdate, 3, infrav1.PlanImport, 2), Outputs: 1, Drifted: 2,
		Resources: []infrav1.PlannedResource{
			{Address: "aws_eks_cluster.this", Type: "aws_eks_cluster", Action: infrav1.PlanReplace, Reason: "cannot_update"},
			{Address: "aws_subnet.this[\"a\"]", Type: "aws_subnet", Action: infrav1.PlanDelete},
			{Address: "aws_vpc.this", Type: "aws_vpc", Action: infrav1.PlanUpdate},
			{Address: "aws_s3_bucket.\nthis", Type: "aws_s3_bucket", Action: infrav1.PlanImport},
		},
	}
	plan := &Plan{Destroys: true, Preview: infrav1.RevisionPreview{Result: infrav1.PreviewChanges, Changes: c}}
	assert.Equal(t, []string{
		"-/+ aws_eks_cluster.this (cannot_update)", `- aws_subnet.this["a"]`, "~ aws_vpc.this", "import aws_s3_bucket. this", "and 61 more", "outputs: 1", "changed outside of Terraform: 2",
	}, plan.Lines(10), "what is updated and imported is listed once")
	assert.Equal(t, []string{"-/+ aws_eks_cluster.this (cannot_update)", `- aws_subnet.this["a"]`, "and 59 more"}, plan.Destroyed(10))
	assert.Equal(t, []string{"-/+ aws_eks_cluster.this (cannot_update)", "and 60 more"}, plan.Destroyed(1))

	assert.Equal(t, `replace aws_eks_cluster.this (cannot_update), delete aws_subnet.this["a"], and 63 more, change outputs (1)`, ChangesText(c, 2))
	assert.Equal(t, "record what was changed outside of Terraform (2)", ChangesText(&infrav1.PlannedChanges{Drifted: 2}, 2))
	assert.Empty(t, ChangesText(&infrav1.PlannedChanges{Unknown: "the log is gone"}, 2)+ChangesText(nil, 2))

	plan.Preview.Changes = &infrav1.PlannedChanges{Unknown: "the log of\nprovider-terraform is gone"}
	assert.Equal(t, []string{"what changes is not known: the log of provider-terraform is gone"}, plan.Lines(10))
	plan.Preview.Changes = nil
	assert.Equal(t, []string{"what changes is not known: the plan was not read"}, plan.Destroyed(10))
	plan.Preview = infrav1.RevisionPreview{Result: infrav1.PreviewFailed, Message: "Error:\nno"}
	assert.Equal(t, []string{"Error: no"}, plan.Lines(10))
	assert.Empty(t, (&Plan{Preview: infrav1.RevisionPreview{Result: infrav1.PreviewEmpty}}).Lines(10))
}

// A plan is shown while what was planned waits.
func TestPlanOfWhatWaits(t *testing.T) {
	changes := infrav1.RevisionPreview{TemplateRevision: "two", Result: infrav1.PreviewChanges}
	for name, row := range map[string]struct {
		status infrav1.WorkspaceTemplateApplyStatus
		want   string
	}{
		"a revision":                     {infrav1.WorkspaceTemplateApplyStatus{WrittenTemplateRevision: "one", Preview: changes}, "revision two: ? true"},
		"a revision that it has got":     {infrav1.WorkspaceTemplateApplyStatus{WrittenTemplateRevision: "two", Preview: changes}, ""},
		"a proof of an adoption":         {infrav1.WorkspaceTemplateApplyStatus{Preview: infrav1.RevisionPreview{TemplateRevision: "two", Proof: "x", Result: infrav1.PreviewEmpty}}, ""},
		"a change of its own":            {infrav1.WorkspaceTemplateApplyStatus{Preview: changes, Change: infrav1.HeldChange{Revision: "content", Preview: infrav1.RevisionPreview{Result: infrav1.PreviewEmpty}}}, "change content: none false"},
		"a change that is not planned":   {infrav1.WorkspaceTemplateApplyStatus{Preview: changes, Change: infrav1.HeldChange{Revision: "content"}}, ""},
		"nothing, and was never planned": {},
	} {
		t.Run(name, func(t *testing.T) {
			apply := builder.WorkspaceTemplateApply("a")
			apply.Status = row.status
			plans := (&Objects{Applies: []*infrav1.WorkspaceTemplateApply{apply}}).Plans()
			if row.want == "" {
				assert.Empty(t, plans)
				return
			}
			require.Len(t, plans, 1)
			assert.Equal(t, row.want, fmt.Sprintf("%s: %s %v", plans[0].Content(), plans[0].Summary, plans[0].Destroys))
		})
	}
}
