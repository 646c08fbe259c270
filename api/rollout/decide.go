// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Facts are everything that decides how a rollout continues. All of it is stored in API objects, so that another manager, or the same one
// after a restart, decides alike.
type Facts struct {
	Now    time.Time
	Policy infrav1.WorkspaceTemplateRollout
	// Target is the hash of the revision to roll out. History has it, too.
	Target  string
	History History
	// Started is when the rollout of the target started; zero if that is not recorded yet.
	Started time.Time
	// Approve, ApproveDestroy and Resume are the values of the annotations.
	Approve, ApproveDestroy, Resume string
	// Users are sorted by namespace and name. The order matters: a decision from a stale cache then assigns no user that a later one would
	// not assign, so that the limit of concurrent updates holds.
	Users []User
}

// FactsOf returns the facts of a template that has its current content in its history. The policy may be the default of the manager.
func FactsOf(template *infrav1.WorkspaceTemplate, policy infrav1.WorkspaceTemplateRollout, history History, users []User, now time.Time) Facts {
	f := Facts{
		Now: now, Policy: policy, Target: HashOf(template), History: history, Users: users,
		Approve: template.Annotations[naming.ApproveAnnotation], ApproveDestroy: template.Annotations[naming.ApproveDestroyAnnotation],
		Resume: template.Annotations[naming.ResumeAnnotation],
	}
	reported, target := &template.Status.Rollout, history.Find(f.Target)
	if terraform.IsRecordedAs(f.Target, reported.Revision) && reported.StartTime != nil && target != nil && target.Number == reported.Number {
		f.Started = reported.StartTime.Time
	}
	return f
}

// Assignment is a revision that a user should run from now on.
type Assignment struct {
	User     types.NamespacedName
	Revision string
}

// Decision is how a rollout continues.
type Decision struct {
	Stage  infrav1.RolloutStage
	Assign []Assignment
	// RolledOut is true if new users get the revision from now on: all users that existed at the start have it, or are left behind.
	RolledOut bool
	// Users by state, as namespace/name. Those that are assigned by this decision count as Updating, and those that are left behind have no state.
	Current, Updating, Waiting, Failed, Stalled []string
	// States are the states of the users that take part, before the decision.
	States map[types.NamespacedName]UserState
	// LeftBehind are users that the rollout does not wait for any more.
	LeftBehind []string
	// Resumable is true if the rollout waits until a resume.
	Resumable bool
	// Canaries are the users that follow first.
	Canaries []string
	// Users by the result of the preview of the target revision.
	PreviewedEmpty, PreviewedChanges, PreviewFailed []string
	// PreviewedDestroy are those of PreviewedChanges for which Terraform would replace or delete a resource, or may do so.
	PreviewedDestroy []string
	// Paused are those of Waiting that must not be written, and Held those with a change of their own that waits.
	Paused, Held []string
	// SoakUntil is until when the canaries must stay Ready; zero outside stage Soaking.
	SoakUntil time.Time
	// Reason of condition RollingOut.
	Reason string
	// Message of the condition.
	Message string
	// check is the next deadline; zero without one.
	check time.Time
}

// rollout is a decision in progress.
type rollout struct {
	*Facts
	// users take part: they have a Workspace.
	users []User
	// assigned are the users that get the target revision now.
	assigned []*User
	canaries []*User
	// invalid is the error of the selector of canaries.
	invalid error
	// check is the next deadline; zero without one.
	check time.Time
	// unobserved is true if a user may have a Workspace that the manager has not looked for yet.
	unobserved bool
}

