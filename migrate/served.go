// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Cluster API before v1.11 serves nothing else.
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

// clusterToHub converts a Cluster with Cluster API's functions. The rest of its webhook's conversion can only be imported together
// with a test framework: the references, and status fields that CAPT does not read.
func clusterToHub(_ context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	older, hub := &clusterv1beta1.Cluster{}, &clusterv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, older); err != nil {
		return nil, err
	}
	if err := clusterv1beta1.Convert_v1beta1_Cluster_To_v1beta2_Cluster(older, hub, nil); err != nil {
		return nil, err
	}
	for ref, into := range map[*corev1.ObjectReference]*clusterv1.ContractVersionedObjectReference{
		older.Spec.InfrastructureRef: &hub.Spec.InfrastructureRef, older.Spec.ControlPlaneRef: &hub.Spec.ControlPlaneRef,
	} {
		if ref != nil {
			*into = clusterv1.ContractVersionedObjectReference{APIGroup: ref.GroupVersionKind().Group, Kind: ref.Kind, Name: ref.Name}
		}
	}
	clusterv1.Convert_bool_To_Pointer_bool(older.Spec.Paused, false, nil, &hub.Spec.Paused)
	hub.SetGroupVersionKind(clusterv1.GroupVersion.WithKind(object.GetKind()))
	delete(hub.Annotations, carry.Annotation)
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(hub)
	return &unstructured.Unstructured{Object: converted}, err
}
