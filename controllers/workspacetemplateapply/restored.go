// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/adoption"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

// A backup brings back owner references with the UIDs of owners that no longer exist. The garbage collector deletes such an object
// a moment later, and its deletion must not destroy what its Workspace created. So nothing is recorded for it, and no Workspace is
// created, before its owners, and theirs, are known to exist.

// maxOwners is how far owners of owners are followed: WorkspaceTemplateApply, CAPTCluster, Cluster.
const maxOwners = 4

// observeOwners looks for the owners of an object for which nothing is recorded yet.
func (r *Reconciler) observeOwners(ctx context.Context, apply *infrav1.WorkspaceTemplateApply, f *Facts) (err error) {
	f.Restored = adoption.Restored(apply)
	// Also while paused: status records the Workspace then, too, and the garbage collector does not wait for the end of the pause.
	if apply.Status.WorkspaceRef != nil || !apply.DeletionTimestamp.IsZero() || f.Unadopted != "" {
		return nil
	}
	// Other controllers own objects, too, which the manager may not be able to read. Only a restored object has to wait for them,
	// unless a user has decided.
	mustRead := f.Restored && (f.Live == nil || apply.Annotations[naming.AdoptWorkspaceAnnotation] != string(f.Live.UID()))
	f.OwnerMissing, err = r.missingOwner(ctx, apply, mustRead, maxOwners)
	return err
}

// missingOwner describes an owner of an object, or of its owners, that does not exist; empty when there is none.
func (r *Reconciler) missingOwner(ctx context.Context, object metav1.Object, mustRead bool, depth int) (string, error) {
	if depth == 0 {
		return "", nil
	}
	for _, ref := range object.GetOwnerReferences() {
		owner, err := r.ownerOf(ctx, object.GetNamespace(), ref)
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
		if missing, err := r.missingOwner(ctx, owner, mustRead, depth-1); missing != "" || err != nil {
			return missing, err
		}
	}
	return "", nil
}

// ownerOf finds an owner; nil when no object has its UID. What the cache does not have is read past it.
func (r *Reconciler) ownerOf(ctx context.Context, namespace string, ref metav1.OwnerReference) (metav1.Object, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	if cached := watchedKind(ref); cached != nil {
		if err := r.Client.Get(ctx, key, cached); err == nil && cached.GetUID() == ref.UID {
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

// watchedKind is an empty object of the owner's kind; nil when the manager does not watch that kind.
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
