// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// definitionInterval is how often to check whether the deletion of a CustomResourceDefinition was allowed. This is too rare for a watch.
const definitionInterval = 15 * time.Second

// deletedDefinition returns the name of the CustomResourceDefinition (of the object's kind or of Cluster) that is being deleted, which is why
// the object is being deleted. It is empty when there is none, or when its annotation allows the deletion. It reads from the API server,
// because objects can be deleted before the cache has the deletion of their definition.
func (e Engine) deletedDefinition(ctx context.Context, obj client.Object) (string, error) {
	if e.Definitions == nil {
		return "", nil
	}
	gvk, err := e.Client.GroupVersionKindFor(obj)
	if err != nil {
		return "", err
	}
	own, _ := meta.UnsafeGuessKindToResource(gvk)
	clusters := schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "clusters"}
	for _, resource := range []schema.GroupResource{own.GroupResource(), clusters} {
		definition := &metav1.PartialObjectMetadata{}
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		found, err := Get(ctx, e.Definitions, client.ObjectKey{Name: resource.String()}, definition)
		if err != nil {
			return "", fmt.Errorf("reading CustomResourceDefinition %s: %w", resource, err)
		}
		if found != nil && !found.DeletionTimestamp.IsZero() && found.Annotations[naming.AllowDeleteAnnotation] != "true" {
			return resource.String(), nil
		}
	}
	return "", nil
}

// hold is why the deletion of an object does not continue.
type hold struct {
	reason, message string
	// outcome ends the reconcile; nil when a watch causes the next one.
	outcome error
}

// deletionHeld returns why nothing of an object may be deleted although it is being deleted; nil when nothing holds the deletion.
func (e Engine) deletionHeld(ctx context.Context, obj client.Object) (*hold, error) {
	if obj.GetDeletionTimestamp().IsZero() {
		return nil, nil
	}
	definition, err := e.deletedDefinition(ctx, obj)
	switch {
	case err != nil:
		return nil, err
	case definition != "":
		return &hold{
			reason: infrav1.DefinitionDeletingReason,
			message: fmt.Sprintf("CustomResourceDefinition %s is being deleted, so nothing is destroyed. %s set the annotation %s of the definition to \"true\": %s",
				definition, howToKeep, naming.AllowDeleteAnnotation, deletionContinues),
			outcome: Wait("the deletion of CustomResourceDefinition "+definition+" to be allowed", definitionInterval),
		}, nil
	case IsDeletionProtected(obj):
		return &hold{reason: infrav1.DeletionProtectedReason, message: DeletionProtectedMessage("")}, nil
	}
	return nil, nil
}

// The parts of messages about the ways to continue.
const (
	howToKeep = "To keep the cloud resources, first set spec.vpc.template.deletionPolicy of the CAPTClusters and spec.deletionPolicy of the " +
		"WorkspaceTemplateApplies to Retain. Then"
	deletionContinues = "the deletion continues, and everything without Retain is destroyed"
)

// DeletionProtectedMessage is the message of an object that is being deleted although it is protected, by its own spec or by its controller.
func DeletionProtectedMessage(controller string) string {
	of := ""
	if controller != "" {
		of = " of " + controller + ", which controls this object,"
	}
	return fmt.Sprintf("spec.deletionProtection%s is Enabled, so nothing is destroyed. The deletion of this object was accepted and cannot be reverted. %s set spec.deletionProtection to Disabled: %s",
		of, howToKeep, deletionContinues)
}

// IsDeletionProtected reports whether an object is protected from deletion by its spec.
func IsDeletionProtected(obj client.Object) bool {
	owner, ok := obj.(interface{ IsDeletionProtected() bool })
	return ok && owner.IsDeletionProtected()
}

// holdDeletion ends the reconcile of an object that is being deleted by mistake: it reports that, and neither deletes what the object controls
// nor removes a finalizer.
func holdDeletion[O Object, F, P any](ctx context.Context, e Engine, obj O, held *hold, phases Phases[O, F, P]) error {
	before := obj.DeepCopyObject().(O)
	Set(obj, True(infrav1.DeletingCondition, held.reason, held.message))
	if conditions.Has(obj, infrav1.ReadyCondition) {
		Set(obj, False(infrav1.ReadyCondition, held.reason, held.message))
	}
	if err := writeStatus(ctx, e, before, obj, phases); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return held.outcome
}
