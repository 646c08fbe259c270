// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/validation/owners"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// status computes the status from the facts.
func status(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	s, adoption := &controlPlane.Status, f.Apply.AdoptionCondition(controlplanev1.AdoptionRequiredCondition)
	if controlPlane.DeletionTimestamp.IsZero() &&
		(engine.IsMigrating(controlPlane) || f.Apply.KeepsStatus(s.ObservedGeneration, s.Conditions, f.Paused, manager)) {
		engine.KeepStatus(controlPlane, f.Paused, adoption)
		return
	}
	s.ObservedGeneration = controlPlane.Generation
	s.ExternalManagedControlPlane = ptr.To(true)
	if endpoint := owners.Endpoint(controlPlane.Spec.ControlPlaneEndpoint); endpoint.IsValid() {
		s.Endpoint = endpoint.String()
	}
	if !controlPlane.DeletionTimestamp.IsZero() {
		deletionStatus(controlPlane, f)
		return
	}
	if summary := summary(f); summary != nil { // What status records is evidence for an adoption.
		s.WorkspaceTemplateApply = summary
	}
	if value := newRetry(controlPlane); value != "" {
		s.Recovery.Retry, s.Recovery.RetryTime = value, ptr.To(metav1.NewTime(f.Now))
	}

	c := conditions(controlPlane, f)
	c.profiles.Set(controlPlane)
	if c.workspace.Status == metav1.ConditionTrue && c.dependencies.Status == metav1.ConditionTrue {
		s.Version = f.runningVersion()
		s.Versions = []clusterv1.StatusVersion{{Version: s.Version}}
	}
	if c.endpoint.Status == metav1.ConditionTrue && c.kubeconfig.Status == metav1.ConditionTrue {
		s.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	s.State = advance(s.State, state(s, c))
	s.Phase = phase(s.State, ptr.Deref(s.Initialization.ControlPlaneInitialized, false))

	engine.Set(controlPlane,
		engine.PausedCondition(f.Paused),
		c.dependencies, c.workspace, c.endpoint, c.kubeconfig,
		adoption,
		initialized(s),
		available(s, f, c),
		ready(s.State, c),
		creating(s.Phase),
		degraded(s.State, f, c),
		failed(s.State, f, c),
		engine.False(controlplanev1.DeletingCondition, controlplanev1.NotDeletingReason, ""),
	)
	f.reportTemplates(controlPlane)
}

// reportTemplates lists the fields that the WorkspaceTemplates do not use.
func (f *Facts) reportTemplates(controlPlane *controlplanev1.CAPTControlPlane) {
	templates := []*owner.TemplateFacts{&f.Template}
	for i := range f.ProfileTemplates {
		templates = append(templates, &f.ProfileTemplates[i])
	}
	owner.Report(controlPlane, templates...)
}

// deletionStatus says what is waited for. The other conditions stay as they were: they tell what is being deleted.
func deletionStatus(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) {
	controlPlane.Status.FargateProfiles = f.Fargate.Report().Statuses
	deleting := f.Apply.DeletingCondition(controlplanev1.DeletingCondition, f.Paused)
	if profiles := f.Fargate.Deleting(); profiles != nil && f.Apply.RetainConflict == "" {
		deleting = *profiles
	}
	engine.Set(controlPlane,
		engine.PausedCondition(f.Paused),
		deleting,
		engine.False(controlplanev1.AvailableCondition, controlplanev1.DeletingReason, deleting.Message),
		engine.False(controlplanev1.ReadyCondition, controlplanev1.DeletingReason, deleting.Message),
	)
}

func summary(f *Facts) *controlplanev1.WorkspaceTemplateApplyStatus {
	summary := f.Apply.Summary(manager)
	if summary == nil {
		return nil
	}
	return &controlplanev1.WorkspaceTemplateApplyStatus{
		WorkspaceTemplateApplySummary: *summary,
		State:                         f.Apply.State(),
		Outputs:                       f.Apply.Apply.Status.Outputs,
	}
}

// state is where the control plane is in its life; see docs/status.md for the table.
func state(s *controlplanev1.CAPTControlPlaneStatus, c parts) controlplanev1.State {
	initialized := ptr.Deref(s.Initialization.ControlPlaneInitialized, false)
	switch {
	case (c.dependencies.Reason == controlplanev1.WaitingForOwnerReason || c.idle) && !initialized:
		return controlplanev1.StatePending
	case c.all():
		return controlplanev1.StateReady
	case initialized && !c.working:
		return controlplanev1.StateDegraded
	case !initialized && c.failed:
		return controlplanev1.StateFailed
	case c.dependencies.Status != metav1.ConditionTrue && !initialized:
		return controlplanev1.StateValidating
	case c.workspace.Status != metav1.ConditionTrue:
		return controlplanev1.StateProvisioning
	}
	return controlplanev1.StateConfiguring
}

// phase is the coarse form of a state.
func phase(state controlplanev1.State, initialized bool) controlplanev1.Phase {
	switch state {
	case controlplanev1.StateReady, controlplanev1.StateDegraded:
		return controlplanev1.PhaseReady
	case controlplanev1.StateFailed:
		return controlplanev1.PhaseFailed
	case controlplanev1.StateRecovering:
		if initialized {
			return controlplanev1.PhaseReady
		}
		return controlplanev1.PhaseCreating
	case controlplanev1.StatePending, controlplanev1.StateValidating, controlplanev1.StateProvisioning, controlplanev1.StateConfiguring:
	}
	return controlplanev1.PhaseCreating
}

func initialized(s *controlplanev1.CAPTControlPlaneStatus) engine.Condition {
	if ptr.Deref(s.Initialization.ControlPlaneInitialized, false) {
		return engine.True(controlplanev1.InitializedCondition, controlplanev1.InitializedReason, "")
	}
	return engine.False(controlplanev1.InitializedCondition, controlplanev1.NotInitializedReason, "")
}

// available stays True while the API server can be used, whatever Terraform does, but destroy it.
func available(s *controlplanev1.CAPTControlPlaneStatus, f *Facts, c parts) engine.Condition {
	if f.Apply.Destroyed() {
		return engine.False(controlplanev1.AvailableCondition, controlplanev1.NotAvailableReason, c.workspace.Message)
	}
	if ptr.Deref(s.Initialization.ControlPlaneInitialized, false) {
		return engine.True(controlplanev1.AvailableCondition, controlplanev1.AvailableReason, "")
	}
	worst := c.worst()
	return engine.False(controlplanev1.AvailableCondition, controlplanev1.NotAvailableReason, worst.Message)
}

func ready(state controlplanev1.State, c parts) engine.Condition {
	if state == controlplanev1.StateReady {
		return engine.True(controlplanev1.ReadyCondition, controlplanev1.ReadyReason, "")
	}
	worst := c.worst()
	return engine.False(controlplanev1.ReadyCondition, worst.Reason, worst.Message)
}

func creating(phase controlplanev1.Phase) engine.Condition {
	if phase != controlplanev1.PhaseCreating {
		return engine.False(controlplanev1.CreatingCondition, controlplanev1.NotCreatingReason, "")
	}
	return engine.True(controlplanev1.CreatingCondition, controlplanev1.CreatingReason, "")
}

// failed has the reason and the message that v1beta1 shows as failureReason and failureMessage.
func failed(state controlplanev1.State, f *Facts, c parts) engine.Condition {
	if state != controlplanev1.StateFailed {
		return engine.False(controlplanev1.FailedCondition, controlplanev1.NotFailedReason, "")
	}
	worst := c.worst()
	condition := engine.True(controlplanev1.FailedCondition, worst.Reason, worst.Message)
	condition.Since = f.Now
	return condition
}

func degraded(state controlplanev1.State, f *Facts, c parts) engine.Condition {
	if state != controlplanev1.StateDegraded {
		return engine.False(controlplanev1.DegradedCondition, controlplanev1.NotDegradedReason, "")
	}
	condition := engine.True(controlplanev1.DegradedCondition, controlplanev1.DegradedReason, c.worst().Message)
	condition.Since = f.Now
	return condition
}
