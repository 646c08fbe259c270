// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/health"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

// observeHistory reads what shows whether the control plane was ever initialized, if spec allows to recreate it and it fails.
func (r *Reconciler) observeHistory(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (err error) {
	strategy := controlPlane.Spec.Recovery
	recreates := func(a infrav1.RecoveryAction) bool { return a.Type == infrav1.RecoveryRecreateWorkspace }
	if !f.Recovers || strategy == nil || !slices.ContainsFunc(strategy.Actions, recreates) || owner.FailureOf(f.Apply.Live, controlPlane.Generation).Class == "" {
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

// failing returns what is recovered: the control plane, or the first Fargate profile that fails.
func (f *Facts) failing(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) recovery.Failure {
	condition := p.Apply.Condition(controlplanev1.WorkspaceReadyCondition, controlplanev1.WorkspaceReadyReason)
	timeout := f.timeoutOf(controlPlane, p, &condition)
	if timeout != nil && timeout.Reason != controlplanev1.ControlPlaneTimeoutReason {
		timeout = nil // A Secret is missing.
	}
	found := p.Apply.Failing(timeout)
	for i := 0; i < len(p.Fargate.Profiles) && found.Class == "" && !p.Apply.Differs; i++ {
		found = owner.FailureOf(p.Fargate.Profiles[i].Apply.Live, controlPlane.Generation)
		found.Profile = p.Fargate.Profiles[i].Name
	}
	if found.Class == "" {
		return f.unhealthy(controlPlane, p)
	}
	return found
}

// unhealthy returns the first failing health check of a control plane that was initialized for which Terraform may run once; the zero value if there is none. It
// does not help while a user must act about the Workspace, and with outputs of another VPC it could destroy something.
func (f *Facts) unhealthy(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) recovery.Failure {
	live, checks := p.Apply.Live, []infrav1.RecoveryCheck{health.Workspace, health.Dependencies}
	if strategy := controlPlane.Spec.Recovery; strategy != nil && len(strategy.OnUnhealthy) > 0 {
		checks = strategy.OnUnhealthy
	}
	switch effect := reasons.Of(p.Apply.ReadyReason()).Effect; {
	case !wasInitialized(controlPlane), p.Apply.Differs, live == nil, effect == reasons.FailsAtOnce, effect == reasons.FailsAfterGrace:
		return recovery.Failure{}
	case !live.DeletionTimestamp.IsZero(), live.Status.WorkspaceRef == nil, f.vpcReplaced().Status == metav1.ConditionTrue:
		return recovery.Failure{}
	}
	known := conditionsOf(controlPlane, f, p).health
	for _, name := range checks {
		if name == health.Dependencies && f.vpcWaitsForUser() {
			continue
		}
		if check := health.Find(known, string(name)); check != nil && check.Status == controlplanev1.HealthUnhealthy {
			return recovery.Failure{Check: check.Name, Since: check.LastTransitionTime.Time, Workspace: live.Status.WorkspaceRef.UID}
		}
	}
	return recovery.Failure{}
}

// vpcWaitsForUser reports whether the VPC fails because of what a user must correct: another run for the control plane does not help.
func (f *Facts) vpcWaitsForUser() bool {
	return f.Infrastructure != nil && conditions.GetReason(f.Infrastructure, infrav1.RecoveringCondition) == infrav1.RecoveryBlockedReason
}

func (f *Facts) recoveryPlan(controlPlane *controlplanev1.CAPTControlPlane, p *Plan) recovery.Decision {
	ready := p.Apply.Ready()
	for i := range p.Fargate.Profiles {
		ready = ready && p.Fargate.Profiles[i].Apply.Ready()
	}
	return f.Recover(&p.Apply, func() recovery.Failure { return f.failing(controlPlane, p) }, ready, f.History)
}

func (r *Reconciler) reconcileRecovery(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) error {
	return r.ReconcileRecovery(&f.Observed, &p.Apply, func() (string, error) { return r.runAction(ctx, controlPlane, f, p) })
}

// runAction runs the recovery action of the plan, or returns why it is refused.
func (r *Reconciler) runAction(ctx context.Context, controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) (refused string, err error) {
	d, target := &p.Apply.Recovery, f.Apply.Live
	for i := range p.Fargate.Profiles {
		if p.Fargate.Profiles[i].Name == d.Profile {
			target = p.Fargate.Profiles[i].Apply.Live
		}
	}
	switch d.Action.Type {
	case infrav1.RecoveryRecreateFargateProfile:
		return "", r.recreate(ctx, target)
	case infrav1.RecoveryRecreateWorkspace:
		return r.recreateControlPlane(ctx, controlPlane, f, d.Action)
	case infrav1.RecoveryReapply, infrav1.RecoveryClearInterruptedCreate, infrav1.RecoveryRequeue:
	}
	return "", r.RunAgain(ctx, d, target)
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
