// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/validation"
)

// validateRollout checks spec.rollout and the annotations for it. An annotation with another revision is a warning: with GitOps, the commit
// that approves a revision may be applied before the one that has it.
func validateRollout(template *infrav1.WorkspaceTemplate) validation.Findings {
	var findings validation.Findings
	policy, path := template.Spec.Rollout, field.NewPath("spec", "rollout")
	findings.Refuse(validatePolicy(policy, path)...)
	if policy.Strategy == infrav1.RolloutImmediate && policy != (infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutImmediate}) {
		findings.Warn(path.Child("strategy"), "is Immediate, so the other fields of spec.rollout have no effect. Set it to Staged")
	}
	for _, annotation := range []string{naming.ApproveAnnotation, naming.ResumeAnnotation} {
		named, revision := template.Annotations[annotation], rollout.HashOf(template)
		if policy.IsStaged() && named != "" && named != revision {
			findings.Warn(field.NewPath("metadata", "annotations").Key(annotation), "is %s, and has no effect: the revision of the current content is %s. Set the annotation to that revision", named, revision)
		}
	}
	return findings
}

func validatePolicy(policy infrav1.WorkspaceTemplateRollout, path *field.Path) field.ErrorList {
	errs := validateCanaries(policy.Canary, path.Child("canary"))
	if policy.Approval == infrav1.RolloutApprovalOnChanges && policy.Preview != infrav1.RolloutPreviewAlways {
		errs = append(errs, validation.Invalid(path.Child("approval"), "is OnChanges, which requires previews. Set %s to Always", path.Child("preview")))
	}
	return errs
}

// ParseDefaultRollout returns the policy in the value of --default-rollout: the fields of spec.rollout, as YAML or JSON. It checks what the schema
// checks in a template. The state is not part of a default: it would pause the rollouts of all templates.
func ParseDefaultRollout(text string) (policy infrav1.WorkspaceTemplateRollout, err error) {
	if text == "" {
		return policy, nil
	}
	if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
		return policy, fmt.Errorf("must have the fields of spec.rollout of a WorkspaceTemplate, as YAML or JSON: %w", err)
	}
	path := field.NewPath("rollout")
	errs := validatePolicy(policy, path)
	for _, of := range []struct {
		field, value string
		allowed      []string
	}{
		{"strategy", string(policy.Strategy), []string{string(infrav1.RolloutImmediate), string(infrav1.RolloutStaged)}},
		{"preview", string(policy.Preview), []string{"", string(infrav1.RolloutPreviewNever), string(infrav1.RolloutPreviewAlways)}},
		{"approval", string(policy.Approval), []string{"", string(infrav1.RolloutApprovalNone), string(infrav1.RolloutApprovalOnChanges), string(infrav1.RolloutApprovalAlways)}},
		{"onFailure", string(policy.OnFailure), []string{"", string(infrav1.RolloutFailureStop), string(infrav1.RolloutFailureContinue)}},
		{"state", string(policy.State), []string{""}},
	} {
		if !slices.Contains(of.allowed, of.value) {
			errs = append(errs, field.NotSupported(path.Child(of.field), of.value, of.allowed))
		}
	}
	for name, value := range map[string]int32{"maxConcurrent": policy.MaxConcurrent, "canary.count": policy.Canary.Count, "canary.soakSeconds": policy.Canary.SoakSeconds} {
		if value < 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, "must not be negative"))
		}
	}
	return policy, errs.ToAggregate()
}

func validateCanaries(canaries infrav1.RolloutCanaries, path *field.Path) (errs field.ErrorList) {
	if _, err := metav1.LabelSelectorAsSelector(canaries.Selector); err != nil {
		errs = append(errs, validation.Invalid(path.Child("selector"), "is not a valid label selector: %v. Correct the selector", err))
	}
	if !canaries.IsDefined() && canaries.SoakSeconds > 0 {
		errs = append(errs, validation.Invalid(path, "selects no user, so soakSeconds has no effect. Set selector or count, or remove soakSeconds"))
	}
	return errs
}
