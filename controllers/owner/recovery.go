// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/recovery"
)

// FailureOf is the failure of a WorkspaceTemplateApply; the zero value if Terraform does not fail. generation is that of its owner.
func FailureOf(apply *infrav1.WorkspaceTemplateApply, generation int64) recovery.Failure {
	if apply == nil || !apply.DeletionTimestamp.IsZero() || apply.Status.ObservedGeneration != apply.Generation || apply.Status.WorkspaceRef == nil {
		return recovery.Failure{}
	}
	f := recovery.Failure{Workspace: apply.Status.WorkspaceRef.UID, Retained: apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain}
	switch conditions.GetReason(apply, infrav1.ReadyCondition) {
	case infrav1.CreateInterruptedReason:
		f.CreateInterrupted, f.CreateNotRecoverable = true, "CAPT has not checked the Terraform state yet"
		if checked := conditions.Get(apply, infrav1.CreateRecoverableCondition); checked != nil {
			f.CreateNotRecoverable = checked.Message
		}
	case infrav1.ApplyFailedReason, infrav1.PlanFailedReason, infrav1.ProviderConfigFailedReason:
	default:
		return recovery.Failure{}
	}
	f.Class, f.Inputs = cmp.Or(failure.Class(apply.Status.LastFailureClass), failure.ClassUnknown), inputsOf(apply, generation)
	return f
}

// inputsOf identifies what the last run of Terraform used; empty if it is not known. Status has it from earlier versions with short revisions: another
// form would count as another input, for which Terraform runs again. It is compared with this record only, and equality only ends the attempts
// (decision 38).
func inputsOf(apply *infrav1.WorkspaceTemplateApply, generation int64) string {
	if apply.Status.FailureInputs == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d/%s", terraform.ShortRevision(apply.Status.LastFailedRevision), generation, apply.Status.FailureInputs)
}

// Failing returns what is recovered: the failure of the WorkspaceTemplateApply or, if Terraform reports no error although it has run for longer than
// timeout allows, one of class Timeout. timeout is nil while none applies.
func (p *Plan) Failing(timeout *Timeout) recovery.Failure {
	if p.Differs {
		return recovery.Failure{} // A change is about to be written, and Terraform runs with it.
	}
	found := FailureOf(p.Live, p.Owner.GetGeneration())
	if found.Class == "" && timeout.Passed() && p.Live != nil && p.Live.Status.WorkspaceRef != nil {
		found = recovery.Failure{Class: failure.ClassTimeout, Workspace: p.Live.Status.WorkspaceRef.UID, Inputs: inputsOf(p.Live, p.Owner.GetGeneration())}
	}
	return found
}

// mayRecover reports whether recovery may act. Nothing is recovered while the owner is paused, moved or deleted, or blocked.
func (o *Observed) mayRecover(p *Plan) bool {
	return o.Recovers && o.Paused == "" && !p.Owner.deleting() && o.Cluster != nil && p.Blocked == nil &&
		p.Conflict == "" && !p.NeedsDecision() && !o.GateDecision.KeepsStatus(p.Owner, p.Situation(o.Paused))
}

