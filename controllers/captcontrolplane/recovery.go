// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/recovery"
)

// observeHistory reads what shows whether the control plane was ever initialized, if spec allows to recreate it and it fails.
func (r *Reconciler) observeHistory(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	strategy := controlPlane.Spec.Recovery
	recreates := func(a infrav1.RecoveryAction) bool { return a.Type == infrav1.RecoveryRecreateWorkspace }
	if !f.Recovers || strategy == nil || !slices.ContainsFunc(strategy.Actions, recreates) || failureOf(f.Apply.Live).Class == "" {
		return nil
	}
	f.History = &recovery.History{ControlPlane: controlPlane, Cluster: f.Cluster, CAPTCluster: f.Infrastructure, Apply: f.Apply.Live, Origin: r.Gate.Origin}
	return r.completeHistory(ctx, f.History)
}

// completeHistory adds the Secrets and the Workspace to what was read of a control plane. The Workspace is the last: it may change at any time.
func (r *Reconciler) completeHistory(ctx context.Context, h *recovery.History) (err error) {
	connection := naming.ControlPlaneConnectionSecret(h.ControlPlane.Name)
	if ref := h.Apply.Spec.WriteConnectionSecretToRef; ref != nil {
		connection = ref.Name
	}
	for _, name := range []string{naming.KubeconfigSecret(h.Cluster.Name), naming.UserKubeconfigSecret(h.Cluster.Name), connection} {
		secret, err := r.ReadSecret(ctx, h.ControlPlane.Namespace, name)
		if err != nil {
			return err
		}
		// The provider creates the connection Secret without data before the first apply.
		if secret != nil && (name != connection || len(secret.Data) > 0) {
			h.Secret = name
			return nil
		}
	}
	h.Workspace, err = r.Workspaces.NotFailing(ctx, h.Apply)
	return err
}

// failureOf is the failure of a WorkspaceTemplateApply; the zero value if Terraform does not fail.
func failureOf(apply *infrav1.WorkspaceTemplateApply) recovery.Failure {
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
	f.Class = cmp.Or(failure.Class(apply.Status.LastFailureClass), failure.ClassUnknown)
	return f
}

// failing returns what is recovered: the control plane, or the first Fargate profile that fails. A control plane that has timed out although
// Terraform reports no error fails with class Timeout.
func (f *Facts) failing(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) recovery.Failure {
	if p.Apply.Differs {
		return recovery.Failure{} // A change is about to be written, and Terraform runs with it.
	}
	found, apply := failureOf(f.Apply.Live), f.Apply.Live
	condition := p.Apply.Condition(controlplanev1.WorkspaceReadyCondition, controlplanev1.WorkspaceReadyReason)
	if timeout := f.timeoutOf(controlPlane, &condition); found.Class == "" && timeout != nil && timeout.running >= timeout.limit &&
		timeout.reason == controlplanev1.ControlPlaneTimeoutReason && apply != nil && apply.Status.WorkspaceRef != nil {
		found = recovery.Failure{Class: failure.ClassTimeout, Workspace: apply.Status.WorkspaceRef.UID}
	}
	for i := 0; i < len(p.Fargate.Profiles) && found.Class == ""; i++ {
		apply = p.Fargate.Profiles[i].Apply.Live
		found = failureOf(apply)
		found.Profile = p.Fargate.Profiles[i].Name
	}
	if found.Class == "" {
		return recovery.Failure{}
	}
	if inputs := apply.Status.FailureInputs; inputs != "" {
		// Status has it from earlier versions with short revisions: another form would count as another input, for which Terraform runs again. It is compared
		// with this record only, and equality only ends the attempts (decision 38).
		found.Inputs = fmt.Sprintf("%s/%d/%s", terraform.ShortRevision(apply.Status.LastFailedRevision), controlPlane.Generation, inputs)
	}
	return found
}

