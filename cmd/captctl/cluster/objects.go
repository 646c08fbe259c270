// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Objects are all Clusters and the objects of CAPT that can belong to them.
type Objects struct {
	Clusters      []clusterv1.Cluster
	CAPTClusters  map[types.NamespacedName]*infrav1.CAPTCluster
	ControlPlanes map[types.NamespacedName]*controlplanev1.CAPTControlPlane
	Applies       map[types.NamespacedName]*infrav1.WorkspaceTemplateApply
}

// ReadObjects lists each kind once, in a namespace, or in all if it is empty.
func ReadObjects(ctx context.Context, reader client.Reader, namespace string) (*Objects, error) {
	var (
		clusters      clusterv1.ClusterList
		captClusters  infrav1.CAPTClusterList
		controlPlanes controlplanev1.CAPTControlPlaneList
		applies       infrav1.WorkspaceTemplateApplyList
	)
	for _, list := range []client.ObjectList{&clusters, &captClusters, &controlPlanes, &applies} {
		if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	return &Objects{clusters.Items, Indexed(captClusters.Items), Indexed(controlPlanes.Items), Indexed(applies.Items)}, nil
}

// Indexed returns objects by namespace and name.
func Indexed[T any, P interface {
	*T
	client.Object
}](items []T) map[types.NamespacedName]P {
	found := make(map[types.NamespacedName]P, len(items))
	for i := range items {
		found[client.ObjectKeyFromObject(P(&items[i]))] = &items[i]
	}
	return found
}

// Of returns the objects of CAPT that a Cluster refers to; nil for one that does not exist or is not CAPT's.
func (o *Objects) Of(c *clusterv1.Cluster) (captCluster *infrav1.CAPTCluster, controlPlane *controlplanev1.CAPTControlPlane) {
	if ref := c.Spec.InfrastructureRef; ref.APIGroup == infrav1.GroupVersion.Group {
		captCluster = o.CAPTClusters[types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}]
	}
	if ref := c.Spec.ControlPlaneRef; ref.APIGroup == controlplanev1.GroupVersion.Group {
		controlPlane = o.ControlPlanes[types.NamespacedName{Namespace: c.Namespace, Name: ref.Name}]
	}
	return captCluster, controlPlane
}