// Recover decides what is done about a failure. ready is true if all that the owner controls is as spec wants it; history is needed for
// RecreateWorkspace only.
func (o *Observed) Recover(p *Plan, failing func() recovery.Failure, ready bool, history *recovery.History) recovery.Decision {
	s := &p.Owner.GetLifecycle().Recovery
	if !o.mayRecover(p) {
		return recovery.Decision{Next: *s}
	}
	in := recovery.Input{
		Strategy: p.Owner.Strategy, Status: *s, Failure: failing(), Retry: NewRetry(p.Owner) != "",
		Ready: ready, History: history, Seed: string(p.Owner.GetUID()), Now: o.Now,
	}
	if ready := meta.FindStatusCondition(p.Owner.GetConditions(), infrav1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionTrue {
		in.ReadySince = ready.LastTransitionTime.Time
	}
	return recovery.Decide(in)
}

// ReconcileRecovery starts the recovery action of the plan with run, and requests the reconcile for its end or the next one. run returns why the action
// is refused.
func (r *Reconciler) ReconcileRecovery(o *Observed, p *Plan, run func() (refused string, err error)) (err error) {
	if r.Recovery == nil {
		return nil
	}
	d, key := &p.Recovery, client.ObjectKeyFromObject(p.Owner)
	if last := &p.Owner.GetLifecycle().Recovery; d.Ended != "" && last.LastActionTime != nil {
		r.Recovery.Ended(p.Owner.Kind.Kind, key, last.LastActionTime.Time, last.FailureClass, string(last.LastAction), d.Ended)
	}
	r.Recovery.Report(p.Owner.Kind.Kind, key, d.Next.NextAttemptTime, d.Kind == recovery.Exhausted)
	if !d.At.IsZero() {
		o.RequeueWithin(max(d.At.Sub(o.Now), time.Second))
	}
	if d.Kind != recovery.Run {
		return nil
	}
	if o.RecoveryProblem, err = run(); err != nil {
		o.RecoveryProblem = "the recovery action could not be started: " + failure.OneLine(err.Error()) + ". CAPT retries"
	}
	o.Recovered = o.RecoveryProblem == ""
	return err
}

// RunAgain starts an action that makes Terraform run again, and changes nothing else.
func (r *Reconciler) RunAgain(ctx context.Context, d *recovery.Decision, target *infrav1.WorkspaceTemplateApply) error {
	ctrl.LoggerFrom(ctx).Info("Starting a recovery action", "action", d.Action.Type, "attempt", d.Attempt, "WorkspaceTemplateApply", klog.KObj(target))
	if d.Action.Type == infrav1.RecoveryRequeue || target.Annotations[naming.RecoveryAnnotation] == d.Request {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": target.UID, "annotations": map[string]string{naming.RecoveryAnnotation: d.Request},
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, target.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(naming.RecoveryFieldManager))
	if err != nil {
		return fmt.Errorf("requesting a recovery action of WorkspaceTemplateApply %s: %w", target.Name, err)
	}
	return nil
}

// ReportRecovery writes status.recovery and the condition Recovering.
func (o *Observed) ReportRecovery(p *Plan) {
	d, s := &p.Recovery, &p.Owner.GetLifecycle().Recovery
	if d.Kind != recovery.Run || o.Recovered {
		*s = d.Next
	}
	if value := NewRetry(p.Owner); value != "" {
		s.Retry, s.RetryTime = value, ptr.To(metav1.NewTime(o.Now))
	}
	no := func(reason, message string) {
		engine.Set(p.Owner.Object, engine.False(infrav1.RecoveringCondition, reason, message))
	}
	switch {
	case d.Kind == recovery.Running, o.Recovered:
		engine.Set(p.Owner.Object, engine.True(infrav1.RecoveringCondition, infrav1.RecoveringReason, d.Message))
	case d.Kind == recovery.Run:
		no(infrav1.RecoveryBlockedReason, o.RecoveryProblem)
	case d.Kind == recovery.Wait:
		no(infrav1.WaitingForRetryReason, d.Message)
	case d.Kind == recovery.Exhausted:
		no(infrav1.RecoveryExhaustedReason, d.Message)
	case d.Kind == recovery.Blocked:
		no(infrav1.RecoveryBlockedReason, d.Message)
	case s.LastOutcome == recovery.OutcomeSucceeded:
		engine.SetNegativePolarity(p.Owner.Object, engine.False(infrav1.RecoveringCondition, infrav1.RecoveredReason, string(s.LastAction)+" succeeded"))
	default:
		engine.SetNegativePolarity(p.Owner.Object, engine.False(infrav1.RecoveringCondition, infrav1.NotRecoveringReason, ""))
	}
}

// NewRetry is the value of the annotation that requests a retry if status does not have it yet; else it is empty.
func NewRetry(o Owner) string {
	if value := o.GetAnnotations()[naming.RetryAnnotation]; value != o.GetLifecycle().Recovery.Retry {
		return value
	}
	return ""
}
