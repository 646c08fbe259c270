// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// Action is what to do about a CAPTCluster.
type Action string

const (
	// Observe: nothing to write, status says what is waited for.
	Observe Action = "Observe"
	// Hold: put the finalizer on, so that the CAPTCluster outlives the control plane that stands in its VPC.
	Hold Action = "Hold"
	// Provision: write the WorkspaceTemplateApply of the VPC.
	Provision Action = "Provision"
	// WritePolicy: write another deletion policy of the VPC, which the control plane may wait for.
	WritePolicy Action = "WritePolicy"
	// Destroy: delete the WorkspaceTemplateApplies that come next.
	Destroy Action = "Destroy"
	// Release: the CAPTCluster may go.
	Release Action = "Release"
)

// decide is pure.
func decide(captCluster *infrav1.CAPTCluster, f *Facts) Action {
	switch {
	case f.Paused != "":
		return Observe
	case !captCluster.DeletionTimestamp.IsZero():
		return decideDeletion(captCluster, f)
	case f.Cluster == nil, f.Apply.Undecided(), f.Apply.Claimed != "":
		return Observe
	case !captCluster.Spec.VPC.Template.IsDefined():
		return Hold
	case f.blocked(captCluster) != nil:
		return Observe
	}
	return Provision
}

// blocked says why the template is not taken into use; nil when it may be, or is in use already. It holds up no deletion.
func (f *Facts) blocked(captCluster *infrav1.CAPTCluster) *engine.Condition {
	if !captCluster.DeletionTimestamp.IsZero() || f.Template.InUse(f.Apply.Apply, captCluster.Status.VPC.ID != "") {
		return nil
	}
	return f.Template.Blocks(infrav1.VPCReadyCondition)
}

func decideDeletion(captCluster *infrav1.CAPTCluster, f *Facts) Action {
	switch {
	case len(f.Apply.Owned) > 0:
		return Observe
	case len(f.ControlPlanes) > 0 && policyChanged(captCluster, f):
		return WritePolicy
	case len(f.ControlPlanes) > 0, f.Apply.RetainConflict != "":
		return Observe
	case len(f.Apply.Undeleted()) > 0:
		return Destroy
	case len(f.Apply.Next()) == 0:
		return Release
	}
	return Observe
}

// policyChanged reports whether spec has another deletion policy than the WorkspaceTemplateApply of the VPC.
func policyChanged(captCluster *infrav1.CAPTCluster, f *Facts) bool {
	template := captCluster.Spec.VPC.Template
	if !template.IsDefined() || f.Apply.Apply == nil || f.Apply.Desired == nil {
		return false
	}
	return (template.DeletionPolicy == infrav1.DeletionPolicyRetain) != (f.Apply.Apply.Spec.DeletionPolicy == infrav1.DeletionPolicyRetain)
}
