// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/ownership"
)

var regionPath = field.NewPath("spec", "region")

// Region returns the region of a control plane: spec.region, or the region of the CAPTCluster, which may be nil.
func Region(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster) string {
	if controlPlane.Spec.Region == "" && captCluster != nil {
		return captCluster.Spec.Region
	}
	return controlPlane.Spec.Region
}

// RegionMove returns an error if a control plane would move to another region than the one that its WorkspaceTemplateApply has. Before
// that is set, the control plane can be in any region. captCluster and apply may be nil.
func RegionMove(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	from, to := handedRegion(apply), Region(controlPlane, captCluster)
	if from == "" || to == "" || from == to {
		return nil
	}
	wayOut := "Set spec.region of the CAPTControlPlane to " + from
	if captCluster != nil && captCluster.Spec.Region != from { // The two would disagree.
		wayOut = "Set spec.infrastructureRef of the Cluster to a CAPTCluster in " + from + " that has the VPC of the control plane"
	}
	return fmt.Errorf("the control plane exists in region %s and cannot move to %s. %s", from, to, wayOut)
}

// RegionConflict returns an error, with a remedy, if a control plane and the CAPTCluster of the same Cluster have different regions. The
// remedy depends on which region can still change: that of a CAPTCluster is immutable, and that of a control plane is immutable once
// its WorkspaceTemplateApply has it. A control plane without spec.region uses that of the CAPTCluster. apply may be nil.
func RegionConflict(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) error {
	there, here := controlPlane.Spec.Region, captCluster.Spec.Region
	if there == "" || here == "" || there == here {
		return nil
	}
	wayOut := "Remove spec.region of the CAPTControlPlane, or set spec.infrastructureRef of the Cluster to a CAPTCluster in the same region"
	switch handedRegion(apply) {
	case there:
		wayOut = "Set spec.infrastructureRef of the Cluster to a CAPTCluster in the region of the control plane that has its VPC"
	case here:
		wayOut = "Remove spec.region of the CAPTControlPlane"
	}
	return fmt.Errorf("CAPTControlPlane %s is in region %s, but CAPTCluster %s of the same Cluster is in region %s. %s",
		controlPlane.Name, there, captCluster.Name, here, wayOut)
}

// handedRegion returns the region that the WorkspaceTemplateApply of a control plane has; empty when it has none, or when apply is nil.
func handedRegion(apply *infrav1.WorkspaceTemplateApply) string {
	if apply == nil {
		return ""
	}
	return apply.Spec.Variables[naming.RegionVariable]
}

// regionOfNetwork checks the region of a CAPTCluster against the control plane of its Cluster.
func regionOfNetwork(ctx context.Context, reader validation.Reader, captCluster *infrav1.CAPTCluster) (field.ErrorList, error) {
	cluster, err := reader.ClusterOf(ctx, captCluster)
	if err != nil {
		return nil, err
	}
	controlPlane, err := ownership.ControlPlaneOf(ctx, reader, cluster)
	if err != nil || controlPlane == nil {
		return nil, err
	}
	apply, err := validation.ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return nil, err
	}
	return conflict(controlPlane, captCluster, apply), nil
}

// regionOfControlPlane checks the region of a CAPTControlPlane against that of its WorkspaceTemplateApply and that of its CAPTCluster.
func regionOfControlPlane(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	apply, err := validation.ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return nil, err
	}
	captCluster, err := networkOf(ctx, reader, controlPlane)
	if err != nil {
		return nil, err
	}
	if err := RegionMove(controlPlane, captCluster, apply); err != nil {
		return field.ErrorList{validation.Forbidden(regionPath, "%s", err)}, nil
	}
	if captCluster == nil {
		return nil, nil
	}
	return conflict(controlPlane, captCluster, apply), nil
}

// networkOf returns the CAPTCluster of the same Cluster; nil when it does not exist, or not yet.
func networkOf(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.CAPTCluster, error) {
	cluster, err := reader.ClusterOf(ctx, controlPlane)
	if err != nil || cluster == nil {
		return nil, err
	}
	ref := cluster.Spec.InfrastructureRef
	if ref.Kind != "CAPTCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	return reader.CAPTCluster(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
}

func conflict(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) field.ErrorList {
	if err := RegionConflict(controlPlane, captCluster, apply); err != nil {
		return field.ErrorList{validation.Invalid(regionPath, "%s", err)}
	}
	return nil
}