// Next decides how a rollout continues.
func Next(f Facts) Decision {
	r := &rollout{Facts: &f}
	var d Decision
	for _, user := range f.Users {
		if user.needsWholeRevision() { // It has the revision, so that no stage matters.
			d.Assign = append(d.Assign, Assignment{User: user.Key, Revision: user.Assigned})
		}
		switch {
		case user.Unrecorded && (!user.Observed || f.History.isProven(user.Assigned)):
			// It keeps its revision until the manager has found its Workspace, or that there is none.
			r.unobserved = r.unobserved || !user.Observed
		case !user.Created:
			d.assign(&user, f.History.Stable())
		default:
			r.users = append(r.users, r.withPlan(r.withRevision(user, &d)))
		}
	}
	r.markLate()
	r.markOverdue()
	r.canaries, r.invalid = r.selectCanaries()
	r.markOverdueCanaries()
	d.States = map[types.NamespacedName]UserState{}
	for i := range r.users {
		d.States[r.users[i].Key] = r.users[i].State(f.Target)
	}
	for _, user := range r.canaries {
		d.Canaries = append(d.Canaries, user.Key.String())
	}
	r.decide(&d)
	for _, user := range r.assigned {
		user.Assigned, user.AssignedAt, user.overdue = f.Target, time.Time{}, false
		d.Assign = append(d.Assign, Assignment{User: user.Key, Revision: f.Target})
	}
	r.count(&d)
	r.countPlans(&d)
	d.Message = r.message(&d)
	d.check = r.check
	return d
}

// assign assigns a revision to a user that is not updated by it, unless it has that revision.
func (d *Decision) assign(user *User, revision string) {
	if revision != "" && user.Assigned != revision && !user.KeepsRevision() && !user.isRefused(revision) {
		d.Assign = append(d.Assign, Assignment{User: user.Key, Revision: revision})
	}
}

// withRevision assigns to a user without a revision of the template the one that its Workspace has, if that is stored.
func (r *rollout) withRevision(user User, d *Decision) User {
	if r.History.Find(user.Assigned) != nil || r.History.Find(user.Written) == nil {
		return user
	}
	d.assign(&user, user.Written)
	user.Assigned = user.Written
	return user
}

// selectCanaries returns the users that follow first. Late users are canaries only if no other user can be one.
func (r *rollout) selectCanaries() (selected []*User, err error) {
	policy := r.Policy.Canary
	selector, err := metav1.LabelSelectorAsSelector(policy.Selector)
	if err != nil || !policy.IsDefined() {
		return nil, err
	}
	for _, late := range []bool{false, true} {
		for i := range r.users {
			u := &r.users[i]
			full := policy.Count > 0 && len(selected) >= int(policy.Count)
			if !full && u.late == late && r.canBeCanary(u) && (policy.Selector == nil || selector.Matches(u.Labels)) {
				selected = append(selected, u)
			}
		}
		if len(selected) > 0 {
			break
		}
	}
	return selected, nil
}

// canBeCanary reports whether a user can show what the revision changes. One that keeps its revision, or that was left behind, would keep the others
// waiting.
func (r *rollout) canBeCanary(u *User) bool {
	waits := u.State(r.Target) == UserWaiting && (u.KeepsRevision() && u.Assigned != r.Target || r.isLeftBehind(u))
	return u.plan != infrav1.PreviewEmpty && !waits && !r.isWithheld(u)
}

// decide sets the stage and the reason, and selects the users that follow now.
func (r *rollout) decide(d *Decision) {
	d.Reason, d.RolledOut = infrav1.RollingOutReason, r.complete(false)
	if r.complete(true) {
		d.Stage, d.Reason = infrav1.RolloutComplete, infrav1.RolledOutReason
		return
	}
	candidates := r.setStage(d)
	switch {
	case r.stopped():
		d.Reason, d.Resumable = infrav1.RolloutStoppedReason, true
		return
	case r.Policy.State == infrav1.RolloutPaused:
		d.Reason = infrav1.RolloutWaitingReason
		return
	case d.Stage == infrav1.RolloutCanary && r.noCanary():
		d.Reason, d.Resumable, candidates = infrav1.RolloutWaitingReason, true, nil
	case r.unavailable() != nil:
		d.Reason, d.Resumable = infrav1.RolloutWaitingReason, true
	}
	r.selectEmpty()
	r.selectNext(candidates)
}

