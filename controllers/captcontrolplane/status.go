// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"cmp"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/progress"
)

func status(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) {
	s := &controlPlane.Status
	before := s.DeepCopy()
	s.ObservedGeneration = controlPlane.Generation
	s.ExternalManagedControlPlane = ptr.To(true)
	if endpoint := validation.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint); endpoint.IsValid() {
		s.Endpoint = endpoint.String()
	}
	engine.SetNegativePolarity(controlPlane, engine.PausedCondition(f.Paused), engine.ClusterConflict(f.Clusters))
	if !controlPlane.DeletionTimestamp.IsZero() {
		deletionStatus(controlPlane, f, p)
		return
	}
	if summary := summary(p); summary != nil { // An existing record is kept without a summary: it is evidence.
		f.keepEndpoint(controlPlane, p, summary)
		s.WorkspaceTemplateApply = summary
	}
	f.ReportRecovery(&p.Apply)

	c := conditionsOf(controlPlane, f, p)
	c.profiles.Set(controlPlane)
	if c.workspace.Status == metav1.ConditionTrue && c.dependencies.Status == metav1.ConditionTrue { // It is known after a complete apply.
		s.Version = f.runningVersion(f.desired(controlPlane).Version)
		s.Versions = []clusterv1.StatusVersion{{Version: s.Version}}
	}
	s.Health = c.health
	if c.initialized {
		s.Initialization.ControlPlaneInitialized = ptr.To(true)
	}
	life := c.life(s, f)
	s.State = life.State(s.State)
	failed, degraded := life.Conditions(s.State, f.Now)
	initialized := ptr.Deref(s.Initialization.ControlPlaneInitialized, false)
	s.Phase = phase(s.State, initialized)

	engine.Set(controlPlane, c.dependencies, c.workspace, c.endpoint, c.kubeconfig,
		engine.True(controlplanev1.InitializedCondition, controlplanev1.InitializedReason, "").If(initialized, controlplanev1.NotInitializedReason),
		available(s, f, c), ready(s.State, f, c, p.Apply.Recovery.Summary()))
	engine.SetNegativePolarity(controlPlane, f.Apply.Decision(),
		engine.True(controlplanev1.CreatingCondition, controlplanev1.CreatingReason, "").If(s.Phase == controlplanev1.PhaseCreating, controlplanev1.NotCreatingReason),
		degraded, failed, f.vpcReplaced())
	owner.ReportTemplates(controlPlane, f.templates()...)
	if f.Graph != nil && f.Paused == "" {
		engine.SetNegativePolarity(controlPlane, engine.True(controlplanev1.DependencyCycleCondition, controlplanev1.DependencyCycleReason, p.Cycle).If(p.Cycle != "", controlplanev1.NoDependencyCycleReason))
	}
	s.Progress = progress.Next(s.Progress, observedProgress(controlPlane, f, c))
	changed := !engine.Equal(before, s)
	if changed {
		s.Progress = progress.AsOf(s.Progress, f.Now)
	}
	reportDependencies(s, f, p, changed)
}

// reportDependencies lists the dependencies. While the control plane is created, they are those of the last status write that has another cause:
// nearly every step changes one.
func reportDependencies(s *controlplanev1.CAPTControlPlaneStatus, f *Facts, p *Plan, changed bool) {
	if f.Graph != nil && f.Paused == "" && (changed || s.Phase != controlplanev1.PhaseCreating) {
		s.Dependencies = f.graphWithWrites(p).Dependencies()
	}
}

func situation(_ *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) engine.Situation {
	return p.Apply.Situation(f.Paused)
}

// templates of the control plane and its Fargate profiles.
func (f *Facts) templates() []*desired.TemplateFacts {
	templates := []*desired.TemplateFacts{&f.Template}
	for i := range f.ProfileTemplates {
		templates = append(templates, &f.ProfileTemplates[i])
	}
	return templates
}

