// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	captconversion "github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/carry"
)

// hubReader reads objects of CAPT and Cluster API in v1beta2. They are converted here if the API server serves v1beta1 only.
type hubReader struct {
	client.Reader
	// converters are those of the webhook. Building them takes a moment, so that this is done when the first one is needed.
	converters func() (*runtime.Scheme, conversion.Registry)
}

func newHubReader(reader client.Reader) hubReader {
	return hubReader{reader, sync.OnceValues(captconversion.NewRegistry)}
}

// each calls take for each object of a kind.
func (r hubReader) each(ctx context.Context, kind schema.GroupVersionKind, namespace string, take func(*unstructured.Unstructured) error) error {
	err := Each(ctx, r, kind, namespace, take)
	if !meta.IsNoMatchError(err) {
		return err
	}
	convert := r.toHub
	if kind.Group == clusterv1.GroupVersion.Group {
		convert = clusterToHub
	}
	older := kind.GroupKind().WithVersion(LegacyVersion)
	olderErr := Each(ctx, r, older, namespace, func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil) // A snapshot does not have them, and they are more than half of many objects.
		hub, err := convert(ctx, object)
		if err != nil {
			return fmt.Errorf("converting %s %s/%s to %s: %w", kind.Kind, object.GetNamespace(), object.GetName(), kind.Version, err)
		}
		return take(hub)
	})
	if meta.IsNoMatchError(olderErr) {
		return err
	}
	return olderErr
}

// toHub converts an object of CAPT as the API server does with the webhook: what the webhook answers, with labels and annotations, but
// no other metadata. Neither applies defaults of v1beta2 to a stored object.
func (r hubReader) toHub(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	scheme, registry := r.converters()
	converted, err := captconversion.Convert(ctx, scheme, registry, object, Version)
	if err != nil {
		return nil, err
	}
	labels, annotations := converted.GetLabels(), converted.GetAnnotations()
	converted.Object["metadata"] = object.Object["metadata"]
	converted.SetLabels(labels)
	converted.SetAnnotations(annotations)
	return converted, nil
}

// clusterToHub keeps what CAPT reads of a Cluster. The conversion of Cluster API's webhook can only be imported together with a test framework.
func clusterToHub(_ context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	spec := map[string]any{}
	for _, field := range []string{"paused", "controlPlaneEndpoint"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", field); found {
			spec[field] = value
		}
	}
	for _, field := range []string{"infrastructureRef", "controlPlaneRef"} {
		if ref, found, _ := unstructured.NestedStringMap(object.Object, "spec", field); found {
			spec[field] = map[string]any{"apiGroup": schema.FromAPIVersionAndKind(ref["apiVersion"], "").Group, "kind": ref["kind"], "name": ref["name"]}
		}
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", carry.Annotation)
	hub := &unstructured.Unstructured{Object: map[string]any{"metadata": object.Object["metadata"], "spec": spec}}
	hub.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(object.GetKind()))
	return hub, nil
}
