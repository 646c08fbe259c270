// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package runs decides whether provider-terraform can plan and apply a Workspace once on request, and how such a run ended. It is pure.
//
// A request is the value of naming.RecoveryAnnotation of a WorkspaceTemplateApply. The manager replaces the checksum of the Workspace with it, and then copies the
// annotation to the Workspace. A run that changes nothing leaves no other trace: each run that does not fail replaces or removes the checksum.
package runs

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/terraform"
)

// Action is the type of requests for one run. Recovery has others.
const Action = "Run"

// Request is the request for an action on a Workspace.
func Request(action string, workspace types.UID, at time.Time) string {
	return fmt.Sprintf("%s/%s/%d", action, workspace, at.Unix())
}

// IsRequested reports whether a request is for one run.
func IsRequested(request string) bool { return strings.HasPrefix(request, Action+"/") }

// Refused returns why no run can start for a WorkspaceTemplateApply; empty if it can.
func Refused(apply *infrav1.WorkspaceTemplateApply) string {
	if !apply.DeletionTimestamp.IsZero() {
		return refusedDestroy(apply)
	}
	for i := range apply.Status.Conditions {
		condition, blocks := &apply.Status.Conditions[i], false
		switch condition.Type {
		case clusterv1.PausedCondition, infrav1.WorkspaceConflictCondition:
			blocks = condition.Status == metav1.ConditionTrue
		case infrav1.DependenciesReadyCondition, infrav1.RenderedCondition:
			blocks = condition.Status == metav1.ConditionFalse
		default: // The manager writes nothing for these reasons. Errors of Terraform are no such reasons.
			effect := reasons.Of(condition.Reason).Effect
			blocks = effect == reasons.FailsAtOnce || effect == reasons.FailsAfterGrace
		}
		if blocks {
			return text(condition)
		}
	}
	if apply.Status.WorkspaceRef == nil || apply.Status.WorkspaceRef.UID == "" {
		return "it has no Workspace yet"
	}
	return ""
}

// refusedDestroy returns why an attempt to destroy a Workspace cannot be started; empty if one has failed.
func refusedDestroy(apply *infrav1.WorkspaceTemplateApply) string {
	deleting := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition)
	if deleting == nil || deleting.Reason != infrav1.DestroyFailedReason && deleting.Reason != infrav1.PlanFailedReason {
		return "it is being deleted, and no attempt of Terraform to destroy it has failed"
	}
	return ""
}

func text(condition *metav1.Condition) string {
	if condition.Message == "" {
		return condition.Reason
	}
	return condition.Reason + ": " + condition.Message
}

// Result of a request.
type Result string

// Results of requests. The first two are not final.
const (
	// Requested: the manager has not forwarded the request.
	Requested Result = "Requested"
	// Running: provider-terraform has not reported yet. It may work on another Workspace.
	Running Result = "Running"
	// NothingToChange: the plan was empty.
	NothingToChange Result = "NothingToChange"
	// Applied: Terraform has applied changes.
	Applied Result = "Applied"
	// Failed: Terraform or its provider reports an error.
	Failed Result = "Failed"
	// NotStarted: something keeps the manager from forwarding the request, or from requesting it.
	NotStarted Result = "NotStarted"
)

// IsFinal reports whether the result does not change any more.
func (r Result) IsFinal() bool { return r != Requested && r != Running }

// Run is a requested run.
type Run struct {
	Request string
	// Before is the error of the Workspace before the request; nil if it had none.
	Before *metav1.Condition
	// Destroys is true if the run destroys what Terraform has created.
	Destroys bool
	// Seen is when it was first observed that the manager has forwarded the request; zero if it has not been.
	Seen time.Time
}

// Observe returns how the run stands. workspace is nil if it does not exist.
func (r *Run) Observe(apply *infrav1.WorkspaceTemplateApply, workspace *terraform.Workspace, now time.Time) (Result, string) {
	if workspace == nil && r.Destroys {
		return Applied, "what Terraform created is destroyed"
	}
	if workspace == nil || workspace.DeletionTimestamp.IsZero() == r.Destroys || !strings.HasPrefix(r.Request, Action+"/"+string(workspace.UID)+"/") {
		return NotStarted, "the Workspace was deleted or recreated"
	}
	if workspace.Annotations[naming.RecoveryAnnotation] == r.Request {
		return r.observe(workspace, now)
	}
	if why := Refused(apply); why != "" {
		return NotStarted, why
	}
	return Requested, ""
}

// observe returns how a run stands that the manager has requested from the provider.
func (r *Run) observe(workspace *terraform.Workspace, now time.Time) (Result, string) {
	const unchangedError = 2 * time.Minute // How long an error that is the same as before the run must have stayed to be its result: provider-terraform reports no repetition.
	if r.Seen.IsZero() {
		r.Seen = now
	}
	failed, pending := workspace.Failure(), workspace.Status.AtProvider.Checksum == r.Request
	switch synced := meta.FindStatusCondition(workspace.Status.Conditions, terraform.ConditionSynced); {
	case synced != nil && synced.Reason == terraform.ReasonPaused:
		return NotStarted, "the Workspace is paused"
	case failed != nil && (!pending || !isSame(failed, r.Before) || now.Sub(r.Seen) >= unchangedError):
		return Failed, "" // The message can have secrets.
	case pending, r.Destroys:
		return Running, ""
	case workspace.Status.AtProvider.Checksum == "":
		return Applied, ""
	}
	return NothingToChange, ""
}

func isSame(a, b *metav1.Condition) bool {
	return b != nil && a.Message == b.Message && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}
