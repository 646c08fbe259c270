// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// limited reads for a user who may read objects of CAPT, and not those of Cluster API, as with the role view of Kubernetes: a Cluster is then known by
// the objects that belong to it.
type limited struct {
	client.Reader
	warn func(format string, args ...any)
}

// List lists objects. Clusters and machine pools that the user may not read are missing, which it warns about.
func (l limited) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Reader.List(ctx, list, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	switch list := list.(type) {
	case *clusterv1.ClusterList:
		implied, impliedErr := l.implied(ctx, options...)
		if impliedErr != nil {
			return err
		}
		list.Items = implied
	case *clusterv1.MachinePoolList, *infrav1.CAPTMachinePoolList:
		if (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
			return err
		}
	default:
		return err
	}
	l.warn("%v: what Cluster API reports is not shown; the ClusterRole capt-tenant grants it", err)
	return nil
}

// Get gets an object.
func (l limited) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, object, options...)
	cluster, is := object.(*clusterv1.Cluster)
	if !is || !apierrors.IsForbidden(err) {
		return err
	}
	var list clusterv1.ClusterList
	if err := l.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
		return err
	}
	i := slices.IndexFunc(list.Items, func(c clusterv1.Cluster) bool { return c.Name == key.Name })
	if i < 0 {
		return err
	}
	list.Items[i].DeepCopyInto(cluster)
	return nil
}

// implied returns the Clusters that CAPTClusters and CAPTControlPlanes belong to, with their references.
func (l limited) implied(ctx context.Context, options ...client.ListOption) (clusters []clusterv1.Cluster, err error) {
	var captClusters infrav1.CAPTClusterList
	var controlPlanes controlplanev1.CAPTControlPlaneList
	for _, list := range []client.ObjectList{&captClusters, &controlPlanes} {
		if err := l.Reader.List(ctx, list, options...); err != nil {
			return nil, err
		}
	}
	known := map[types.NamespacedName]*clusterv1.Cluster{}
	of := func(object client.Object) *clusterv1.Cluster {
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: cmp.Or(object.GetLabels()[clusterv1.ClusterNameLabel], object.GetName())}
		if known[key] == nil {
			known[key] = &clusterv1.Cluster{}
			known[key].Namespace, known[key].Name, known[key].CreationTimestamp = key.Namespace, key.Name, object.GetCreationTimestamp()
		}
		return known[key]
	}
	for i := range captClusters.Items {
		of(&captClusters.Items[i]).Spec.InfrastructureRef = claim.ReferenceTo(&captClusters.Items[i])
	}
	for i := range controlPlanes.Items {
		of(&controlPlanes.Items[i]).Spec.ControlPlaneRef = claim.ReferenceTo(&controlPlanes.Items[i])
	}
	for _, cluster := range known {
		clusters = append(clusters, *cluster)
	}
	slices.SortFunc(clusters, func(a, b clusterv1.Cluster) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return clusters, nil
}
