// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owners

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/ownership"
)

var regionPath = field.NewPath("spec", "region")

// validateCAPTClusterRegion checks the region of a CAPTCluster against the control plane of its Cluster.
func validateCAPTClusterRegion(ctx context.Context, reader validation.Reader, captCluster *infrav1.CAPTCluster) (field.ErrorList, error) {
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
	return regionConflictError(controlPlane, captCluster, apply), nil
}

// validateControlPlaneRegion checks the region of a CAPTControlPlane against its WorkspaceTemplateApply and its CAPTCluster.
func validateControlPlaneRegion(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	apply, err := validation.ApplyInUse(ctx, reader, controlPlane)
	if err != nil {
		return nil, err
	}
	captCluster, err := captClusterOf(ctx, reader, controlPlane)
	if err != nil {
		return nil, err
	}
	if err := desired.RegionChange(controlPlane, captCluster, apply); err != nil {
		return field.ErrorList{validation.Forbidden(regionPath, "%s", err)}, nil
	}
	if captCluster == nil {
		return nil, nil
	}
	return regionConflictError(controlPlane, captCluster, apply), nil
}

// captClusterOf returns the CAPTCluster of the same Cluster; nil when it does not exist, or not yet.
func captClusterOf(ctx context.Context, reader validation.Reader, controlPlane *controlplanev1.CAPTControlPlane) (*infrav1.CAPTCluster, error) {
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

// regionConflictError returns a RegionConflict as an error of spec.region.
func regionConflictError(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster, apply *infrav1.WorkspaceTemplateApply) field.ErrorList {
	if err := desired.RegionConflict(controlPlane, captCluster, apply); err != nil {
		return field.ErrorList{validation.Invalid(regionPath, "%s", err)}
	}
	return nil
}
