// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
)

// Get reads an object into obj and returns it, or nil when it does not exist. An error means that the object could not be read, so that it is
// unknown whether it exists.
func Get[O client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, obj O) (O, error) {
	var none O
	if err := reader.Get(ctx, key, obj); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return obj, nil
}

// OwnerCluster reads the Cluster that owns an object; nil when there is none. The caches of Clusters and of their objects are not synchronized,
// so a Cluster that is not in the cache is read from the API server before it counts as deleted.
func OwnerCluster(ctx context.Context, cached client.Client, uncached client.Reader, object metav1.ObjectMeta) (*clusterv1.Cluster, error) {
	cluster, err := util.GetOwnerCluster(ctx, cached, object)
	if !Absent(err) {
		return cluster, err
	}
	return util.GetOwnerCluster(ctx, readThrough{Client: cached, uncached: uncached}, object)
}

// LabeledCluster reads the Cluster that the label of an object names, with the same check as OwnerCluster.
func LabeledCluster(ctx context.Context, cached client.Client, uncached client.Reader, object metav1.ObjectMeta) (*clusterv1.Cluster, error) {
	cluster, err := util.GetClusterFromMetadata(ctx, cached, object)
	if !Absent(err) {
		return cluster, err
	}
	return util.GetClusterFromMetadata(ctx, readThrough{Client: cached, uncached: uncached}, object)
}

// ReferringClusters returns the Clusters that refer to a CAPTCluster or a CAPTControlPlane, sorted by name. cached has claim.ClusterIndex.
func ReferringClusters(ctx context.Context, cached client.Reader, object client.Object) ([]*clusterv1.Cluster, error) {
	keys := claim.ClusterKeys(&clusterv1.Cluster{Spec: clusterv1.ClusterSpec{InfrastructureRef: claim.ReferenceTo(object)}})
	if len(keys) == 0 {
		return nil, nil
	}
	return referringClusters(ctx, cached, object, client.MatchingFields{claim.ClusterIndex: keys[0]})
}

func referringClusters(ctx context.Context, reader client.Reader, object client.Object, options ...client.ListOption) (found []*clusterv1.Cluster, err error) {
	var list clusterv1.ClusterList
	if err := reader.List(ctx, &list, append(options, client.InNamespace(object.GetNamespace()))...); err != nil {
		return nil, fmt.Errorf("listing the Clusters that refer to this object: %w", err)
	}
	for i := range list.Items {
		if claim.RefersTo(&list.Items[i], object) {
			found = append(found, &list.Items[i])
		}
	}
	slices.SortFunc(found, func(a, b *clusterv1.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// readThrough is a client that gets objects from the API server.
type readThrough struct {
	client.Client
	uncached client.Reader
}

// Get implements client.Reader.
func (c readThrough) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return c.uncached.Get(ctx, key, object, options...)
}

// Absent reports whether an error means that an object does not exist.
func Absent(err error) bool { return apierrors.IsNotFound(err) }

// NamespaceLabels reads the labels of a namespace; nil when it does not exist.
func NamespaceLabels(ctx context.Context, reader client.Reader, name string) (labels.Set, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	found, err := Get(ctx, reader, client.ObjectKey{Name: name}, object)
	if err != nil || found == nil {
		return nil, err
	}
	return labels.Merge(nil, found.Labels), nil
}
