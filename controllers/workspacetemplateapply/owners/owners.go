// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package owners reads the owners of an object: which one pauses it, which one protects it from deletion, and which one does not exist.
//
// A backup restores owner references with UIDs of owners that no longer exist. The garbage collector then deletes the object, and that must
// not destroy the resources of its Workspace. So nothing is recorded or created for an object before its owners, and their owners, exist.
package owners

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

// Reader reads owners, from the API server when the cache does not have them.
type Reader struct{ Cached, Uncached client.Reader }

// PausedBy reports why the controller of an object is paused by its own annotation; empty when it is not. A paused controller writes
// nothing, but an edited template, or the garbage collector, would still change what it controls. The pause of a Cluster is observed by its
// label.
func (r Reader) PausedBy(ctx context.Context, object metav1.Object) (string, error) {
	controller, err := controllerOf(ctx, object, r.Cached, r.Uncached)
	if err != nil || controller == nil {
		return "", err
	}
	why := desired.Paused(nil, controller)
	if why == "" {
		return "", nil
	}
	return fmt.Sprintf("%s, which controls this object, is paused: %s", description(object), why), nil
}

// HeldBy returns why the controller of a WorkspaceTemplateApply forbids to destroy its cloud resources; nil when it does not: it is protected from
// deletion, or it is being deleted although a Cluster refers to it. While the controller is being deleted, everything that it controls is held:
// foreground deletion deletes all of that. Otherwise it protects only its own WorkspaceTemplateApply, because a Fargate profile that was removed
// from spec is deleted. The controller is read from the API server, because a destroy cannot be reverted.
func (r Reader) HeldBy(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (*engine.Hold, error) {
	controller, err := controllerOf(ctx, apply, r.Uncached)
	if err != nil || controller == nil {
		return nil, err
	}
	own := ""
	switch c := controller.(type) {
	case *infrav1.CAPTCluster:
		own = c.Spec.WorkspaceTemplateApplyRef.Name
	case *controlplanev1.CAPTControlPlane:
		own = c.Spec.WorkspaceTemplateApplyRef.Name
	}
	if engine.IsDeletionProtected(controller) && (!controller.GetDeletionTimestamp().IsZero() || own == apply.Name) {
		protected := desired.DeletionProtected(description(apply))
		return &engine.Hold{Reason: protected.Reason, Message: protected.Message}, nil
	}
	if engine.DeletionContinues(controller) {
		return nil, nil
	}
	return engine.HeldByClusters(ctx, r.Cached, controller, description(apply))
}

// controllerOf returns the CAPTCluster or CAPTControlPlane that controls an object, from the first reader that has it; nil when there is none.
func controllerOf(ctx context.Context, object metav1.Object, readers ...client.Reader) (found engine.Object, err error) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind == clusterv1.ClusterKind {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: ref.Name}
	for _, reader := range readers {
		kind := watchedKind(*ref)
		if kind == nil {
			return nil, nil
		}
		if found, err = engine.Get(ctx, reader, key, kind); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
		}
		if found != nil {
			break
		}
	}
	if found == nil || found.GetUID() != ref.UID {
		return nil, nil
	}
	return found, nil
}

// description is the kind and the name of the controller of an object.
func description(object metav1.Object) string {
	controller := metav1.GetControllerOf(object)
	return controller.Kind + " " + controller.Name
}

// Missing describes an owner of an object, or of its owners, that does not exist; empty when there is none. With mustRead, an owner that
// the manager may not read counts as missing.
func (r Reader) Missing(ctx context.Context, object metav1.Object, mustRead bool) (string, error) {
	missing, err := desired.MissingOwner(object, func(namespace string, ref metav1.OwnerReference) (metav1.Object, bool, error) {
		owner, err := r.owner(ctx, namespace, ref)
		switch {
		case apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			if mustRead {
				err = &unreadableError{ref}
				return nil, false, err
			}
			return nil, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("reading owner %s %s: %w", ref.Kind, ref.Name, err)
		}
		return owner, true, nil
	})
	if unreadable := (*unreadableError)(nil); errors.As(err, &unreadable) {
		return unreadable.Error(), nil
	}
	return missing, err
}

// unreadableError is an owner that the manager may not read.
type unreadableError struct{ metav1.OwnerReference }

func (e *unreadableError) Error() string {
	return fmt.Sprintf("owner %s %s (UID %s) cannot be read (if it exists, set annotation %s to the UID of the Workspace)", e.Kind, e.Name, e.UID, naming.AdoptWorkspaceAnnotation)
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
func watchedKind(ref metav1.OwnerReference) engine.Object {
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
