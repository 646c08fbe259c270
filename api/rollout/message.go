// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"time"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// namedUsers limits how many users a message names.
const namedUsers = 5

// Names lists the first of some users.
func Names(users []string) string {
	if len(users) <= namedUsers {
		return strings.Join(users, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(users[:namedUsers], ", "), len(users)-namedUsers)
}

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
	case d.Stage == infrav1.RolloutWaitingForApproval:
		return fmt.Sprintf("The revision is not approved: to approve it, set the annotation %s to %s", naming.ApproveAnnotation, r.Target)
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
