// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

var regionPath = field.NewPath("spec", "region")

// validateCAPTClusterRegion checks the region of a CAPTCluster against the control plane of its Cluster.
func validateCAPTClusterRegion(ctx context.Context, reader Reader, captCluster *infrav1.CAPTCluster) (findings Findings, err error) {
	cluster, err := reader.ClusterOf(ctx, captCluster)
	if err != nil {
		return findings, err
	}
	controlPlane, err := controlPlaneOf(ctx, reader, cluster)
	if err != nil || controlPlane == nil {
		return findings, err
	}
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	if conflict := RegionConflict(controlPlane, captCluster, apply); err == nil && conflict != nil {
		findings.Refuse(Invalid(regionPath, "%s", conflict))
	}
	return findings, err
}

// validateControlPlaneRegion checks the region of a CAPTControlPlane against its WorkspaceTemplateApply and its CAPTCluster.
func validateControlPlaneRegion(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (findings Findings, err error) {
	apply, err := ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	captCluster, err := captClusterOf(ctx, reader, controlPlane)
	if err != nil {
		return findings, err
	}
	if err := RegionChange(controlPlane, captCluster, apply); err != nil {
		findings.Refuse(Forbidden(regionPath, "%s", err))
	} else if err := RegionConflict(controlPlane, captCluster, apply); err != nil {
		findings.Refuse(Invalid(regionPath, "%s", err))
	}
	return findings, nil
}

// captClusterOf returns the CAPTCluster of the same Cluster; nil when it does not exist, or not yet.
func captClusterOf(ctx context.Context, reader Reader, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.CAPTCluster, error) {
	cluster, err := reader.ClusterOf(ctx, controlPlane)
	if err != nil || cluster == nil {
		return nil, err
	}
	ref := cluster.Spec.InfrastructureRef
	if ref.Kind != "CAPTCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	return Get[*infrav1.CAPTCluster](ctx, reader, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
}

// Region returns the region of a control plane: spec.region, or the region of the CAPTCluster, which may be nil; empty if neither has one.
func Region(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster) string {
	if controlPlane.Spec.Region == "" && captCluster != nil {
		return captCluster.Spec.Region
	}
	return controlPlane.Spec.Region
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
// once its WorkspaceTemplateApply has it. A control plane without spec.region uses the region of the CAPTCluster. captCluster and apply may be nil.
func RegionConflict(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	if captCluster == nil {
		return nil
	}
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
	return apply.Spec.Variables.Text(naming.RegionVariable)
}