// setStage sets the stage, and returns the users that may follow in it, apart from those for which the plan is empty.
func (r *rollout) setStage(d *Decision) (candidates []*User) {
	candidates = pointers(r.users)
	switch soakUntil := r.soakUntil(); {
	case len(r.unplanned()) > 0:
		d.Stage, candidates = infrav1.RolloutPreviewing, nil
	case !r.canariesDone():
		d.Stage, candidates = infrav1.RolloutCanary, r.canaries
	case r.Now.Before(soakUntil):
		d.Stage, d.SoakUntil, candidates = infrav1.RolloutSoaking, soakUntil, nil
	default:
		d.Stage = infrav1.RolloutRemaining
	}
	if (!r.approved() || r.onlyWithheld()) && d.Stage != infrav1.RolloutPreviewing {
		d.Stage, d.Reason, d.SoakUntil = infrav1.RolloutWaitingForApproval, infrav1.RolloutWaitingReason, time.Time{}
		candidates = nil
	}
	return candidates
}

// approved reports whether users may follow for which the plan is not known to be empty.
func (r *rollout) approved() bool {
	switch r.Policy.Approval {
	case infrav1.RolloutApprovalAlways:
		return r.Approve == r.Target
	case infrav1.RolloutApprovalOnChanges:
		return r.Approve == r.Target || !slices.ContainsFunc(r.users, func(u User) bool {
			return u.State(r.Target) == UserWaiting && u.plan != infrav1.PreviewEmpty && r.isPlanned(&u) && (!u.KeepsRevision() || u.plan != "")
		})
	case infrav1.RolloutApprovalOnDestroy, infrav1.RolloutApprovalNone: // Users are withheld, see isWithheld.
	}
	return true
}

func (r *rollout) resumed() bool { return r.Resume == r.Target }

// noCanary reports whether the policy has canaries, and no user is one. A selector with a mistake must not update all users, unless they are resumed.
// Users for which the plan is empty need no canary, and would prove nothing.
func (r *rollout) noCanary() bool {
	return r.Policy.Canary.IsDefined() && len(r.canaries) == 0 && !r.resumed() &&
		slices.ContainsFunc(r.users, func(u User) bool { return u.plan != infrav1.PreviewEmpty && !r.isLeftBehind(&u) && !r.isWithheld(&u) })
}

// canariesDone reports whether all canaries have the target revision and are Ready.
func (r *rollout) canariesDone() bool {
	return !r.noCanary() && !slices.ContainsFunc(r.canaries, func(u *User) bool {
		return !r.isSkipped(u) && (u.State(r.Target) != UserCurrent || u.ReadySince.IsZero())
	})
}

// isSkipped reports whether a canary fails, or does not finish, after a resume.
func (r *rollout) isSkipped(u *User) bool {
	state := u.State(r.Target)
	return r.resumed() && (state == UserFailed || state == UserStalled)
}

// soakUntil is until when other users wait, once all canaries are done.
func (r *rollout) soakUntil() (until time.Time) {
	if r.Policy.Canary.SoakSeconds == 0 {
		return until
	}
	for _, u := range r.canaries {
		end := u.ReadySince.Add(time.Duration(r.Policy.Canary.SoakSeconds) * time.Second)
		if !r.isSkipped(u) && !u.ReadySince.IsZero() && end.After(until) {
			until = end
		}
	}
	return until
}

// stopped reports whether a failure, or a user that does not finish, stops the rollout. A late user that does not finish proves nothing.
func (r *rollout) stopped() bool {
	if r.resumed() {
		return false
	}
	isFailed := func(u *User) bool {
		state := u.State(r.Target)
		return state == UserFailed || state == UserStalled && !u.late && !r.rolledOut()
	}
	if r.Policy.OnFailure == infrav1.RolloutFailureContinue {
		return slices.ContainsFunc(r.canaries, isFailed)
	}
	return slices.ContainsFunc(pointers(r.users), isFailed)
}

