// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Conditions, reasons and the finalizer of provider-terraform.
const (
	conditionReady  = "Ready"
	conditionSynced = terraform.ConditionSynced
	reasonPaused    = terraform.ReasonPaused
	finalizer       = "finalizer.managedresource.crossplane.io"
)

const (
	initializingMessage = "waiting for provider-terraform to run terraform init and plan"
	unreportedMessage   = "Terraform has found existing resources. provider-terraform reports their state at its next poll, 10 minutes later by default (flag --poll)"
)

// reconcileTimeout is how long a new Workspace may have neither conditions nor the finalizer of the provider before this is reported.
const reconcileTimeout = 2 * time.Minute

// hashLength is how many hexadecimal digits a hash has.
const hashLength = 12

// Observation is the state of the work of Terraform on a Workspace.
type Observation struct {
	// UpToDate is true when Terraform has applied the Workspace as rendered, and no drift was found since.
	UpToDate bool
	// Failed is true when Terraform or the provider reports an error, of that class.
	Failed bool
	Class  failure.Class
	// Applied is true when Terraform has applied the Workspace at least once.
	Applied bool
	// Reason and Message of the state, without secrets.
	Reason, Message string
	// Outputs that may be published: strings as they are, others as JSON.
	Outputs map[string]string
	// RequeueAfter is when the observation changes without an event; zero if it does not.
	RequeueAfter time.Duration
}

// ObserveInput is the input of Observe in addition to the Workspace.
type ObserveInput struct {
	// UnreconciledFor is for how long this process has seen the Workspace without a sign of the provider. Clocks of machines differ, so
	// the age of the Workspace is not used.
	UnreconciledFor time.Duration
	// Differs is true when the Workspace has not been updated to what was rendered.
	Differs bool
	// LastUpdate is the last change of the Workspace that status records.
	LastUpdate *infrav1.WorkspaceUpdate
	// Published are the names of the outputs that may be shown.
	Published []string
	// Failure is the error of the Workspace, from Client.Explain; the zero value when there is none.
	Failure failure.Report
}

// Observe returns the state of a Workspace.
func Observe(live *Live, in ObserveInput) Observation {
	o := Observation{Outputs: outputs(&live.typed, in.Published)}
	ready, synced, name := live.condition(conditionReady), live.condition(conditionSynced), live.GetName()
	o.Applied = live.applied()

	switch {
	case synced != nil && synced.Reason == reasonPaused: // Deletion is paused, too.
		o.Reason = infrav1.WorkspacePausedReason
		o.Message = "Workspace " + name + " is paused, so Terraform does not run. Remove its annotation crossplane.io/paused, or its empty spec.managementPolicies"
	case live.Deleting():
		o.Reason, o.Message = infrav1.WorkspaceDeletingReason, "Workspace "+name+" is being deleted: Terraform destroys its resources"
		if live.failed() && !isApplyError(synced) { // Until destroy returns, the error of the last apply stays.
			o.setFailure(in.Failure)
		}
	case live.failed() && isCurrent(live, synced):
		o.setFailure(in.Failure)
	case isTrue(ready) && isTrue(synced) && !in.Differs && live.statusIsCurrent(in.LastUpdate):
		o.UpToDate = true
		o.Reason, o.Message = infrav1.UpToDateReason, ""
	default:
		o.setProgress(live, in, ready, synced)
	}
	return o
}

func (l *Live) condition(conditionType string) *metav1.Condition {
	return meta.FindStatusCondition(l.typed.Status.Conditions, conditionType)
}

// ErrorHash is a hash of the error of the Workspace, of any generation; empty when it has none.
func (l *Live) ErrorHash() string {
	if !l.failed() {
		return ""
	}
	return hash([]byte(l.condition(conditionSynced).Message))
}

func hash(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:hashLength] }

// failed reports whether the Workspace has an error, of any generation.
func (l *Live) failed() bool { return l.typed.Failure() != nil }

// isCurrent reports whether an error is of the current generation. provider-terraform before v1 does not report the generation, and a repeated
// error does not change the condition. So without a generation, an error counts as current.
func isCurrent(live *Live, synced *metav1.Condition) bool {
	return synced.ObservedGeneration == 0 || synced.ObservedGeneration == live.GetGeneration()
}

// setProgress reports what the provider is doing.
func (o *Observation) setProgress(live *Live, in ObserveInput, ready, synced *metav1.Condition) {
	o.Reason = infrav1.ProvisioningReason
	switch {
	case in.Differs:
		o.Message = "Workspace " + live.GetName() + " has not been updated to the current template and variables yet"
	case !live.reconciled():
		o.setUnreconciled(live, in.UnreconciledFor)
	case live.unreported() && live.statusIsCurrent(in.LastUpdate):
		o.Message = unreportedMessage
	case isTrue(ready) && live.statusIsCurrent(in.LastUpdate):
		o.Message = "Terraform is applying a change"
	case isTrue(ready), live.unreported():
		o.Message = "the change of Workspace " + live.GetName() + atTime(lastChange(live)) + " is pending or in progress: provider-terraform has not reported on it yet"
		if synced != nil && synced.ObservedGeneration == 0 {
			o.Message += ". Before v1, it does not report a change that needs no apply. If this persists, set the annotation crossplane.io/paused=true on the Workspace, and remove it when its condition Synced is False"
		}
	case live.Started(time.Time{}).IsZero():
		o.Message = initializingMessage
	default:
		o.Message = "waiting for Terraform to apply the module for the first time"
	}
}

// unreported reports whether the provider has found existing resources and not reported them yet. It loses the result of its first observation
// when it adds its finalizer, and observes again after its poll interval.
func (l *Live) unreported() bool {
	return l.condition(conditionReady) == nil && isTrue(l.condition(conditionSynced))
}

// applied reports whether the resources exist.
func (l *Live) applied() bool { return isTrue(l.condition(conditionReady)) || l.unreported() }

// atTime formats a time, if there is one.
func atTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " at " + t.UTC().Format(time.RFC3339)
}

// reconciled reports whether the provider has reconciled the Workspace at least once.
func (l *Live) reconciled() bool {
	return l.condition(conditionReady) != nil || l.condition(conditionSynced) != nil || slices.Contains(l.GetFinalizers(), finalizer)
}

// Unreconciled reports whether a Workspace has no condition and no finalizer of the provider.
func (l *Live) Unreconciled() bool { return !l.reconciled() && !l.Deleting() }

// setUnreconciled reports a Workspace without a sign of the provider. During terraform init and plan that is normal.
func (o *Observation) setUnreconciled(live *Live, unreconciledFor time.Duration) {
	if left := reconcileTimeout - unreconciledFor; left > 0 {
		o.Message, o.RequeueAfter = initializingMessage, left
		return
	}
	o.Reason = infrav1.WorkspaceNotReconciledReason
	o.Message = "Workspace " + live.GetName() + " was created" + atTime(live.GetCreationTimestamp().Time) + ", and provider-terraform has not reconciled it yet. Check that provider-terraform runs and " +
		"serves this kind of Workspace. It may be busy with other Workspaces: by default it applies one at a time (flag --max-reconcile-rate)"
}

func (o *Observation) setFailure(report failure.Report) {
	o.Failed, o.Class, o.Reason, o.Message = true, report.Class, report.Reason, report.Message
}

// isApplyError reports whether a condition is an error of terraform apply.
func isApplyError(synced *metav1.Condition) bool {
	return strings.HasPrefix(synced.Message, "create failed") || strings.HasPrefix(synced.Message, "update failed")
}

func isTrue(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionTrue
}
