/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package migrate

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// Snapshot is what a fleet is at one moment, in today's version. It holds no Secrets.
type Snapshot struct {
	// ClusterUID is the UID of the namespace kube-system.
	ClusterUID types.UID
	// Namespace is the only one that was looked at; empty for all of them. Workspaces, templates and WorkspaceTemplateApplies are
	// read from all of them in any case, since a cluster-wide Workspace may be claimed from anywhere.
	Namespace string
	Taken     time.Time

	Clusters              []clusterv1.Cluster
	CAPTClusters          []infrav1.CAPTCluster
	ControlPlanes         []controlplanev1.CAPTControlPlane
	Templates             []infrav1.WorkspaceTemplate
	Applies               []infrav1.WorkspaceTemplateApply
	ClusterTemplates      []infrav1.CAPTClusterTemplate
	ControlPlaneTemplates []controlplanev1.CAPTControlPlaneTemplate
	ClusterWideWorkspaces []unstructured.Unstructured
	NamespacedWorkspaces  []unstructured.Unstructured
	Namespaces            []corev1.Namespace
	// Raw are CAPT's objects as the API server has them, without status and managedFields, by UID. The status of one that has any
	// is an empty map.
	Raw map[types.UID]Document
	// Older are CAPT's objects that have an entry of managedFields, or an owner reference, of an older version, by UID; and those
	// without managedFields, which do not tell who wrote them.
	Older map[types.UID]bool
}

// Document is an object as JSON, which takes a fraction of the memory that the object takes.
type Document []byte

// Object reads the document.
func (d Document) Object() (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(d); err != nil {
		return nil, fmt.Errorf("reading an object of the snapshot: %w", err)
	}
	return object, nil
}

// pageSize bounds what is held in memory beside the snapshot.
const pageSize = 500

// Read takes a snapshot. It writes nothing.
func Read(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Namespace: namespace, Taken: now, Raw: map[types.UID]Document{}, Older: map[types.UID]bool{}}
	var system corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return nil, fmt.Errorf("reading namespace %s, by which the cluster is known: %w", metav1.NamespaceSystem, err)
	}
	s.ClusterUID = system.UID
	for _, read := range []func(context.Context, client.Reader) error{s.readOurs, s.readOthers} {
		if err := read(ctx, reader); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Snapshot) readOurs(ctx context.Context, reader client.Reader) error {
	for _, kind := range Kinds() {
		err := Each(ctx, reader, kind.GroupVersionKind, "", s.take)
		if err != nil {
			return err
		}
	}
	return nil
}

// take adds an object of one of CAPT's kinds.
func (s *Snapshot) take(object *unstructured.Unstructured) error {
	s.Older[object.GetUID()] = hasOlder(object)
	object.SetManagedFields(nil)
	if err := s.add(object); err != nil {
		return err
	}
	if _, has := object.Object["status"]; has {
		object.Object["status"] = map[string]any{}
	}
	document, err := object.MarshalJSON()
	s.Raw[object.GetUID()] = document
	return err
}

func (s *Snapshot) add(object *unstructured.Unstructured) error {
	switch object.GetKind() {
	case "WorkspaceTemplate":
		return appendTyped(&s.Templates, object)
	case "CAPTClusterTemplate":
		return appendTyped(&s.ClusterTemplates, object)
	case "CAPTControlPlaneTemplate":
		return appendTyped(&s.ControlPlaneTemplates, object)
	case "WorkspaceTemplateApply":
		return appendTyped(&s.Applies, object)
	case "CAPTCluster":
		return appendTyped(&s.CAPTClusters, object)
	case "CAPTControlPlane":
		return appendTyped(&s.ControlPlanes, object)
	}
	return fmt.Errorf("%s is none of CAPT's kinds", object.GetKind())
}

func (s *Snapshot) readOthers(ctx context.Context, reader client.Reader) error {
	err := Each(ctx, reader, clusterv1.GroupVersion.WithKind("Cluster"), s.Namespace, func(object *unstructured.Unstructured) error {
		return appendTyped(&s.Clusters, object)
	})
	if err != nil {
		return err
	}
	var namespaces corev1.NamespaceList
	if err := reader.List(ctx, &namespaces); err != nil {
		return fmt.Errorf("listing namespaces: %w", err)
	}
	s.Namespaces = namespaces.Items
	for _, scope := range terraform.Scopes() {
		into := &s.NamespacedWorkspaces
		if scope == terraform.ScopeCluster {
			into = &s.ClusterWideWorkspaces
		}
		err := Each(ctx, reader, scope.GroupVersionKind(), "", func(object *unstructured.Unstructured) error {
			object.SetManagedFields(nil)
			*into = append(*into, *object)
			return nil
		})
		if err != nil && !meta.IsNoMatchError(err) { // A kind that is not installed has no objects.
			return err
		}
	}
	return nil
}

// Each calls take for each object of a kind, a page at a time. An empty namespace means all of them.
func Each(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, namespace string, take func(*unstructured.Unstructured) error) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	for {
		more := client.Continue(list.GetContinue())
		list.Object, list.Items = nil, nil
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), more); err != nil {
			return fmt.Errorf("listing %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			if err := take(&list.Items[i]); err != nil {
				return err
			}
		}
		if list.GetContinue() == "" {
			return nil
		}
	}
}

func appendTyped[T any](list *[]T, object *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	*list = append(*list, typed)
	return nil
}

// hasOlder tells whether an object still speaks of an older version of CAPT, or may: in an owner reference or in managedFields.
func hasOlder(object *unstructured.Unstructured) bool {
	return len(object.GetManagedFields()) == 0 ||
		slices.ContainsFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return IsOlder(ref.APIVersion) }) ||
		slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return IsOlder(entry.APIVersion) })
}

// IsOlder tells whether an API version is an older one of CAPT's groups.
func IsOlder(apiVersion string) bool {
	version, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && version.Version != Version && (version.Group == infrav1.GroupVersion.Group || version.Group == controlplanev1.GroupVersion.Group)
}