// isProven reports whether a revision is stored, and was rolled out or approved. An object without a Workspace gets no other one.
func (h History) isProven(hash string) bool {
	found := h.Find(hash)
	return found != nil && (found.RolledOut || found.Approval != Approval{})
}

// rolledOut reports whether a rollout of the target was completed before.
func (r *rollout) rolledOut() bool {
	target := r.History.Find(r.Target)
	return target != nil && target.RolledOut
}

// complete reports whether there is nothing left to do, with or without late users. A user that fails after the rollout was completed does not stop it.
func (r *rollout) complete(late bool) bool {
	if !r.rolledOut() && (r.stopped() || !r.proven() || r.unobserved && !r.passed(r.started().Add(restTimeout))) {
		return false
	}
	return !slices.ContainsFunc(pointers(r.users), func(u *User) bool {
		state := u.State(r.Target)
		pending := state == UserWaiting || state == UserUpdating // One that stalls has stopped the rollout, or is left behind.
		return pending && (late || !u.late) && !r.isLeftBehind(u)
	})
}

// proven reports whether the target was assigned to a user, or approved. If all users were left behind, nothing else shows that the content is wanted.
func (r *rollout) proven() bool {
	if len(r.users) == 0 {
		return r.approved()
	}
	return !r.Policy.RequiresApproval() || r.Approve == r.Target ||
		slices.ContainsFunc(r.users, func(u User) bool { return u.Assigned == r.Target })
}

// selectNext selects users to update, as many as the limit of concurrent updates allows, late ones last. A user that Terraform is updating to another
// revision is counted already.
func (r *rollout) selectNext(candidates []*User) {
	free := r.Policy.ConcurrencyLimit()
	for i := range r.users {
		if u := &r.users[i]; u.State(r.Target) == UserUpdating && u.plan != infrav1.PreviewEmpty || u.inFlight(r.Target) {
			free--
		}
	}
	slices.SortStableFunc(candidates, func(a, b *User) int {
		return cmp.Compare(strconv.FormatBool(a.late), strconv.FormatBool(b.late)) // False comes before true.
	})
	for _, u := range candidates {
		switch {
		case u.State(r.Target) != UserWaiting, u.KeepsRevision(), u.plan == infrav1.PreviewEmpty, !r.isPlanned(u), r.isWithheld(u):
		case u.inFlight(r.Target):
			r.assigned = append(r.assigned, u)
		case free > 0:
			r.assigned = append(r.assigned, u)
			free--
		}
	}
}

// count sets the users by state.
func (r *rollout) count(d *Decision) {
	lists := map[UserState]*[]string{
		UserCurrent: &d.Current, UserUpdating: &d.Updating, UserFailed: &d.Failed, UserStalled: &d.Stalled, UserWaiting: &d.Waiting, UserCreating: new([]string),
	}
	for i := range r.users {
		u := &r.users[i]
		name, state := u.Key.String(), u.State(r.Target)
		if r.isLeftBehind(u) {
			d.LeftBehind = append(d.LeftBehind, name)
			continue
		}
		*lists[state] = append(*lists[state], name)
		switch {
		case state != UserWaiting:
		case u.Paused:
			d.Paused = append(d.Paused, name)
		case u.Held:
			d.Held = append(d.Held, name)
		}
	}
}

func pointers(users []User) []*User {
	list := make([]*User, len(users))
	for i := range users {
		list[i] = &users[i]
	}
	return list
}

// namedUsers limits how many users a message names.
const namedUsers = 5

// Names lists the first of some users.
func Names(users []string) string { return naming.List(users, namedUsers) }

