// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// withPlan sets the result of the preview of the target revision. After a resume, a plan that fails does not stop the rollout, and counts as changes.
func (r *rollout) withPlan(user User) User {
	if r.Policy.IsPreviewed() && user.Preview.TemplateRevision == r.Target {
		user.plan = user.Preview.Result
	}
	if user.plan == infrav1.PreviewFailed && r.resumed() {
		user.plan = infrav1.PreviewChanges
	}
	return user
}

// usersWith returns the users that wait, may get another revision, and have a result of the preview; empty means none yet.
func (r *rollout) usersWith(plan infrav1.PreviewResult) (users []*User) {
	for i := range r.users {
		if u := &r.users[i]; u.State(r.Target) == UserWaiting && u.plan == plan && !u.KeepsRevision() {
			users = append(users, u)
		}
	}
	return users
}

// selectEmpty selects the users for which Terraform changes nothing. They need no canaries, and are not limited in number. With approval Always,
// they wait for it.
func (r *rollout) selectEmpty() {
	if r.Policy.Approval == infrav1.RolloutApprovalAlways && !r.approved() {
		return
	}
	r.assigned = append(r.assigned, r.usersWith(infrav1.PreviewEmpty)...)
}

// unplanned lists the users that must be previewed before any user with changes follows: the canaries are among those with changes. Paused
// users, those with a change of their own, late ones, and those that are left behind are not waited for.
func (r *rollout) unplanned() (names []string) {
	if !r.Policy.IsPreviewed() {
		return nil
	}
	for _, plan := range []infrav1.PreviewResult{"", infrav1.PreviewUnavailable} {
		for _, u := range r.usersWith(plan) {
			if !u.late && !r.isLeftBehind(u) {
				names = append(names, u.Key.String())
			}
		}
	}
	return names
}

// unavailable returns the first user that must be previewed, and cannot be; nil without one.
func (r *rollout) unavailable() *User {
	for _, u := range r.usersWith(infrav1.PreviewUnavailable) {
		if !u.late && !r.isLeftBehind(u) {
			return u
		}
	}
	return nil
}

// whyUnavailable returns why a user cannot be previewed.
func (r *rollout) whyUnavailable(u *User) string {
	switch {
	case u.Preview.TemplateRevision == r.Target && u.Preview.Message != "":
		return u.Preview.Message
	case u.ReadySince.IsZero():
		return "it has not been at rest since the rollout started: see its conditions"
	}
	return "no preview has run: check the manager that reconciles it"
}

// countPlans sets the users by the result of the preview.
func (r *rollout) countPlans(d *Decision) {
	for i := range r.users {
		u := &r.users[i]
		if !r.Policy.IsPreviewed() || u.Preview.TemplateRevision != r.Target {
			continue
		}
		name := u.Key.String()
		switch u.Preview.Result {
		case infrav1.PreviewEmpty:
			d.PreviewedEmpty = append(d.PreviewedEmpty, name)
		case infrav1.PreviewChanges:
			d.PreviewedChanges = append(d.PreviewedChanges, name)
			if u.Preview.IsDestructive() {
				d.PreviewedDestroy = append(d.PreviewedDestroy, name)
			}
		case infrav1.PreviewFailed:
			d.PreviewFailed = append(d.PreviewFailed, name)
		case infrav1.PreviewUnavailable:
		}
	}
}

// previewed is the part of the message about previews; empty without one.
func (r *rollout) previewed(d *Decision) string {
	if !r.Policy.IsPreviewed() {
		return ""
	}
	var parts []string
	if len(d.PreviewedEmpty) > 0 {
		parts = append(parts, fmt.Sprintf("nothing changes for %d users", len(d.PreviewedEmpty)))
	}
	for _, list := range []struct {
		title string
		users []string
	}{{"Terraform would change", d.PreviewedChanges}, {"the plan fails for", d.PreviewFailed}, {"no preview yet", r.unplanned()}} {
		if len(list.users) > 0 {
			parts = append(parts, list.title+": "+Names(list.users))
		}
	}
	return strings.Join(parts, "; ")
}

