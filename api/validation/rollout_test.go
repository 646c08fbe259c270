// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

func TestRolloutPolicies(t *testing.T) {
	policy := func(policy infrav1.WorkspaceTemplateRollout) builder.Option {
		return with(func(spec *infrav1.WorkspaceTemplateSpec) { spec.Rollout = policy })
	}
	canary := infrav1.RolloutCanaries{Count: 1, SoakSeconds: 60}
	staged := infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}
	approving := func(revision string) builder.Option {
		return func(object client.Object) {
			policy(staged)(object)
			builder.WithAnnotation(naming.ApproveAnnotation, revision)(object)
		}
	}
	testTemplates(t, map[string]templateRow{
		"staged":        {option: policy(staged)},
		"with canaries": {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Canary: canary})},
		"immediate":     {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutImmediate})},
		"fields without effect": {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutImmediate, Canary: canary}),
			warnings: []string{"spec.rollout.strategy: is Immediate, so the other fields of spec.rollout have no effect"}},
		"a soak time without canaries": {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Canary: infrav1.RolloutCanaries{SoakSeconds: 60}}),
			errors: []finding{{"spec.rollout.canary", field.ErrorTypeInvalid, "selects no user"}}},
		"with previews": {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges})},
		"an approval of changes without previews": {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalOnChanges}),
			errors: []finding{{"spec.rollout.approval", field.ErrorTypeInvalid, "which requires previews. Set spec.rollout.preview to Always"}}},
		"a selector that cannot be read": {option: policy(infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged, Canary: infrav1.RolloutCanaries{
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Resembles"}}}}}),
			errors: []finding{{"spec.rollout.canary.selector", field.ErrorTypeInvalid, `"Resembles" is not a valid label selector operator`}}},
		"an approval of another revision": {option: approving("0123456789ab"), warnings: []string{"is 0123456789ab, and has no effect: the revision of the current content is"}},
		"an approval":                     {option: approving(rollout.HashOf(builder.WorkspaceTemplate("vpc")))},
	})
}

type users struct{ validation.Objects }

func (users) UsersOf(context.Context, types.NamespacedName) (validation.Users, error) {
	return validation.Users{Applies: 3, Clusters: 2}, nil
}

func TestAnEditOfATemplateWarnsOfHowItReachesUsers(t *testing.T) {
	revision := rollout.HashOf(builder.WorkspaceTemplate("vpc", builder.WithModule("# edited")))
	for want, policy := range map[string]infrav1.WorkspaceTemplateRollout{
		"Terraform applies what changes":                                                    {},
		"existing Workspaces are updated to revision":                                       {Strategy: infrav1.RolloutStaged},
		"To start the rollout, set annotation capt.cluster.x-k8s.io/approve to " + revision: {Strategy: infrav1.RolloutStaged, Approval: infrav1.RolloutApprovalAlways},
		"Those for which Terraform would change something are updated when annotation":      {Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnChanges},
	} {
		edited := builder.WorkspaceTemplate("vpc", builder.WithModule("# edited"), with(func(spec *infrav1.WorkspaceTemplateSpec) { spec.Rollout = policy }))
		findings, err := validation.ValidateChange(t.Context(), users{}, builder.WorkspaceTemplate("vpc"), edited)
		require.NoError(t, err)
		require.Len(t, findings.Warnings, 1)
		assert.Contains(t, findings.Warnings[0], "used by 3 WorkspaceTemplateApplies in 2 Clusters: ")
		assert.Contains(t, findings.Warnings[0], want)
	}
}

func TestAnEditThatRemovesARequiredOutputIsAWarning(t *testing.T) {
	const vpc = `output "vpc_id" { value = "vpc-1" }`
	for name, row := range map[string]struct {
		before, after string
		policy        infrav1.WorkspaceTemplateRollout
		warned        bool
	}{
		"renamed":                        {before: vpc, after: `output "id" { value = "vpc-1" }`, warned: true},
		"renamed, with a staged rollout": {before: vpc, after: "# edited", policy: infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutStaged}, warned: true},
		"kept":                           {before: vpc, after: "# edited\n" + vpc},
		"never there":                    {before: "# Fargate", after: "# edited"},
		"not known":                      {before: vpc, after: `output "${name}" { value = "vpc-1" }`},
	} {
		t.Run(name, func(t *testing.T) {
			edited := builder.WorkspaceTemplate("vpc", builder.WithModule(row.after), with(func(spec *infrav1.WorkspaceTemplateSpec) { spec.Rollout = row.policy }))
			findings, err := validation.ValidateChange(t.Context(), users{}, builder.WorkspaceTemplate("vpc", builder.WithModule(row.before)), edited)
			require.NoError(t, err)
			assert.Equal(t, row.warned, strings.Contains(findings.Warnings[0], `the module no longer has the output "vpc_id"`), findings.Warnings)
		})
	}
}

