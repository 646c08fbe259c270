// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Cluster API before v1.11 serves nothing else.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	captconversion "github.com/capt-provider/capt/webhooks/conversion"
	"github.com/capt-provider/capt/webhooks/conversion/preserve"
)

// eachHub returns a variant of Each that passes objects of CAPT and Cluster API in v1beta2. It converts them if the API server serves v1beta1 only.
func eachHub(reader client.Reader) func(context.Context, schema.GroupVersionKind, string, func(*unstructured.Unstructured) error) error {
	converters := sync.OnceValues(captconversion.NewRegistry) // Building them takes a moment, so that this is done when the first one is needed.
	return func(ctx context.Context, kind schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured) error) error {
		return EachServed(ctx, reader, kind, namespace, func(object *unstructured.Unstructured) (err error) {
			if object.GroupVersionKind().Version == kind.Version {
				return do(object)
			}
			object.SetManagedFields(nil) // A snapshot does not have them, and they are more than half of many objects.
			var hub *unstructured.Unstructured
			if kind.Group == clusterv1.GroupVersion.Group {
				hub, err = ClusterToHub(object)
			} else {
				scheme, registry := converters()
				hub, err = toHub(ctx, scheme, registry, object)
			}
			if err != nil {
				return fmt.Errorf("converting %s %s/%s to %s: %w", kind.Kind, object.GetNamespace(), object.GetName(), kind.Version, err)
			}
			return do(hub)
		})
	}
}

// toHub converts an object as the API server does with the webhook: labels and annotations can change, and no other metadata.
func toHub(ctx context.Context, scheme *runtime.Scheme, registry conversion.Registry, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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

// ClusterToHub converts a Cluster of v1beta1 with Cluster API's functions. The rest of its webhook's conversion can only be imported together
// with a test framework: the references, and status fields that nothing reads here.
func ClusterToHub(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
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
	delete(hub.Annotations, preserve.Annotation)
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(hub)
	return &unstructured.Unstructured{Object: converted}, err
}

// pageSize limits how many objects are in memory at a time.
const pageSize = 250

// Each calls a function for each object of a kind, and reads one page after the other. An empty namespace means all namespaces.
func Each(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured) error) error {
	return eachPage(ctx, reader, kind, namespace, &unstructured.UnstructuredList{}, do)
}

// EachMetadata is Each for the metadata of objects in all namespaces.
func EachMetadata(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, do func(*metav1.PartialObjectMetadata) error) error {
	return eachPage(ctx, reader, kind, "", &metav1.PartialObjectMetadataList{}, do)
}

func eachPage[T runtime.Object](ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, empty client.ObjectList, do func(T) error) error {
	empty.GetObjectKind().SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		found := empty.DeepCopyObject().(client.ObjectList)
		err := reader.List(ctx, found, client.InNamespace(namespace), client.Limit(page.Limit), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		return found, nil
	})
	pages.PageSize, pages.PageBufferSize = pageSize, 0
	return pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error { return do(object.(T)) })
}

// EachServed is Each in the newest version that the API server serves. The error for a kind that is not served at all is meta.NoKindMatchError.
func EachServed(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, do func(*unstructured.Unstructured) error) error {
	err := Each(ctx, reader, kind, namespace, do)
	if meta.IsNoMatchError(err) {
		if olderErr := Each(ctx, reader, kind.GroupKind().WithVersion(LegacyVersion), namespace, do); !meta.IsNoMatchError(olderErr) {
			return olderErr
		}
	}
	return err
}