// whyNoPlan returns why the first failed plan failed, or a preview is unavailable; empty without one.
func (r *rollout) whyNoPlan() string {
	for i := range r.users {
		if u := &r.users[i]; u.Assigned != r.Target && u.plan == infrav1.PreviewFailed {
			return fmt.Sprintf(". The plan for %s fails: %s", u.Key, u.Preview.Message)
		}
	}
	return ""
}

// neverEmpty is the part of the message about users that may wait for an approval only because of what Terraform changes at each run.
func (r *rollout) neverEmpty() string {
	var names []string
	for _, u := range r.usersWith(infrav1.PreviewChanges) {
		if u.NeverEmpty {
			names = append(names, u.Key.String())
		}
	}
	if r.Policy.Approval != infrav1.RolloutApprovalOnChanges || len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(". Terraform changes something of %s at each run, whatever the revision (condition %s, which names it), so that they wait for every revision", Names(names), infrav1.PlanNeverEmptyCondition)
}

// Change is a change of one user of a template that is held: of its variables, its connection Secret or its template.
type Change struct {
	// Policy is the rollout policy of the template, or the one for moves.
	Policy infrav1.WorkspaceTemplateRollout
	// MovedFrom is the template that was last applied, as namespace/name, if the change is held only because the object moves to another one.
	MovedFrom string
	// Revision is the hash of the rendered Workspace; empty if no change is pending.
	Revision string
	// Approve and ApproveDestroy are the values of the annotations of the user.
	Approve, ApproveDestroy string
	// IsPlannable is true while Terraform can plan the change: the Workspace is at rest.
	IsPlannable bool
}

// ofMoves is the policy for a move to another template whose own policy holds no changes. The Terraform state stays the same, so that Terraform destroys
// what the former module created and the new one does not have.
var ofMoves = infrav1.WorkspaceTemplateRollout{
	Strategy: infrav1.RolloutStaged, Preview: infrav1.RolloutPreviewAlways, Approval: infrav1.RolloutApprovalOnDestroy, NeverDestroy: []string{none},
}

