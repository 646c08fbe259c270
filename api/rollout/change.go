// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Change is a change of one user of a template that the policy of the template holds: of its variables, its connection Secret or its template.
type Change struct {
	Policy infrav1.WorkspaceTemplateRollout
	// Revision is the hash of the rendered Workspace; empty if no change is pending.
	Revision string
	// Approve is the value of the annotation of the user.
	Approve string
}

// SpecHash returns a hash of the fields from which the Workspace of a user is rendered, apart from the revision of the template.
func SpecHash(apply *infrav1.WorkspaceTemplateApply) string {
	variables := maps.Clone(apply.Spec.Variables)
	if len(variables) == 0 {
		variables = nil // An empty map renders as none does.
	}
	hash, err := terraform.Revision([]any{apply.TemplateKey(), variables, apply.Spec.WriteConnectionSecretToRef})
	if err != nil {
		return "" // Cannot happen: it was decoded from JSON.
	}
	return hash
}

// IsPending reports whether there is a change.
func (c Change) IsPending() bool { return c.Revision != "" }

// IsApproved reports whether a user approved exactly this change.
func (c Change) IsApproved() bool { return c.IsPending() && c.Approve == c.Revision }

// NeedsPreview reports whether Terraform must plan the change before it can pass.
func (c Change) NeedsPreview() bool {
	return c.IsPending() && !c.IsApproved() && c.Policy.IsPreviewed()
}

// HeldBy returns the reason why the change is held; empty if it passes. The result is the one of the preview of exactly this change; empty without
// one. An approval passes whatever the result is.
func (c Change) HeldBy(result infrav1.PreviewResult) string {
	required := c.Policy.Approval == infrav1.RolloutApprovalAlways || c.Policy.RequiresApproval() && result != infrav1.PreviewEmpty
	switch {
	case !c.IsPending(), c.IsApproved():
		return ""
	case c.Policy.IsPreviewed() && result == "":
		return infrav1.PreviewingChangeReason
	case required, result == infrav1.PreviewFailed, result == infrav1.PreviewUnavailable:
		return infrav1.WaitingForApprovalReason
	}
	return ""
}

// Message is why the change is held, and what to do. approve is the command that approves it.
func (c Change) Message(template string, preview infrav1.RevisionPreview, approve string) string {
	required := "the rollout policy of " + template + " requires an approval"
	reason := map[infrav1.PreviewResult]string{
		"":                         required,
		infrav1.PreviewEmpty:       "Terraform would change nothing, and " + required,
		infrav1.PreviewChanges:     "Terraform would change resources, and " + required,
		infrav1.PreviewFailed:      "its plan fails: " + preview.Message + ". CAPT retries every 10 minutes",
		infrav1.PreviewUnavailable: "it cannot be previewed: " + preview.Message + ". CAPT retries every 10 minutes",
	}[preview.Result]
	switch {
	case preview.Result == "" && c.Policy.IsPreviewed():
		reason = "Terraform plans it first, when the Workspace is up to date, as the rollout policy of " + template + " requires"
	case preview.Result == infrav1.PreviewChanges && preview.Message != "":
		reason += " (" + preview.Message + ")"
	}
	if c.Approve != "" && !c.IsApproved() {
		reason += fmt.Sprintf(". The annotation %s is %s, which is not the hash of this content, and has no effect", naming.ApproveAnnotation, c.Approve)
	}
	return fmt.Sprintf("the changed spec (content %s) is not applied yet: %s. To approve this content, run: %s", terraform.ShortRevision(c.Revision), reason, approve)
}