// deletionStatus reports what the deletion waits for. The other conditions are kept: they describe the state before the deletion.
func deletionStatus(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, p *Plan) {
	p.Fargate.Report(f.Now).SetStatuses(controlPlane)
	deleting := f.Apply.DeletingCondition(infrav1.DeletingCondition, f.Paused)
	switch profiles := p.Fargate.Deleting(); {
	case profiles == nil, f.Apply.IsHeld(), f.Apply.RetainConflict != "":
	case f.Apply.HeldBy != nil:
		deleting = engine.True(infrav1.DeletingCondition, f.Apply.HeldBy.Reason, f.Apply.HeldBy.Message)
	default:
		deleting = *profiles
	}
	engine.Set(controlPlane,
		deleting,
		engine.False(controlplanev1.AvailableCondition, infrav1.DeletingReason, deleting.Message),
		engine.False(controlplanev1.ReadyCondition, infrav1.DeletingReason, deleting.Message),
	)
	engine.SetNegativePolarity(controlPlane, f.DeletionTimedOut(&p.Apply, deleting))
}

func summary(p *Plan) *controlplanev1.WorkspaceTemplateApplyStatus {
	summary := p.Apply.Summary()
	if summary == nil {
		return nil
	}
	return &controlplanev1.WorkspaceTemplateApplyStatus{
		WorkspaceTemplateApplySummary: *summary,
		State:                         cmp.Or(p.Apply.ReadyReason(), infrav1.ProvisioningReason),
		Outputs:                       p.Apply.Live.Status.Outputs,
	}
}

// keepEndpoint keeps the endpoint among the outputs of status until the one that Terraform reports now is followed, or is not: the record is what shows
// that it may be. It cannot be followed before Terraform is done, during a pause, or if the write fails.
func (f *Facts) keepEndpoint(controlPlane *controlplanev1.CAPTControlPlane, p *Plan, summary *controlplanev1.WorkspaceTemplateApplyStatus) {
	undecided := !p.PublishEndpoint || !f.EndpointKept
	if _, moved := f.otherOutput(controlPlane); moved && undecided && summary.Outputs[terraform.OutputClusterEndpoint] != "" {
		summary.Outputs = maps.Clone(summary.Outputs)
		summary.Outputs[terraform.OutputClusterEndpoint] = controlPlane.Status.WorkspaceTemplateApply.Outputs[terraform.OutputClusterEndpoint]
	}
}

// life is what the state is derived from.
func (c *conditionSet) life(s *controlplanev1.CAPTControlPlaneStatus, f *Facts) *owner.Life {
	pending := c.dependencies.Reason == infrav1.WaitingForOwnerReason || c.notStarted
	return &owner.Life{
		Unmet: c.unmet(), Initialized: ptr.Deref(s.Initialization.ControlPlaneInitialized, false) || f.Apply.ProvisionedField != "" && !pending, Pending: pending,
		Blocked: c.dependencies.Status != metav1.ConditionTrue, Applied: c.workspace.Status == metav1.ConditionTrue, Absent: f.Apply.ResourcesAbsent(),
		Working: c.working, Failed: c.failed, Down: c.down, Recovering: c.recovering, Cause: c.cause,
	}
}

func phase(state infrav1.State, initialized bool) controlplanev1.Phase {
	switch state {
	case infrav1.StateReady, infrav1.StateDegraded:
		return controlplanev1.PhaseReady
	case infrav1.StateFailed:
		return controlplanev1.PhaseFailed
	case infrav1.StateRecovering:
		if initialized {
			return controlplanev1.PhaseReady
		}
		return controlplanev1.PhaseCreating
	case infrav1.StatePending, infrav1.StateValidating, infrav1.StateProvisioning, infrav1.StateConfiguring:
	}
	return controlplanev1.PhaseCreating
}

