// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
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
	p := &Plan{}
	if template.IsDefined() {
		vpc := desired.VPC{CAPTCluster: captCluster, Cluster: f.Cluster, Existing: f.Apply.Existing(), Template: &f.Template}
		p.Blocked = engine.Blocking(infrav1.VPCReadyCondition, vpc.Blocked())
		p.AwaitTemplate = vpc.TemplateBlocks() && owner.AwaitsTemplate(&f.Template, captCluster.Namespace)
		if p.Blocked == nil {
			applyInput.Want = vpc.Want()
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
