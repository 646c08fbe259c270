// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"fmt"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Region returns the region of a control plane: spec.region, or the region of the CAPTCluster, which may be nil; empty if neither has one.
func Region(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster) string {
	if controlPlane.Spec.Region == "" && captCluster != nil {
		return captCluster.Spec.Region
	}
	return controlPlane.Spec.Region
}

// VPCID returns the ID of the VPC of a CAPTCluster, which may be nil; empty while it is unknown. For an existing VPC, spec is used if status has
// no ID: the controller of an externally managed CAPTCluster may not report it.
func VPCID(captCluster *infrav1.CAPTCluster) string {
	switch {
	case captCluster == nil:
		return ""
	case captCluster.Status.VPC.ID != "":
		return captCluster.Status.VPC.ID
	}
	return captCluster.Spec.VPC.ExistingID
}

// VPCSecret returns the name of the Secret that describes the VPC of a CAPTCluster, which may be nil; empty when no object names one.
func VPCSecret(captCluster *infrav1.CAPTCluster) string {
	switch {
	case captCluster == nil:
		return ""
	case captCluster.Spec.VPC.ConnectionSecretRef.IsDefined():
		return captCluster.Spec.VPC.ConnectionSecretRef.Name
	case !captCluster.Spec.VPC.Template.IsDefined():
		return ""
	}
	return naming.VPCConnectionSecret(captCluster.Name)
}

// RegionChange returns an error, with a remedy, if a control plane would move to another region than the one that its
// WorkspaceTemplateApply has. Before the WorkspaceTemplateApply has a region, the control plane can be in any region. captCluster and apply
// may be nil.
func RegionChange(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	from, to := appliedRegion(apply), Region(controlPlane, captCluster)
	if from == "" || to == "" || from == to {
		return nil
	}
	remedy := "Set spec.region of the CAPTControlPlane to " + from
	if captCluster != nil && captCluster.Spec.Region != from { // The two would disagree.
		remedy = "Set spec.infrastructureRef of the Cluster to a CAPTCluster in " + from + " that has the VPC of the control plane"
	}
	return fmt.Errorf("the control plane exists in region %s and cannot move to %s. %s", from, to, remedy)
}

// RegionConflict returns an error, with a remedy, if a control plane and the CAPTCluster of the same Cluster have different regions. The
// remedy depends on which region can still change: the region of a CAPTCluster is immutable, and the region of a control plane is immutable
// once its WorkspaceTemplateApply has it. A control plane without spec.region uses the region of the CAPTCluster. apply may be nil.
func RegionConflict(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	own, vpc := controlPlane.Spec.Region, captCluster.Spec.Region
	if own == "" || vpc == "" || own == vpc {
		return nil
	}
	remedy := "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region"
	switch appliedRegion(apply) {
	case own:
		remedy = "Set spec.infrastructureRef of the Cluster to a CAPTCluster in the region of the control plane that has its VPC"
	case vpc:
		remedy = "Remove spec.region of the CAPTControlPlane"
	}
	return fmt.Errorf("CAPTControlPlane %s is in region %s, but CAPTCluster %s of the same Cluster is in region %s. %s",
		controlPlane.Name, own, captCluster.Name, vpc, remedy)
}

// appliedRegion returns the region that the WorkspaceTemplateApply of a control plane has; empty when it has none, or when apply is nil.
func appliedRegion(apply *infrav1.WorkspaceTemplateApply) string {
	if apply == nil {
		return ""
	}
	return apply.Spec.Variables[naming.RegionVariable]
}
