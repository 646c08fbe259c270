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
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// Raw are CAPT's objects as the API server has them in v1beta2, without status and managedFields, by UID. The status of one that
	// has any is an empty map.
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

// Read takes a snapshot. It writes nothing. CAPT's and Cluster API's objects are read in v1beta2 or v1beta1, whichever is served.
func Read(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Namespace: namespace, Taken: now, Raw: map[types.UID]Document{}, Older: map[types.UID]bool{}}
	reads := []func(context.Context, client.Reader) error{s.readIdentity}
	for _, kind := range Kinds() {
		reads = append(reads, func(ctx context.Context, reader client.Reader) error { return s.readOurs(ctx, reader, kind) })
	}
	reads = append(reads, s.readClusters, s.readNamespaces)
	for _, scope := range terraform.Scopes() {
		reads = append(reads, func(ctx context.Context, reader client.Reader) error { return s.readWorkspaces(ctx, reader, scope) })
	}
	var missing []error // Every right that is missing is reported at once.
	for _, read := range reads {
		switch err := read(ctx, reader); {
		case apierrors.IsForbidden(err):
			missing = append(missing, err)
		case err != nil:
			return nil, err
		}
	}
	if len(missing) > 0 {
		return nil, errors.Join(missing...)
	}
	return s, nil
}

func (s *Snapshot) readIdentity(ctx context.Context, reader client.Reader) error {
	var system corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("reading namespace %s, by which the cluster is known: %w", metav1.NamespaceSystem, err)
	}
	s.ClusterUID = system.UID
	return nil
}

func (s *Snapshot) readOurs(ctx context.Context, reader client.Reader, kind Kind) error {
	err := Served(ctx, reader, kind.GroupVersionKind, "", func(object *unstructured.Unstructured) error {
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
	})
	if meta.IsNoMatchError(err) && !kind.InLegacy() {
		return nil // v0.3 has no objects of the kind.
	}
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

func (s *Snapshot) readClusters(ctx context.Context, reader client.Reader) error {
	return Served(ctx, reader, clusterv1.GroupVersion.WithKind("Cluster"), s.Namespace, func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil)
		return appendTyped(&s.Clusters, object)
	})
}

func (s *Snapshot) readNamespaces(ctx context.Context, reader client.Reader) error {
	return Each(ctx, reader, corev1.SchemeGroupVersion.WithKind("Namespace"), "", func(object *unstructured.Unstructured) error {
		return appendTyped(&s.Namespaces, object)
	})
}

func (s *Snapshot) readWorkspaces(ctx context.Context, reader client.Reader, scope terraform.Scope) error {
	into := &s.NamespacedWorkspaces
	if scope == terraform.ScopeCluster {
		into = &s.ClusterWideWorkspaces
	}
	err := Each(ctx, reader, scope.GroupVersionKind(), "", func(object *unstructured.Unstructured) error {
		object.SetManagedFields(nil)
		*into = append(*into, *object)
		return nil
	})
	if meta.IsNoMatchError(err) { // A kind that is not installed has no objects.
		return nil
	}
	return err
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