func TestThePolicyIsNotRemovedWhileUsersWait(t *testing.T) {
	withPolicy := func(strategy infrav1.RolloutStrategy, module string) *infrav1.WorkspaceTemplate {
		return builder.WorkspaceTemplate("vpc", builder.WithModule(module), with(func(spec *infrav1.WorkspaceTemplateSpec) { spec.Rollout.Strategy = strategy }))
	}
	for name, row := range map[string]struct {
		stage                      infrav1.RolloutStage
		strategy                   infrav1.RolloutStrategy
		module                     string
		refused, warned, outOfDate bool
	}{
		"removed while users wait":                      {stage: infrav1.RolloutCanary, refused: true},
		"removed after it was complete":                 {stage: infrav1.RolloutComplete},
		"removed before an edit was observed":           {stage: infrav1.RolloutComplete, outOfDate: true, refused: true},
		"removed by the edit":                           {stage: infrav1.RolloutComplete, module: "# edited", refused: true, warned: true},
		"removed before the manager observed it":        {},
		"Immediate while users wait":                    {stage: infrav1.RolloutCanary, strategy: infrav1.RolloutImmediate, warned: true},
		"Immediate after it was complete":               {stage: infrav1.RolloutComplete, strategy: infrav1.RolloutImmediate},
		"Immediate by the edit":                         {stage: infrav1.RolloutComplete, strategy: infrav1.RolloutImmediate, module: "# edited", warned: true},
		"Staged as before, with another edit meanwhile": {stage: infrav1.RolloutCanary, strategy: infrav1.RolloutStaged, module: "# edited", warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			old, updated := withPolicy(infrav1.RolloutStaged, ""), withPolicy(row.strategy, row.module)
			old.Status.Rollout.Stage, old.Status.Rollout.Revision = row.stage, rollout.HashOf(old)
			if row.outOfDate {
				old.Status.Rollout.Revision = "0123456789ab"
			}
			findings, err := validation.ValidateChange(t.Context(), users{}, old, updated)
			require.NoError(t, err)
			assert.Equal(t, row.refused, len(findings.Errors) > 0, findings)
			assert.Equal(t, row.warned, len(findings.Warnings) > 0, findings)
		})
	}
}

func TestTheDefaultPolicyIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"{strategy: Staged}": "",
		`{"strategy":"Staged","preview":"Always","approval":"OnChanges","canary":{"count":1,"soakSeconds":60},"maxConcurrent":3}`: "",
		"Staged":                                       "must have the fields of spec.rollout",
		"{strategy: Staged, previews: Always}":         `unknown field "previews"`,
		"{preview: Always}":                            `rollout.strategy: Unsupported value: ""`,
		"{strategy: staged}":                           `rollout.strategy: Unsupported value: "staged"`,
		"{strategy: Staged, preview: Sometimes}":       "rollout.preview: Unsupported value",
		"{strategy: Staged, approval: OnChanges}":      "which requires previews. Set rollout.preview to Always",
		"{strategy: Staged, state: Paused}":            "rollout.state: Unsupported value",
		"{strategy: Staged, maxConcurrent: -1}":        "rollout.maxConcurrent: Invalid value",
		"{strategy: Staged, canary: {soakSeconds: 1}}": "selects no user",
	} {
		policy, err := validation.ParseDefaultRollout(text)
		if want == "" {
			require.NoError(t, err, text)
			assert.Equal(t, text != "", policy.IsStaged())
			continue
		}
		assert.ErrorContains(t, err, want, text)
	}
}

func TestUsersAreCountedInWords(t *testing.T) {
	assert.Equal(t, "the template is used by 1 WorkspaceTemplateApply in 1 Cluster", validation.Users{Applies: 1, Clusters: 1}.String())
}
