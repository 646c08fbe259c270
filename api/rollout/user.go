// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// User is what a rollout needs of a WorkspaceTemplateApply that uses the template. Revisions are hashes.
type User struct {
	Key types.NamespacedName
	// Labels of its Cluster; nil when it has none.
	Labels labels.Set
	// Assigned is the revision that it should run, Written the one that its Workspace was written with, Applied the one that Terraform
	// applied last, and Failed the one whose apply failed last.
	Assigned, Written, Applied, Failed string
	// Abbreviated is true when spec has only the first digits of Assigned.
	Abbreviated bool
	// Blocked is true when its Workspace cannot be written with the assigned revision.
	Blocked bool
	// Refused are the revisions that the API server does not let the manager assign to the object as it is, for example because it has nearly the
	// maximum size.
	Refused []string
	// ResourceVersion of the object.
	ResourceVersion string
	// ReadySince is since when it is Ready; zero when it is not.
	ReadySince time.Time
	// CreatedAt is when the object was created, and AssignedAt since when it has the assigned revision; zero if that is not recorded.
	CreatedAt, AssignedAt time.Time
	// Created is true when it has, or had, a Workspace, as the manager recorded. The others get the revision that was rolled out last, and do not take
	// part.
	Created bool
	// Unrecorded is true when it may have a Workspace although none is recorded, and Observed when the manager has looked for it.
	Unrecorded, Observed bool
	// Paused is true when it must not be written.
	Paused bool
	// Held is true while a change of its own waits for its preview or for an approval. It keeps its revision until that is decided: with another
	// revision, the change would be another content.
	Held bool
	// NeverEmpty is true when Terraform changes something at each run, whatever the revision.
	NeverEmpty bool
	// Preview is the result of its last preview; the zero value without one.
	Preview infrav1.RevisionPreview
	// plan is the result for the target revision; empty without one. overdue is true when it has not finished its update in time, and late when it
	// was created after the start of the rollout. Next sets them.
	plan          infrav1.PreviewResult
	overdue, late bool
}

// UserOf returns the user for a WorkspaceTemplateApply and the labels of its Cluster.
func UserOf(apply *infrav1.WorkspaceTemplateApply, cluster labels.Set) User {
	s := &apply.Status
	u := User{
		Key: types.NamespacedName{Namespace: apply.Namespace, Name: apply.Name}, Labels: cluster,
		Assigned: apply.Spec.TemplateRevision, Written: s.WrittenTemplateRevision, Applied: s.TemplateRevision, Failed: s.FailedTemplateRevision,
		Paused:          meta.IsStatusConditionTrue(s.Conditions, clusterv1.PausedCondition),
		ResourceVersion: apply.ResourceVersion, CreatedAt: apply.CreationTimestamp.Time, Created: s.WorkspaceRef != nil, Preview: s.Preview,
		NeverEmpty: meta.IsStatusConditionTrue(s.Conditions, infrav1.PlanNeverEmptyCondition),
	}
	if terraform.IsRecordedAs(u.Assigned, s.Assignment.TemplateRevision) && s.Assignment.Time != nil {
		u.AssignedAt = s.Assignment.Time.Time
	}
	for _, annotation := range []string{clusterv1.PausedAnnotation, clusterv1.ManagedByAnnotation} { // With either, the manager does not write it.
		if _, has := apply.Annotations[annotation]; has {
			u.Paused = true
		}
	}
	ready := meta.FindStatusCondition(s.Conditions, infrav1.ReadyCondition)
	// clusterctl move and backups keep the annotation, but not the status. A user can set the annotation as well, so that it proves nothing.
	u.Unrecorded, u.Observed = !u.Created && apply.Annotations[naming.ExternalNameAnnotation] != "", ready != nil
	if ready == nil || s.ObservedGeneration != apply.Generation {
		return u // The status is older than the assignment.
	}
	if ready.Status == metav1.ConditionTrue {
		u.ReadySince = ready.LastTransitionTime.Time
		if applied := s.LastAppliedTime; applied != nil && applied.After(u.ReadySince) {
			u.ReadySince = applied.Time
		}
	}
	u.Held = infrav1.IsHeld(ready.Reason)
	u.Blocked = u.Written != u.Assigned && blocks(ready.Reason)
	return u
}

// KeepsRevision reports whether the user must not be assigned another revision now.
func (u *User) KeepsRevision() bool { return u.Paused || u.Held }

// needsWholeRevision reports whether spec is to have all digits of the revision that it has.
func (u *User) needsWholeRevision() bool {
	return u.Abbreviated && !u.Paused && !u.isRefused(u.Assigned)
}

// isRefused reports whether the user cannot be assigned a revision as it is.
func (u *User) isRefused(revision string) bool { return slices.Contains(u.Refused, revision) }

