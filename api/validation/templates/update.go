// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// ValidateUpdate refuses an update that removes the policy of a staged rollout, for example with a manifest that lacks it, if that could let a
// content reach all users at once. Strategy Immediate does that on purpose.
func ValidateUpdate(old, template *infrav1.WorkspaceTemplate) (errs field.ErrorList) {
	removed := old.Spec.Rollout.IsStaged() && template.Spec.Rollout.Strategy == ""
	if removed && (rollout.HashOf(old) != rollout.HashOf(template) || isRollingOut(old)) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "rollout"),
			"cannot be removed together with a change of the content, or before its rollout is complete: it could reach all users at once. Keep the policy, or set spec.rollout.strategy to Immediate to update all users at once"))
	}
	return errs
}

// isRollingOut reports whether users of a template with a staged rollout may still have another revision.
func isRollingOut(template *infrav1.WorkspaceTemplate) bool {
	status := template.Status.Rollout
	return status.Stage != "" && (status.Stage != infrav1.RolloutComplete || status.Revision != rollout.HashOf(template))
}

// UpdateWarnings warns of a template update that reaches existing Workspaces: Terraform runs in each of them, or, if the update changes the
// ProviderConfig, none of them gets it. It is not an error, because the change may be intended, in the second case for new
// WorkspaceTemplateApplies.
func UpdateWarnings(ctx context.Context, reader validation.Reader, old, template *infrav1.WorkspaceTemplate) ([]string, error) {
	before, after := old.Spec.Template.Spec, template.Spec.Template.Spec
	released := isRollingOut(old) && template.Spec.Rollout.Strategy == infrav1.RolloutImmediate
	if equality.Semantic.DeepEqual(before, after) && !released { // Other fields are not rendered.
		return nil, nil
	}
	users, err := reader.UsersOf(ctx, validation.KeyOf(template))
	if err != nil || users.Applies == 0 {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(before.ProviderConfigRef, after.ProviderConfigRef) {
		return []string{fmt.Sprintf(
			"spec.template.spec.providerConfigRef: %d WorkspaceTemplateApply objects use this template; their Workspaces keep their ProviderConfig, and get no update of this template until annotation %s of the WorkspaceTemplateApply names the new one",
			users.Applies, naming.AllowProviderConfigAnnotation)}, nil
	}
	warnings := lostOutputs(old, template)
	if template.RolloutPolicy().IsStaged() {
		return append(warnings, stagedWarning(template, users)), nil
	}
	return append(warnings, fmt.Sprintf(
		"spec.template.spec: %d WorkspaceTemplateApply objects in %d Clusters use this template: their Workspaces are rendered again, and Terraform applies what changes. captctl diff -f shows the changes of a file before it is applied",
		users.Applies, users.Clusters)), nil
}

// lostOutputs warns of outputs without which a VPC or a control plane is not Ready.
func lostOutputs(old, template *infrav1.WorkspaceTemplate) (warnings []string) {
	before, after := modules.OutputsOf(old), modules.OutputsOf(template)
	for _, output := range []string{terraform.OutputVPCID, terraform.OutputClusterEndpoint} {
		_, had := before[output]
		if _, has := after[output]; had && !has && after != nil {
			warnings = append(warnings, fmt.Sprintf("spec.template.spec.forProvider.module: the module no longer has the output %q, without which users of the template are not Ready. Keep the output", output))
		}
	}
	return warnings
}

// stagedWarning describes how an update reaches users in stages.
func stagedWarning(template *infrav1.WorkspaceTemplate, users validation.Users) string {
	revision := rollout.HashOf(template)
	warning := fmt.Sprintf("spec.template.spec: %d WorkspaceTemplateApply objects in %d Clusters use this template: they are updated to revision %s in stages, as the rollout policy of the template requires. status.rollout shows the progress",
		users.Applies, users.Clusters, terraform.ShortRevision(revision))
	switch template.RolloutPolicy().Approval {
	case infrav1.RolloutApprovalAlways:
		warning += fmt.Sprintf(". To start the rollout, set annotation %s to %s", naming.ApproveAnnotation, revision)
	case infrav1.RolloutApprovalOnChanges:
		warning += fmt.Sprintf(". Those for which Terraform would change something are updated when annotation %s is %s", naming.ApproveAnnotation, revision)
	case infrav1.RolloutApprovalNone:
	}
	return warning
}