// ChangeOf returns the change of a user, whose Workspace differs from the rendered one with the revision; the zero value if the change is not held. A policy
// that holds changes holds all whose spec differs from the one that was written; without a record of that, all. Otherwise, a move to another template is held
// if Terraform has applied the former one.
func ChangeOf(apply *infrav1.WorkspaceTemplateApply, policy infrav1.WorkspaceTemplateRollout, revision string) Change {
	c := Change{Policy: policy, Revision: revision, Approve: apply.Annotations[naming.ApproveAnnotation], ApproveDestroy: apply.Annotations[naming.ApproveDestroyAnnotation]}
	s := &apply.Status
	switch {
	case policy.HoldsChanges():
		if SpecHash(apply) != s.WrittenSpec {
			return c
		}
	case s.AppliedTemplate != "" && s.AppliedTemplate != apply.TemplateKey().String():
		c.Policy, c.MovedFrom = ofMoves, s.AppliedTemplate
		return c
	}
	return Change{}
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

// isApproved reports whether a user approved exactly this change.
func (c Change) isApproved() bool { return c.IsPending() && c.Approve == c.Revision }

// mayDestroy reports whether the change passes as far as its plan destroys something. What a plan that fails, or is not possible, would show counts as not known.
func (c Change) mayDestroy(preview infrav1.RevisionPreview) bool {
	if preview.Result == infrav1.PreviewFailed || preview.Result == infrav1.PreviewUnavailable {
		preview = infrav1.RevisionPreview{Result: infrav1.PreviewChanges}
	}
	return mayDestroy(c.Policy, preview, approval{c.isApproved(), c.ApproveDestroy == c.Revision})
}

// isReleased reports whether a user released the change. An approval waits for the plan, which may destroy something, also what the policy never allows. With
// an approval of that, it does not wait for a plan that is not possible.
func (c Change) isReleased(preview infrav1.RevisionPreview) bool {
	awaitsPlan := c.Policy.IsPreviewed() && preview.Result == "" && (c.IsPlannable || c.ApproveDestroy != c.Revision)
	return c.isApproved() && !awaitsPlan && c.mayDestroy(preview)
}

// NeedsPreview reports whether Terraform must plan the change before it can pass. The preview is the last one of exactly this change; the zero value
// without one.
func (c Change) NeedsPreview(preview infrav1.RevisionPreview) bool {
	return c.IsPending() && c.Policy.IsPreviewed() && !c.isReleased(preview)
}

// HeldBy returns the reason why the change is held; empty if it passes. The preview is about exactly this change; the zero value without one. An
// approval passes whatever the result is, except for what the plan destroys.
func (c Change) HeldBy(preview infrav1.RevisionPreview) string {
	result := preview.Result
	required := c.Policy.Approval == infrav1.RolloutApprovalAlways || c.Policy.Approval == infrav1.RolloutApprovalOnChanges && result != infrav1.PreviewEmpty
	switch {
	case !c.IsPending(), c.isReleased(preview):
		return ""
	case c.Policy.IsPreviewed() && result == "":
		return infrav1.PreviewingChangeReason
	case !c.mayDestroy(preview):
		return infrav1.WaitingForApprovalReason
	case required, result == infrav1.PreviewFailed, result == infrav1.PreviewUnavailable:
		return infrav1.WaitingForApprovalReason
	}
	return ""
}

// Message is why the change is held, and what to do. approve is the command that approves it, and object the argument of captctl for the user.
func (c Change) Message(template string, preview infrav1.RevisionPreview, approve, object string) string {
	what, holder, undo := c.describe(template)
	required := holder + " requires an approval"
	reason := map[infrav1.PreviewResult]string{
		"":                         required,
		infrav1.PreviewEmpty:       "Terraform would change nothing, and " + required,
		infrav1.PreviewChanges:     "Terraform would change resources, and " + required,
		infrav1.PreviewFailed:      "its plan fails: " + preview.Message + ". CAPT retries every 10 minutes",
		infrav1.PreviewUnavailable: "it cannot be previewed: " + preview.Message + ". CAPT retries every 10 minutes",
	}[preview.Result]
	allowDestroy := "captctl template approve-change " + object + " --allow-destroy"
	next := "To approve this content, run: " + approve
	switch awaitsPlan := preview.Result == "" && c.Policy.IsPreviewed(); {
	case awaitsPlan:
		reason = "Terraform plans it first, when the Workspace is up to date, as " + holder + " requires"
		if c.isApproved() {
			next = "The approval takes effect then" + c.withoutPlan(allowDestroy)
		}
	case len(forbidden(c.Policy, preview)) > 0:
		reason, next = whyNotDestroyed(c.Policy, preview, "", c.Revision), ""
	case !c.mayDestroy(preview):
		if preview.Result == infrav1.PreviewChanges {
			reason = ""
		}
		reason, next = join(reason, whyNotDestroyed(c.Policy, preview, "", c.Revision)), "captctl lists what is destroyed, and asks: "+allowDestroy
	case preview.Result == infrav1.PreviewChanges && preview.Message != "":
		reason += " (" + preview.Message + ")"
	}
	if c.Approve != "" && !c.isApproved() {
		reason += fmt.Sprintf(". The annotation %s is %s, which is not the hash of this content, and has no effect", naming.ApproveAnnotation, c.Approve)
	}
	return join(fmt.Sprintf("the %s (content %s) is not applied yet: %s%s", what, terraform.ShortRevision(c.Revision), reason, undo), next)
}

// describe returns what is held, what holds it, and how to undo a move.
func (c Change) describe(template string) (what, holder, undo string) {
	if c.MovedFrom == "" {
		return "changed spec", "the rollout policy of " + template, ""
	}
	return "move from WorkspaceTemplate " + c.MovedFrom + " to " + strings.TrimPrefix(template, "WorkspaceTemplate "), "such a move", ". To keep what the former template created, refer to it again"
}

// withoutPlan is how to apply an approved change that Terraform cannot plan now.
func (c Change) withoutPlan(allowDestroy string) string {
	if c.IsPlannable {
		return ""
	}
	return ". To apply it without a plan, whatever it destroys, run: " + allowDestroy
}

// join returns two sentences as one text; either may be empty.
func join(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + ". " + second
}

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
		return !r.isWithheld(u) && !r.isLeftBehind(u) && !u.KeepsRevision() && (state == UserWaiting || state == UserUpdating)
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