// available returns the condition Available. It stays True while the API server can be used, also while Terraform runs or fails, unless
// Terraform destroys the cluster. A cluster that was recreated is available again when its endpoint is published (see recreated).
func available(s *controlplanev1.CAPTControlPlaneStatus, f *Facts, c conditionSet) engine.Condition {
	switch {
	case f.Apply.ResourcesAbsent():
		return engine.False(controlplanev1.AvailableCondition, controlplanev1.NotAvailableReason, c.workspace.Message)
	case recreated(s) && (c.workspace.Status != metav1.ConditionTrue || c.endpoint.Status != metav1.ConditionTrue):
		return engine.False(controlplanev1.AvailableCondition, controlplanev1.NotAvailableReason, c.unmet().Message)
	case c.down:
		return engine.False(controlplanev1.AvailableCondition, c.unhealthy.Reason, c.unhealthy.Message)
	case ptr.Deref(s.Initialization.ControlPlaneInitialized, false):
		return engine.True(controlplanev1.AvailableCondition, controlplanev1.AvailableReason, "")
	}
	return engine.False(controlplanev1.AvailableCondition, controlplanev1.NotAvailableReason, c.unmet().Message)
}

// recreated reports whether Terraform destroyed the cluster after it was initialized, so that it may have another endpoint now. Available has
// this reason for no other initialized cluster.
func recreated(s *controlplanev1.CAPTControlPlaneStatus) bool {
	available := meta.FindStatusCondition(s.Conditions, controlplanev1.AvailableCondition)
	return ptr.Deref(s.Initialization.ControlPlaneInitialized, false) && available != nil &&
		available.Status == metav1.ConditionFalse && available.Reason == controlplanev1.NotAvailableReason
}

// ready returns the condition Ready. recovery is what follows its message.
func ready(state infrav1.State, f *Facts, c conditionSet, recovery string) engine.Condition {
	condition := engine.True(controlplanev1.ReadyCondition, controlplanev1.ReadyReason, "")
	if state != infrav1.StateReady {
		unmet := c.unmet()
		condition = engine.False(controlplanev1.ReadyCondition, unmet.Reason, unmet.Message+recovery)
	}
	return engine.WithPause(condition, f.Paused)
}

// observedProgress returns what the progress is computed from. It is called when the state is known.
func observedProgress(controlPlane *controlplanev1.CAPTControlPlane, f *Facts, c conditionSet) *progress.Observed {
	s, first := &controlPlane.Status, c.firstUnmet()
	initialized := ptr.Deref(s.Initialization.ControlPlaneInitialized, false)
	in := f.Progress("CAPTControlPlane", stepOf(first))
	in.Working = c.working
	if first != nil {
		in.Message = first.Message
	}
	if initialized {
		in.Operation, in.Failed = operationOf(s.State, first), !c.working
		return in
	}
	if first == nil {
		in.Step = progress.APIServer
	}
	// After a move or a restore, status does not have what happened before, and an endpoint shows that it is not a creation.
	lost := s.Progress == nil && validation.RepairEndpoint(controlPlane.Spec.ControlPlaneEndpoint).IsValid()
	if s.State != infrav1.StatePending && !lost {
		in.Operation = infrav1.OperationCreation
	}
	in.Failed = s.State == infrav1.StateFailed
	return in
}

// operationOf returns the operation that an initialized control plane needs; empty if it is none of its own.
func operationOf(state infrav1.State, first *engine.Condition) infrav1.Operation {
	switch {
	case first == nil:
	case first.Type == controlplanev1.FargateProfileReadyCondition:
		return infrav1.OperationFargateProfileUpdate
	case first.Type != controlplanev1.WorkspaceReadyCondition:
	case state == infrav1.StateProvisioning:
		return infrav1.OperationRecreation
	default:
		return infrav1.OperationUpdate
	}
	return ""
}

// stepOf returns the step of an operation that a condition reports, if it is the first that is not True.
func stepOf(first *engine.Condition) progress.Step {
	switch {
	case first == nil:
		return progress.Done
	case first.Reason == controlplanev1.WaitingForInfrastructureReason, first.Reason == infrav1.VPCReadyTimeoutReason:
		return progress.Infrastructure
	}
	return map[string]progress.Step{
		controlplanev1.DependenciesReadyCondition: progress.Validation, controlplanev1.WorkspaceReadyCondition: progress.Workspace,
		controlplanev1.EndpointAvailableCondition: progress.Endpoint, controlplanev1.KubeconfigReadyCondition: progress.Kubeconfig,
		controlplanev1.FargateProfileReadyCondition: progress.FargateProfiles,
	}[first.Type]
}
