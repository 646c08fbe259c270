// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package owners reads the owners of an object: which one pauses it, and which one does not exist.
//
// A backup restores owner references with UIDs of owners that no longer exist. The garbage collector then deletes the object, and that must
// not destroy the resources of its Workspace. So nothing is recorded or created for an object before its owners, and their owners, exist.
package owners

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

// maxDepth limits how many levels of owners are read. CAPT has three: WorkspaceTemplateApply, CAPTCluster, Cluster.
const maxDepth = 4

// Reader reads owners, from the API server when the cache does not have them.
type Reader struct{ Cached, Uncached client.Reader }

// PausedBy reports why the controller of an object is paused by its own annotation; empty when it is not. A paused controller writes
// nothing, but an edited template, or the garbage collector, would still change what it controls.
func (r Reader) PausedBy(ctx context.Context, object metav1.Object) (string, error) {
	controller := metav1.GetControllerOf(object)
	if controller == nil {
		return "", nil
	}
	owner := watchedKind(*controller)
	if owner == nil || controller.Kind == clusterv1.ClusterKind { // The pause of a Cluster is observed by its label.
		return "", nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: controller.Name}
	found, err := engine.Get(ctx, r.Cached, key, owner)
	if err == nil && found == nil {
		found, err = engine.Get(ctx, r.Uncached, key, owner)
	}
	if err != nil {
		return "", fmt.Errorf("reading %s %s: %w", controller.Kind, controller.Name, err)
	}
	if found == nil || found.GetUID() != controller.UID {
		return "", nil
	}
	why := engine.Paused(nil, found)
	if why == "" {
		return "", nil
	}
	return fmt.Sprintf("%s %s, which controls this object, is paused: %s", controller.Kind, controller.Name, why), nil
}

// Missing describes an owner of an object, or of its owners, that does not exist; empty when there is none. With mustRead, an owner that
// the manager may not read counts as missing.
func (r Reader) Missing(ctx context.Context, object metav1.Object, mustRead bool) (string, error) {
	return r.missing(ctx, object, mustRead, maxDepth)
}

func (r Reader) missing(ctx context.Context, object metav1.Object, mustRead bool, depth int) (string, error) {
	if depth == 0 {
		return "", nil
	}
	for _, ref := range object.GetOwnerReferences() {
		owner, err := r.owner(ctx, object.GetNamespace(), ref)
		switch {
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			if mustRead {
				return fmt.Sprintf("owner %s %s (UID %s) cannot be read (if it exists, set annotation %s to the UID of the Workspace)", ref.Kind, ref.Name, ref.UID, naming.AdoptWorkspaceAnnotation), nil
			}
			continue
		case err != nil:
			return "", fmt.Errorf("reading owner %s %s: %w", ref.Kind, ref.Name, err)
		case owner == nil:
			return fmt.Sprintf("owner %s %s (UID %s) does not exist", ref.Kind, ref.Name, ref.UID), nil
		}
		if missing, err := r.missing(ctx, owner, mustRead, depth-1); missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}

// owner reads an owner; nil when no object has its UID.
func (r Reader) owner(ctx context.Context, namespace string, ref metav1.OwnerReference) (metav1.Object, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	if cached := watchedKind(ref); cached != nil {
		if err := r.Cached.Get(ctx, key, cached); err == nil && cached.GetUID() == ref.UID {
			return cached, nil
		}
	}
	owner := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}}
	owner, err := engine.Get(ctx, r.Uncached, key, owner)
	if err != nil || owner == nil || owner.UID != ref.UID {
		return nil, err
	}
	return owner, nil
}

// watchedKind is an empty object of the kind of an owner; nil when the manager does not watch that kind.
func watchedKind(ref metav1.OwnerReference) client.Object {
	switch schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() {
	case infrav1.GroupVersion.WithKind("CAPTCluster").GroupKind():
		return &infrav1.CAPTCluster{}
	case controlplanev1.GroupVersion.WithKind("CAPTControlPlane").GroupKind():
		return &controlplanev1.CAPTControlPlane{}
	case clusterv1.GroupVersion.WithKind("Cluster").GroupKind():
		return &clusterv1.Cluster{}
	}
	return nil
}
