/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package validation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// RegionConflict says how a control plane and the network of the same Cluster disagree about the region. A control plane
// that names none is where its network is.
func RegionConflict(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster) error {
	there, here := controlPlane.Spec.Region, captCluster.Spec.Region
	if there == "" || here == "" || there == here {
		return nil
	}
	return fmt.Errorf("CAPTControlPlane %s is for region %s, but CAPTCluster %s of the same Cluster is in %s; remove spec.region of the CAPTControlPlane, or correct one of the two",
		controlPlane.Name, there, captCluster.Name, here)
}

// regionOfNetwork checks the region of a CAPTCluster against the control plane of its Cluster.
func regionOfNetwork(ctx context.Context, world World, captCluster *infrav1.CAPTCluster) (field.ErrorList, error) {
	cluster, err := world.ClusterOf(ctx, captCluster)
	if err != nil || cluster == nil {
		return nil, err
	}
	ref := cluster.Spec.ControlPlaneRef
	if ref.Kind != "CAPTControlPlane" || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil, nil
	}
	controlPlane, err := world.CAPTControlPlane(ctx, types.NamespacedName{Namespace: captCluster.Namespace, Name: ref.Name})
	if err != nil || controlPlane == nil {
		return nil, err
	}
	return regions(controlPlane, captCluster), nil
}

// regionOfControlPlane checks the region of a CAPTControlPlane against the network of its Cluster.
func regionOfControlPlane(ctx context.Context, world World, controlPlane *controlplanev1.CAPTControlPlane) (field.ErrorList, error) {
	cluster, err := world.ClusterOf(ctx, controlPlane)
	if err != nil || cluster == nil {
		return nil, err
	}
	ref := cluster.Spec.InfrastructureRef
	if ref.Kind != "CAPTCluster" || ref.APIGroup != infrav1.GroupVersion.Group {
		return nil, nil
	}
	captCluster, err := world.CAPTCluster(ctx, types.NamespacedName{Namespace: controlPlane.Namespace, Name: ref.Name})
	if err != nil || captCluster == nil {
		return nil, err
	}
	return regions(controlPlane, captCluster), nil
}

func regions(controlPlane *controlplanev1.CAPTControlPlane, captCluster *infrav1.CAPTCluster) field.ErrorList {
	if err := RegionConflict(controlPlane, captCluster); err != nil {
		return field.ErrorList{invalid(field.NewPath("spec", "region"), "%s", err)}
	}
	return nil
}
