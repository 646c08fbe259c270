// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
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

// OwnerCluster reads the Cluster that owns an object; nil when there is none.
func OwnerCluster(ctx context.Context, cached client.Client, uncached client.Reader, object metav1.Object) (*clusterv1.Cluster, error) {
	return clusterOf(ctx, util.GetOwnerCluster, cached, uncached, object)
}

// LabeledCluster reads the Cluster that the label of an object names; nil when there is none.
func LabeledCluster(ctx context.Context, cached client.Client, uncached client.Reader, object metav1.Object) (*clusterv1.Cluster, error) {
	return clusterOf(ctx, util.GetClusterFromMetadata, cached, uncached, object)
}

// clusterOf reads a Cluster. The caches of Clusters and of their objects are not synchronized, so one that is not in the cache is read from the API
// server before it counts as deleted.
func clusterOf(ctx context.Context, get func(context.Context, client.Client, metav1.ObjectMeta) (*clusterv1.Cluster, error), cached client.Client, uncached client.Reader, object metav1.Object) (*clusterv1.Cluster, error) {
	of := metav1.ObjectMeta{Namespace: object.GetNamespace(), Labels: object.GetLabels(), OwnerReferences: object.GetOwnerReferences()}
	cluster, err := get(ctx, cached, of)
	if Absent(err) {
		cluster, err = get(ctx, readThrough{Client: cached, uncached: uncached}, of)
	}
	switch {
	case Absent(err), errors.Is(err, util.ErrNoCluster):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Cluster: %w", err)
	}
	return cluster, nil
}

// ReferringClusters returns the Clusters that refer to a CAPTCluster or a CAPTControlPlane, sorted by name. cached has claim.ClusterIndex.
func ReferringClusters(ctx context.Context, cached client.Reader, object client.Object) ([]*clusterv1.Cluster, error) {
	ref := claim.ReferenceTo(object)
	if !ref.IsDefined() {
		return nil, nil
	}
	return referringClusters(ctx, cached, object, client.MatchingFields{claim.ClusterIndex: claim.ClusterKey(ref)})
}

// MachinePoolOf reads the MachinePool that owns a CAPTMachinePool and refers to it; nil when there is none.
func MachinePoolOf(ctx context.Context, reader client.Reader, pool client.Object) (*clusterv1.MachinePool, error) {
	name := claim.OwnerMachinePool(pool)
	if name == "" {
		return nil, nil
	}
	found, err := Get(ctx, reader, client.ObjectKey{Namespace: pool.GetNamespace(), Name: name}, &clusterv1.MachinePool{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading MachinePool %s: %w", name, err)
	case found == nil || claim.PoolOf(found) != pool.GetName() || !util.IsOwnedByObject(pool, found, clusterv1.GroupVersion.WithKind("MachinePool").GroupKind()):
		return nil, nil
	}
	return found, nil
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

// Metadata returns an empty object for the metadata of a kind of the core API, or of CustomResourceDefinition.
func Metadata(kind string) *metav1.PartialObjectMetadata {
	version := corev1.SchemeGroupVersion
	if kind == "CustomResourceDefinition" {
		version = apiextensionsv1.SchemeGroupVersion
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(version.WithKind(kind))
	return object
}

// Requests returns requests for the objects of a list that match; nil means all. list is an empty list of their kind.
func Requests(ctx context.Context, reader client.Reader, list client.ObjectList, matches func(client.Object) bool, options ...client.ListOption) []ctrl.Request {
	return RequestsFor(ctx, reader, list, func(object client.Object) []ctrl.Request {
		if matches != nil && !matches(object) {
			return nil
		}
		return []ctrl.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}, options...)
}

// RequestsFor returns the requests that each object of a list causes. An error is logged only: a watch cannot return it.
func RequestsFor(ctx context.Context, reader client.Reader, list client.ObjectList, of func(client.Object) []ctrl.Request, options ...client.ListOption) (requests []ctrl.Request) {
	// The objects are only read, so the cache need not copy them.
	err := reader.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...)
	if err == nil {
		err = meta.EachListItem(list, func(item runtime.Object) error {
			requests = append(requests, of(item.(client.Object))...)
			return nil
		})
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the objects to reconcile", "list", fmt.Sprintf("%T", list), "options", options)
	}
	return requests
}

// NamespaceLabels reads the labels of a namespace; nil when it does not exist.
func NamespaceLabels(ctx context.Context, reader client.Reader, name string) (labels.Set, error) {
	found, err := Get(ctx, reader, client.ObjectKey{Name: name}, Metadata("Namespace"))
	if err != nil || found == nil {
		return nil, err
	}
	return labels.Merge(nil, found.Labels), nil
}