// mayRecover reports whether recovery may act. Nothing is recovered while the control plane is paused, moved or deleted, or blocked.
func (f *Facts) mayRecover(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) bool {
	return f.Recovers && f.Paused == "" && controlPlane.DeletionTimestamp.IsZero() && f.Cluster != nil && p.Apply.Blocked == nil &&
		f.Apply.Conflict == "" && !f.Apply.NeedsDecision() && !f.GateDecision.KeepsStatus(controlPlane, situation(controlPlane, f, p))
}

func (f *Facts) recoveryPlan(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) recovery.Decision {
	if !f.mayRecover(controlPlane, p) {
		return recovery.Decision{Next: controlPlane.Status.Recovery}
	}
	in := recovery.Input{
		Strategy: controlPlane.Spec.Recovery, Status: controlPlane.Status.Recovery, Failure: f.failing(controlPlane, p), Retry: newRetry(controlPlane) != "",
		Ready: p.Apply.Ready(), History: f.History, Seed: string(controlPlane.UID), Now: f.Now,
	}
	for i := range p.Fargate.Profiles {
		in.Ready = in.Ready && p.Fargate.Profiles[i].Apply.Ready()
	}
	if ready := meta.FindStatusCondition(controlPlane.Status.Conditions, controlplanev1.ReadyCondition); ready != nil && ready.Status == metav1.ConditionTrue {
		in.ReadySince = ready.LastTransitionTime.Time
	}
	return recovery.Decide(in)
}

// reconcileRecovery starts the recovery action of the plan, and requests the reconcile for its end or the next one.
func (r *Reconciler) reconcileRecovery(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) (err error) {
	if r.Recovery == nil {
		return nil
	}
	d, key := &p.Recovery, client.ObjectKeyFromObject(controlPlane)
	if last := &controlPlane.Status.Recovery; d.Ended != "" && last.LastActionTime != nil {
		r.Recovery.Ended(key, last.LastActionTime.Time, last.FailureClass, string(last.LastAction), d.Ended)
	}
	r.Recovery.Report(key, d.Next.NextAttemptTime, d.Kind == recovery.Exhausted)
	if !d.At.IsZero() {
		f.requeueWithin(max(d.At.Sub(f.Now), time.Second))
	}
	if d.Kind != recovery.Run {
		return nil
	}
	if f.RecoveryProblem, err = r.runAction(ctx, controlPlane, f, p); err != nil {
		f.RecoveryProblem = "the recovery action could not be started: " + failure.OneLine(err.Error()) + ". CAPT retries"
	}
	f.Recovered = f.RecoveryProblem == ""
	return err
}

// runAction runs the recovery action of the plan, or returns why it is refused.
func (r *Reconciler) runAction(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) (refused string, err error) {
	d, target := &p.Recovery, f.Apply.Live
	for i := range p.Fargate.Profiles {
		if p.Fargate.Profiles[i].Name == d.Profile {
			target = p.Fargate.Profiles[i].Apply.Live
		}
	}
	ctrl.LoggerFrom(ctx).Info("Starting a recovery action", "action", d.Action.Type, "attempt", d.Attempt, "WorkspaceTemplateApply", klog.KObj(target))
	switch d.Action.Type {
	case infrav1.RecoveryReapply, infrav1.RecoveryClearInterruptedCreate:
		return "", r.requestRecovery(ctx, target, d.Request)
	case infrav1.RecoveryRecreateFargateProfile:
		return "", r.recreate(ctx, target)
	case infrav1.RecoveryRecreateWorkspace:
		return r.recreateControlPlane(ctx, controlPlane, f, d.Action)
	case infrav1.RecoveryRequeue:
	}
	return "", nil
}

// requestRecovery asks the controller of a WorkspaceTemplateApply for an action on its Workspace.
func (r *Reconciler) requestRecovery(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, request string) error {
	if apply.Annotations[naming.RecoveryAnnotation] == request {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": apply.UID, "annotations": map[string]string{naming.RecoveryAnnotation: request},
	}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, apply.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(naming.RecoveryFieldManager))
	if err != nil {
		return fmt.Errorf("requesting a recovery action of WorkspaceTemplateApply %s: %w", apply.Name, err)
	}
	return nil
}

