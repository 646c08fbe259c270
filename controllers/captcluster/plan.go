// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"github.com/capt-provider/capt/api/claim"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// Plan is what one reconcile does.
type Plan struct {
	// Apply is the plan for the WorkspaceTemplateApply of the VPC.
	Apply owner.Plan
	// Blocked is why the WorkspaceTemplateApply is not written; nil when it is, and for an existing VPC.
	Blocked *engine.Condition
	// AwaitTemplate is true while the object is blocked by a template that no watch covers.
	AwaitTemplate bool
}

// plan decides what to do. It is pure.
func plan(captCluster *infrav1.CAPTCluster, f *Facts) (*Plan, error) {
	template := captCluster.Spec.VPC.Template
	applyInput := owner.PlanInput{
		Owner: ownerOf(captCluster), Paused: f.Paused != "", BlockDeletion: len(f.ControlPlanes) > 0,
		Hold: !template.IsDefined() && f.Cluster != nil && !f.Apply.NeedsDecision(),
	}
	p, in := &Plan{}, &input{captCluster, f}
	if template.IsDefined() {
		p.Blocked = engine.FirstBlocking(infrav1.VPCReadyCondition, in, rules())
		p.AwaitTemplate = owner.AwaitsTemplate(&f.Template, captCluster.Namespace, in, templateRules())
	}
	if clusterName := f.clusterName(captCluster); template.IsDefined() && p.Blocked == nil && clusterName != "" {
		applyInput.Want = &owner.Want{
			Expectation: claim.ExpectationOfCAPTCluster(captCluster, clusterName), ClusterName: clusterName, Template: template.Ref,
			Intent: desired.VPCIntent(captCluster, clusterName), DeletionPolicy: template.DeletionPolicy,
		}
	}
	var err error
	p.Apply, err = f.Apply.Plan(applyInput)
	return p, err
}

// ownerOf returns a CAPTCluster as the owner of a WorkspaceTemplateApply.
func ownerOf(captCluster *infrav1.CAPTCluster) owner.Owner {
	return owner.Owner{
		Object: captCluster, Kind: infrav1.GroupVersion.WithKind("CAPTCluster"), Ref: &captCluster.Spec.WorkspaceTemplateApplyRef,
		Finalizer: infrav1.CAPTClusterFinalizer, FieldManager: naming.CAPTClusterFieldManager, Creates: "the VPC",
	}
}

// input is what the rules are checked against.
type input struct {
	captCluster *infrav1.CAPTCluster
	*Facts
}

// rules returns the rules that block the creation and update of the WorkspaceTemplateApply, in the order in which they are checked.
func rules() []engine.Rule[*input] {
	return append([]engine.Rule[*input]{
		{Reason: infrav1.WaitingForOwnerReason, Message: (*input).waitingForOwner},
		{Reason: engine.DecisionReason, Message: func(in *input) string { return in.Apply.DecisionMessage() }},
		{Reason: infrav1.ReferenceConflictReason, Message: func(in *input) string { return in.Apply.Conflict }},
	}, templateRules()...)
}

func templateRules() []engine.Rule[*input] { return owner.TemplateRules((*input).newTemplate) }

// waitingForOwner does not block a deletion: the Cluster may no longer exist.
func (in *input) waitingForOwner() string {
	if in.Cluster != nil || !in.captCluster.DeletionTimestamp.IsZero() {
		return ""
	}
	return waitingForOwner
}

// newTemplate returns the template if the CAPTCluster does not use it yet. A template blocks no deletion.
func (in *input) newTemplate() *owner.TemplateFacts {
	if !in.captCluster.DeletionTimestamp.IsZero() || in.Template.InUse(in.Apply.Apply, in.captCluster.Status.VPC.ID != "") {
		return nil
	}
	return &in.Template
}