// message is the message of condition RollingOut: how far the rollout has come, why it does not proceed, and what to do.
func (r *rollout) message(d *Decision) string {
	if d.Stage == infrav1.RolloutComplete && len(d.Failed) == 0 && len(d.LeftBehind) == 0 {
		return ""
	}
	all := len(d.Current) + len(d.Updating) + len(d.Failed) + len(d.Stalled) + len(d.Waiting) + len(d.LeftBehind)
	parts := []string{fmt.Sprintf("%d of %d users have revision %s", len(d.Current), all, terraform.ShortRevision(r.Target))}
	for _, list := range []struct {
		title string
		users []string
	}{{"updating", d.Updating}, {"failed", d.Failed}, {"stalled", d.Stalled}, {"waiting", d.Waiting}, {"left behind", d.LeftBehind}} {
		if len(list.users) > 0 {
			parts = append(parts, list.title+": "+Names(list.users))
		}
	}
	if previewed := r.previewed(d); previewed != "" {
		parts = append(parts, previewed)
	}
	message := strings.Join(parts, "; ")
	if why := r.why(d); why != "" {
		message += ". " + why
	}
	return message
}

// why returns why the rollout does not proceed, and what to do; empty if it proceeds.
func (r *rollout) why(d *Decision) string {
	switch {
	case d.Reason == infrav1.RolloutStoppedReason && len(d.Failed) == 0:
		return fmt.Sprintf("The rollout stopped because users have not finished the update within %d hours: see the conditions of the stalled users. To continue without them, set the annotation %s to %s",
			updateTimeout/time.Hour, naming.ResumeAnnotation, r.Target)
	case d.Reason == infrav1.RolloutStoppedReason:
		return fmt.Sprintf("The rollout stopped because the revision fails: see the conditions of the failed users. Correct or revert the template, or set the annotation %s to %s to continue",
			naming.ResumeAnnotation, r.Target) + r.whyNoPlan()
	case d.Stage == infrav1.RolloutWaitingForApproval && r.approved():
		return r.whyWithheld()
	case d.Stage == infrav1.RolloutWaitingForApproval:
		return fmt.Sprintf("The revision is not approved: to approve it, set the annotation %s to %s", naming.ApproveAnnotation, r.Target) + r.neverEmpty()
	case d.Reason != infrav1.RolloutWaitingReason:
	case r.Policy.State == infrav1.RolloutPaused:
		return "The rollout is paused: to continue, set spec.rollout.state to Running"
	case d.Stage == infrav1.RolloutPreviewing:
		u := r.unavailable()
		return fmt.Sprintf("%s cannot be previewed: %s. To continue without such users, set the annotation %s to %s. To roll out without previews, set spec.rollout.preview to Never",
			u.Key, r.whyUnavailable(u), naming.ResumeAnnotation, r.Target)
	case r.invalid != nil:
		return "spec.rollout.canary.selector is invalid, so no user is a canary: " + r.invalid.Error() + ". Correct the selector"
	default:
		return fmt.Sprintf("No user is a canary, because spec.rollout.canary.selector matches no Cluster whose user can be updated. Correct the selector, label a Cluster, or set the annotation %s to %s to continue without canaries",
			naming.ResumeAnnotation, r.Target)
	}
	return whyWaiting(d)
}

// whyWaiting returns which users a rollout waits for that has not stopped; empty if users are being updated.
func whyWaiting(d *Decision) string {
	switch {
	case d.Stage == infrav1.RolloutSoaking:
		return "The canaries must stay Ready until " + d.SoakUntil.UTC().Format(time.RFC3339)
	case len(d.Held) > 0 && len(d.Updating) == 0:
		return "Users with a change of their own keep their revision until it is applied or reverted: see the conditions of " + Names(d.Held)
	case len(d.Paused) > 0 && len(d.Updating) == 0:
		return "Paused users keep their revision until they are unpaused: " + Names(d.Paused)
	case len(d.LeftBehind) > 0 && len(d.Updating) == 0:
		return "The rollout does not wait for users that it left behind; they get the revision when they are not paused, have no change of their own, and can be previewed: see the conditions of " + Names(d.LeftBehind)
	}
	return ""
}
