// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// none as the only element of neverDestroy is the empty list.
const none = "None"

const neverAllowed = "which spec.rollout.neverDestroy does not allow"

// NeverDestroy returns the types of resources that a policy never allows to be replaced or deleted.
func NeverDestroy(policy infrav1.WorkspaceTemplateRollout) []string {
	switch {
	case len(policy.NeverDestroy) == 0:
		return []string{"aws_eks_cluster", "aws_vpc", "aws_db_instance", "aws_s3_bucket", "aws_dynamodb_table", "aws_efs_file_system"}
	case slices.Equal(policy.NeverDestroy, []string{none}):
		return nil
	}
	return policy.NeverDestroy
}

// approval is what a user has approved of exactly one content.
type approval struct {
	// given is true if the content is approved, and destroy if what its plan destroys is, too.
	given, destroy bool
}

// forbidden returns the types that a plan would destroy although a policy never allows that.
func forbidden(policy infrav1.WorkspaceTemplateRollout, preview infrav1.RevisionPreview) (types []string) {
	if preview.Result != infrav1.PreviewChanges || preview.Changes == nil {
		return nil
	}
	never := NeverDestroy(policy)
	return slices.DeleteFunc(slices.Clone(preview.Changes.Destroys), func(name string) bool { return !slices.Contains(never, name) })
}

// needsDestroyApproval reports whether a plan needs an approval of what it destroys. With approval OnDestroy, what is not known counts as destructive;
// with OnChanges and Always, an approval covers it.
func needsDestroyApproval(policy infrav1.WorkspaceTemplateRollout, preview infrav1.RevisionPreview) bool {
	isKnown := preview.Changes != nil && preview.Changes.Unknown == ""
	return preview.IsDestructive() && policy.RequiresApproval() && (isKnown || policy.Approval == infrav1.RolloutApprovalOnDestroy)
}

// mayDestroy reports whether a plan passes as far as it destroys something.
func mayDestroy(policy infrav1.WorkspaceTemplateRollout, preview infrav1.RevisionPreview, a approval) bool {
	return len(forbidden(policy, preview)) == 0 && (!needsDestroyApproval(policy, preview) || a.given && a.destroy)
}

// whyNotDestroyed returns what to do about a plan that mayDestroy does not let pass. subject is the user, or empty.
func whyNotDestroyed(policy infrav1.WorkspaceTemplateRollout, preview infrav1.RevisionPreview, subject, revision string) string {
	if types := forbidden(policy, preview); len(types) > 0 {
		return fmt.Sprintf("Terraform would destroy %s%s, "+neverAllowed+". Change the template so that it does not, or that list", strings.Join(types, ", "), subject)
	}
	what := "replace or delete resources" + subject
	if preview.Changes == nil || preview.Changes.Unknown != "" {
		what = "change resources" + subject + ", and it is not known which"
	}
	return fmt.Sprintf("Terraform would %s. To approve that, set the annotations %s and %s to %s", what, naming.ApproveAnnotation, naming.ApproveDestroyAnnotation, revision)
}

// planOf returns the preview of the target revision of a user. After a resume, a plan that fails counts as changes that are not known.
func (r *rollout) planOf(u *User) infrav1.RevisionPreview {
	if u.plan == infrav1.PreviewChanges && u.Preview.Result != infrav1.PreviewChanges {
		return infrav1.RevisionPreview{Result: infrav1.PreviewChanges}
	}
	return u.Preview
}

// isWithheld reports whether a user keeps its revision because of what the plan would destroy.
func (r *rollout) isWithheld(u *User) bool {
	return u.State(r.Target) == UserWaiting && u.plan == infrav1.PreviewChanges && !mayDestroy(r.Policy, r.planOf(u), approval{r.Approve == r.Target, r.ApproveDestroy == r.Target})
}

// withheld returns the users that are.
func (r *rollout) withheld() (users []*User) {
	for i := range r.users {
		if u := &r.users[i]; r.isWithheld(u) {
			users = append(users, u)
		}
	}
	return users
}

// onlyWithheld reports whether nothing is left to do but for users that are withheld.
func (r *rollout) onlyWithheld() bool {
	return len(r.withheld()) > 0 && !slices.ContainsFunc(pointers(r.users), func(u *User) bool {
		state := u.State(r.Target)
		return !r.isWithheld(u) && !r.isLeftBehind(u) && !u.keepsRevision() && (state == UserWaiting || state == UserUpdating)
	})
}

// whyWithheld returns why the first of the users that are withheld is, and what to do, with the others that need the same; empty without one.
func (r *rollout) whyWithheld() string {
	users := r.withheld()
	if len(users) == 0 {
		return ""
	}
	types := func(u *User) []string { return forbidden(r.Policy, r.planOf(u)) }
	var names []string
	for _, u := range users {
		if slices.Equal(types(u), types(users[0])) { // An approval helps none of the others, or only them.
			names = append(names, u.Key.String())
		}
	}
	return whyNotDestroyed(r.Policy, r.planOf(users[0]), " for "+Names(names), r.Target)
}
