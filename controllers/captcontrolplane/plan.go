// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

// Plan is what one reconcile does.
type Plan struct {
	// Blocked is why the WorkspaceTemplateApply is not written, as condition DependenciesReady; nil when it may be.
	Blocked *engine.Condition
	// Cycle describes objects of the dependency graph that depend on each other; empty when there are none.
	Cycle string
	// Apply is the plan for the WorkspaceTemplateApply of the control plane.
	Apply owner.Plan
	// Kubeconfig is the plan for the kubeconfig Secrets.
	Kubeconfig kubeconfigsecret.Plan
	// PublishEndpoint is true when spec.controlPlaneEndpoint is written.
	PublishEndpoint bool
	// Fargate is the plan for the Fargate profiles; SkipFargate is true while they must not be modified.
	Fargate     fargate.Plan
	SkipFargate bool
	// Recovery is what is done about a failure of Terraform.
	Recovery recovery.Decision
	// AwaitTemplate is true while the object is blocked by a template that no watch covers.
	AwaitTemplate bool
}

// plan decides what to do. It is pure.
func plan(controlPlane *controlplanev1.CAPTControlPlane, f *Facts) (p *Plan, err error) {
	c := f.desired(controlPlane)
	if f.Graph != nil {
		c.Cycle, c.CycleBlocks = f.Graph.Cycle()
	}
	p = &Plan{Cycle: c.Cycle, Blocked: engine.Blocking(controlplanev1.DependenciesReadyCondition, c.Blocked())}
	p.AwaitTemplate = c.TemplateBlocks() && owner.AwaitsTemplate(&f.Template, controlPlane.Namespace)
	applyInput := owner.PlanInput{Owner: ownerOf(controlPlane), Paused: f.Paused != "", BlockOwnDeletion: len(f.Fargate.Obsolete) > 0}
	if p.Blocked == nil {
		applyInput.Want = c.Want()
	}
	if p.Apply, err = f.Apply.Plan(applyInput); err != nil {
		return p, err
	}
	ready := p.Apply.Ready()
	publish := ready && p.Apply.Step == owner.Provision // Not while paused, and not during deletion.
	p.PublishEndpoint = publish
	p.Kubeconfig = f.kubeconfigPlan(controlPlane, ready)
	p.Kubeconfig.Write = publish
	p.SkipFargate = f.Apply.HeldBy != nil || f.Apply.RetainConflict != "" || f.Apply.Held && controlPlane.DeletionTimestamp.IsZero()
	p.Fargate, err = f.Fargate.Plan(controlPlane, fargate.PlanInput{Paused: f.Paused, Blocked: p.Blocked != nil, Ready: ready && p.Blocked == nil})
	p.Recovery = f.recoveryPlan(controlPlane, p)
	return p, err
}

// ownerOf returns a control plane as the owner of its WorkspaceTemplateApply.
func ownerOf(controlPlane *controlplanev1.CAPTControlPlane) owner.Owner {
	return owner.Owner{
		Object: controlPlane, Kind: controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), Ref: &controlPlane.Spec.WorkspaceTemplateApplyRef,
		Finalizer: controlplanev1.CAPTControlPlaneFinalizer, FieldManager: fieldManager, Creates: "the control plane",
	}
}

// kubeconfigPlan returns the plan for the kubeconfig Secrets: publish them once Terraform is done, and only renew tokens before that.
func (f *Facts) kubeconfigPlan(controlPlane *controlplanev1.CAPTControlPlane, ready bool) kubeconfigsecret.Plan {
	p := kubeconfigsecret.Plan{Paused: f.Paused != "", NameConflict: f.NameConflict, Now: f.Now}
	switch {
	case !controlPlane.DeletionTimestamp.IsZero() || f.Cluster == nil || f.Apply.Apply == nil:
		return p
	case ready:
		p.Mode = kubeconfigsecret.Publish
	case f.CreatesTokens && f.Kubeconfig.HoldsToken():
		p.Mode = kubeconfigsecret.RenewToken
	}
	p.Cluster = kubeconfigsecret.Cluster{
		ControlPlane: controlPlane, Name: f.Cluster.Name, EKSName: f.Apply.Apply.Spec.Variables[naming.ClusterVariable],
		Region: f.desired(controlPlane).EKSCluster().Region, Outputs: f.outputs(),
	}
	return p
}

// desired returns the control plane as package desired describes it.
func (f *Facts) desired(controlPlane *controlplanev1.CAPTControlPlane) *desired.ControlPlane {
	c := desired.NewControlPlane(controlPlane, f.Cluster, f.Infrastructure)
	c.Existing, c.Template = f.Apply.Existing(), &f.Template
	return c
}
