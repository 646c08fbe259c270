// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package templates

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	findings.Refuse(validateCanaries(policy.Canary, path.Child("canary"))...)
	if policy.Approval == infrav1.RolloutApprovalOnChanges && policy.Preview != infrav1.RolloutPreviewAlways {
		findings.Refuse(validation.Invalid(path.Child("approval"), "is OnChanges, which requires previews. Set spec.rollout.preview to Always"))
	}
	if policy.Strategy == infrav1.RolloutImmediate && policy != (infrav1.WorkspaceTemplateRollout{Strategy: infrav1.RolloutImmediate}) {
		findings.Warn(path.Child("strategy"), "is Immediate, so that the other fields of spec.rollout have no effect. Set it to Staged")
	}
	for _, annotation := range []string{naming.ApproveAnnotation, naming.ResumeAnnotation} {
		named, revision := template.Annotations[annotation], rollout.HashOf(template)
		if policy.IsStaged() && named != "" && named != revision {
			findings.Warn(field.NewPath("metadata", "annotations").Key(annotation), "is %s, and has no effect: the revision of the current content is %s. Set the annotation to that revision", named, revision)
		}
	}
	return findings
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