// blocks reports whether a reason means that a Workspace cannot be written with its revision. A user or another revision must resolve it.
func blocks(reason string) bool {
	switch reason {
	case infrav1.TemplateInvalidReason, infrav1.VariableMissingReason, infrav1.VariableInvalidReason, infrav1.WorkspaceRejectedReason, infrav1.RevisionMissingReason, infrav1.ProviderConfigConflictReason,
		infrav1.WorkspaceConflictReason, infrav1.WorkspaceReplacedReason, infrav1.WorkspaceScopeConflictReason:
		return true
	}
	return false
}

// UsersOf returns the users that take part in the rollout of their template, in the order in which they follow. The function returns the labels
// of the Cluster of a user. The history has the current content.
func UsersOf(applies []*infrav1.WorkspaceTemplateApply, history History, clusterLabels func(*infrav1.WorkspaceTemplateApply) (labels.Set, error)) (users []User, err error) {
	for _, apply := range applies {
		if !apply.DeletionTimestamp.IsZero() || legacy.UnadoptedWorkspace(apply) != "" {
			continue
		}
		of, err := clusterLabels(apply)
		if err != nil {
			return nil, err
		}
		user := UserOf(history.resolved(apply), of)
		user.Abbreviated = user.Assigned != apply.Spec.TemplateRevision
		users = append(users, user)
	}
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(cmp.Compare(a.Key.Namespace, b.Key.Namespace), cmp.Compare(a.Key.Name, b.Key.Name))
	})
	return users, nil
}

// AssignedTo returns the revision of a staged template that a WorkspaceTemplateApply should run: the assigned one, or else the one that its
// Workspace has. It is empty before the first assignment.
func AssignedTo(apply *infrav1.WorkspaceTemplateApply) string {
	return cmp.Or(apply.Spec.TemplateRevision, apply.Status.WrittenTemplateRevision, apply.Status.TemplateRevision)
}

// ContentFor returns the template with the content from which the Workspace of a user is rendered under a policy, and its revision: the current one,
// unless rollouts are staged. The revision is empty before one is assigned. The template is nil if the revision is not stored, or if its record may mean
// more than one.
func ContentFor(apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate, policy infrav1.WorkspaceTemplateRollout, store Store) (
	at *infrav1.WorkspaceTemplate, revision string, err error,
) {
	current := HashOf(template)
	if !policy.IsStaged() {
		return template, current, nil
	}
	if revision = AssignedTo(apply); terraform.IsShortRevision(revision) {
		objects, err := store.All(template.Namespace)
		if err != nil {
			return nil, revision, err
		}
		history := HistoryOf(template, objects)
		revision = history.With(history.Record(template)).resolve(revision)
	}
	if revision == "" || revision == current {
		return template, revision, nil
	}
	object, err := store.First(StoredAs(types.NamespacedName{Namespace: template.Namespace, Name: template.Name}, revision)...)
	if object == nil || err != nil {
		return nil, revision, err
	}
	stored, err := Parse(object)
	if err != nil || stored.Hash != revision {
		return nil, revision, nil //nolint:nilerr // It does not have the content.
	}
	return stored.At(template), revision, nil
}

// UserState is how far a user has come with the target revision of a rollout.
type UserState string

const (
	// UserWaiting has another revision, and has not been assigned the target, or is not written with it because it is paused or has a change of its own.
	UserWaiting UserState = "Waiting"
	// UserCreating has no Workspace, or got the target before Terraform had applied any revision, so that there is nothing to update.
	UserCreating UserState = "Creating"
	// UserUpdating has been assigned the target, and Terraform has not applied it yet.
	UserUpdating UserState = "Updating"
	// UserStalled has been assigned the target, and did not finish the update in time, or, as a canary, does not stay Ready.
	UserStalled UserState = "Stalled"
	// UserFailed cannot be written with the target, or Terraform fails with it.
	UserFailed UserState = "Failed"
	// UserCurrent has the target, and Terraform has applied it.
	UserCurrent UserState = "Current"
)

// State returns the state of a user with regard to the target revision.
func (u *User) State(target string) UserState {
	switch {
	case !u.Created:
		return UserCreating
	case u.Assigned != target:
		return u.stateBefore(target)
	case u.Applied == "":
		return UserCreating
	case u.Failed == target || u.Blocked:
		return UserFailed
	case u.overdue:
		return UserStalled
	case u.KeepsRevision() && u.Written != target:
		return UserWaiting
	case u.Written == target && u.Applied == target:
		return UserCurrent
	}
	return UserUpdating
}

// stateBefore returns the state of a user that has not been assigned the target revision.
func (u *User) stateBefore(target string) UserState {
	if u.plan == infrav1.PreviewFailed || u.isRefused(target) {
		return UserFailed
	}
	return UserWaiting
}

