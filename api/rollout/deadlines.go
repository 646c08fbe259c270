// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

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
		if u.State(r.Target) == UserWaiting && r.Policy.IsPreviewed() && u.plan == "" && !u.keepsRevision() {
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
	case u.keepsRevision():
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
