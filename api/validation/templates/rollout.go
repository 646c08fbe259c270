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
	canary := path.Child("canary")
	if selector := policy.Canary.Selector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			findings.Refuse(validation.Invalid(canary.Child("selector"), "is not a valid label selector: %v. Correct the selector", err))
		}
	}
	if !policy.Canary.IsDefined() && policy.Canary.SoakSeconds > 0 {
		findings.Refuse(validation.Invalid(canary, "selects no user, so soakSeconds has no effect. Set selector or count, or remove soakSeconds"))
	}
	if policy.Approval == infrav1.RolloutApprovalOnChanges && policy.Preview != infrav1.RolloutPreviewAlways {
		findings.Refuse(validation.Invalid(path.Child("approval"), "is OnChanges, which requires spec.rollout.preview Always"))
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