// recreate deletes a WorkspaceTemplateApply as it was read, so that Terraform destroys its resources. Its owner creates it again.
func (r *Reconciler) recreate(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) error {
	err := r.Client.Delete(ctx, apply, client.Preconditions{UID: ptr.To(apply.UID), ResourceVersion: ptr.To(apply.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting WorkspaceTemplateApply %s to recreate it: %w", apply.Name, err)
	}
	return nil
}

// recreateControlPlane checks the history again with objects from the API server: the cache may not show that the control plane was initialized, or
// protected from deletion, a moment ago.
func (r *Reconciler) recreateControlPlane(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, action infrav1.RecoveryAction) (refused string, err error) {
	h, err := r.currentHistory(ctx, controlPlane, f)
	if err != nil {
		return "", err
	}
	current := h.Apply
	if h.ControlPlane == nil || current == nil || h.Cluster == nil || h.ControlPlane.UID != controlPlane.UID || current.UID != f.Apply.Live.UID {
		return "RecreateWorkspace is refused: the CAPTControlPlane, its Cluster or its WorkspaceTemplateApply was deleted or recreated. CAPT checks again", nil
	}
	if err := r.completeHistory(ctx, h); err != nil {
		return "", err
	}
	if refused := recovery.RefuseRecreation(action, h); refused != "" {
		return recovery.Refused(action.Type, refused), nil
	}
	r.Recorder.Eventf(controlPlane, current, corev1.EventTypeWarning, "RecreatingControlPlane", "Recover",
		"Terraform destroys and recreates the control plane, which was never initialized: spec.recovery has the action RecreateWorkspace with allowDestroy")
	return "", r.recreate(ctx, current)
}

// currentHistory reads the objects of a control plane from the API server; those that do not exist are nil.
func (r *Reconciler) currentHistory(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (*recovery.History, error) {
	h := &recovery.History{Origin: r.Gate.Origin}
	var errs [4]error
	h.ControlPlane, errs[0] = engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(controlPlane), &controlplanev1.CAPTControlPlane{})
	h.Apply, errs[1] = engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(f.Apply.Live), &infrav1.WorkspaceTemplateApply{})
	h.Cluster, errs[2] = engine.Get(ctx, r.Uncached, client.ObjectKeyFromObject(f.Cluster), &clusterv1.Cluster{})
	if desired.HasCAPTCluster(f.Cluster) {
		key := client.ObjectKey{Namespace: f.Cluster.Namespace, Name: f.Cluster.Spec.InfrastructureRef.Name}
		h.CAPTCluster, errs[3] = engine.Get(ctx, r.Uncached, key, &infrav1.CAPTCluster{})
	}
	return h, errors.Join(errs[:]...)
}

func reportRecovery(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) {
	d, s := &p.Recovery, &controlPlane.Status.Recovery
	if d.Kind != recovery.Run || f.Recovered {
		*s = d.Next
	}
	no := func(reason, message string) {
		engine.Set(controlPlane, engine.False(infrav1.RecoveringCondition, reason, message))
	}
	switch {
	case d.Kind == recovery.Running, f.Recovered:
		engine.Set(controlPlane, engine.True(infrav1.RecoveringCondition, infrav1.RecoveringReason, d.Message))
	case d.Kind == recovery.Run:
		no(infrav1.RecoveryBlockedReason, f.RecoveryProblem)
	case d.Kind == recovery.Wait:
		no(infrav1.WaitingForRetryReason, d.Message)
	case d.Kind == recovery.Exhausted:
		no(infrav1.RecoveryExhaustedReason, d.Message)
	case d.Kind == recovery.Blocked:
		no(infrav1.RecoveryBlockedReason, d.Message)
	case s.LastOutcome == recovery.OutcomeSucceeded:
		engine.SetNegativePolarity(controlPlane, engine.False(infrav1.RecoveringCondition, infrav1.RecoveredReason, string(s.LastAction)+" succeeded"))
	default:
		engine.SetNegativePolarity(controlPlane, engine.False(infrav1.RecoveringCondition, infrav1.NotRecoveringReason, ""))
	}
}
