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
	if obj.GetDeletionTimestamp().IsZero() || e.Definitions == nil {
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

// holdForDefinition ends the reconcile of an object that is being deleted only because its CustomResourceDefinition is: a mistake during the
// uninstallation of CAPT or Cluster API must not destroy every cluster.
func holdForDefinition[O Object, F, P any](ctx context.Context, e Engine, obj O, definition string, phases Phases[O, F, P]) error {
	before := obj.DeepCopyObject().(O)
	message := fmt.Sprintf("CustomResourceDefinition %s is being deleted, so nothing is destroyed. To keep the cloud resources, first set "+
		"spec.vpc.template.deletionPolicy of the CAPTClusters and spec.deletionPolicy of the WorkspaceTemplateApplies to Retain. Then set the annotation %s of the definition to \"true\": the deletion continues, and everything without Retain is destroyed",
		definition, naming.AllowDeleteAnnotation)
	Set(obj, True(infrav1.DeletingCondition, infrav1.DefinitionDeletingReason, message))
	if conditions.Has(obj, infrav1.ReadyCondition) {
		Set(obj, False(infrav1.ReadyCondition, infrav1.DefinitionDeletingReason, message))
	}
	if err := writeStatus(ctx, e, before, obj, phases); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return Wait("the deletion of CustomResourceDefinition "+definition+" to be allowed", definitionInterval)
}