// inFlight reports whether Terraform may be applying another revision than the target. It does not while the update waits together with a change.
func (u *User) inFlight(target string) bool {
	waits := u.Blocked || u.overdue || u.KeepsRevision() && u.Written != u.Assigned
	return u.Applied != "" && u.Assigned != "" && u.Assigned != target && u.Assigned != u.Applied && u.Assigned != u.Failed && !waits
}

// A template may be shared by namespaces that do not trust each other, so that each wait for a user has a deadline. What is overdue stops the rollout,
// and a resume goes on without it. Nothing is latched: a user that finishes later is not overdue any more.
const (
	// restTimeout is how long after its start a rollout waits for users that are not at rest, and so cannot be previewed.
	restTimeout = 10 * time.Minute
	// turnTimeout is how long it waits, per user, for previews of users that are: each may take ten minutes, and five run at a time.
	turnTimeout = 2 * time.Minute
	// updateTimeout is how long it waits for a user to finish its update, and after its start for users that keep their revision.
	updateTimeout = 2 * time.Hour
)

// passed reports whether the time of a deadline has come. If not, the decision is to be repeated then.
func (r *rollout) passed(deadline time.Time) bool {
	if !r.Now.Before(deadline) {
		return true
	}
	if r.check.IsZero() || deadline.Before(r.check) {
		r.check = deadline
	}
	return false
}

// started is when the rollout started: now if that is not recorded yet.
func (r *rollout) started() time.Time {
	if r.Started.IsZero() {
		return r.Now
	}
	return r.Started
}

// markLate marks users that were created after the start of the rollout. It does not wait for them: a user could go on creating others.
// If there are no others, for example after clusterctl move, none is late.
func (r *rollout) markLate() {
	late := func(u User) bool { return u.CreatedAt.After(r.started()) }
	if !slices.ContainsFunc(r.users, func(u User) bool { return !late(u) }) {
		return
	}
	for i := range r.users {
		r.users[i].late = late(r.users[i])
	}
}

// markOverdue marks users that cannot be previewed, or do not finish an update, in time.
func (r *rollout) markOverdue() {
	for i := range r.users {
		u := &r.users[i]
		if u.State(r.Target) == UserWaiting && r.Policy.IsPreviewed() && u.plan == "" && !u.KeepsRevision() {
			limit := restTimeout
			if !u.ReadySince.IsZero() {
				limit += time.Duration(len(r.users)) * turnTimeout
			}
			if r.passed(r.started().Add(limit)) {
				u.plan = infrav1.PreviewUnavailable
			}
		}
		if u.State(r.Target) == UserUpdating || u.inFlight(r.Target) {
			u.overdue = r.updateOverdue(u, 0)
		}
	}
}

// markOverdueCanaries marks canaries that do not have the target revision, or do not stay Ready with it, in time.
func (r *rollout) markOverdueCanaries() {
	if r.rolledOut() {
		return
	}
	soak := time.Duration(r.Policy.Canary.SoakSeconds) * time.Second
	for _, u := range r.canaries {
		state := u.State(r.Target)
		done := state == UserFailed || state == UserCurrent && !u.ReadySince.IsZero() && !r.Now.Before(u.ReadySince.Add(soak))
		if u.Assigned == r.Target && !done && r.updateOverdue(u, soak) {
			u.overdue = true
		}
	}
}

// updateOverdue reports whether a user had its assigned revision for too long. It is not yet recorded how long right after the assignment.
func (r *rollout) updateOverdue(u *User, soak time.Duration) bool {
	return !u.AssignedAt.IsZero() && r.passed(u.AssignedAt.Add(updateTimeout+soak))
}

// isLeftBehind reports whether the rollout does not wait for a user any more. It gets the revision as soon as that is possible.
func (r *rollout) isLeftBehind(u *User) bool {
	switch state := u.State(r.Target); {
	case state == UserStalled:
		return r.resumed() || u.late || r.rolledOut() || r.Policy.OnFailure == infrav1.RolloutFailureContinue && !slices.Contains(r.canaries, u)
	case state != UserWaiting:
	case u.KeepsRevision():
		return u.late || r.passed(r.started().Add(updateTimeout))
	case u.plan == infrav1.PreviewUnavailable:
		return r.resumed() || u.late
	}
	return false
}

// isPlanned reports whether a user may get the target revision as far as its preview is concerned.
func (r *rollout) isPlanned(u *User) bool {
	return !r.Policy.IsPreviewed() || u.plan != "" && u.plan != infrav1.PreviewUnavailable
}

// CheckAt is when to decide again without an event; zero if only an event matters.
func (d *Decision) CheckAt() time.Time {
	if d.SoakUntil.IsZero() || !d.check.IsZero() && d.check.Before(d.SoakUntil) {
		return d.check
	}
	return d.SoakUntil
}
