// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/migrate/retry"
)

// Snapshot is a fleet at one moment, in v1beta2. It holds no Secrets.
type Snapshot struct {
	ClusterUID types.UID // The UID of the namespace kube-system.
	// Namespace limits the plan to one namespace. Objects of all namespaces are read, because any of them may refer to a cluster-wide Workspace.
	Namespace string
	Taken     time.Time

	Clusters      []clusterv1.Cluster
	CAPTClusters  []infrav1.CAPTCluster
	ControlPlanes []controlplanev1.CAPTControlPlane
	Templates     []infrav1.WorkspaceTemplate
	Applies       []infrav1.WorkspaceTemplateApply
	Workspaces    []unstructured.Unstructured // Those of all scopes.
	Namespaces    []corev1.Namespace
	Revisions     []appsv1.ControllerRevision // Those of WorkspaceTemplates and of other kinds.
}

// Read takes a snapshot. It writes nothing. CAPT's and Cluster API's objects are read in v1beta2 or v1beta1, whichever is served.
func Read(ctx context.Context, reader client.Reader, namespace string, now time.Time) (*Snapshot, error) {
	s := &Snapshot{Namespace: namespace, Taken: now}
	each := eachHub(reader)
	reads := []func() error{
		func() (err error) { s.ClusterUID, err = ClusterUID(ctx, reader); return err },
		func() error { return Each(ctx, reader, corev1.SchemeGroupVersion.WithKind("Namespace"), "", s.add) },
		func() error { return Each(ctx, reader, appsv1.SchemeGroupVersion.WithKind(revisionKind), "", s.add) },
		func() error { return each(ctx, clusterv1.GroupVersion.WithKind("Cluster"), namespace, s.add) },
	}
	for _, kind := range Kinds() {
		if kind.InLegacy() {
			reads = append(reads, func() error { return each(ctx, kind.GroupVersionKind, "", s.add) })
		}
	}
	reads = append(reads, func() error { // Both scopes have the same list.
		for _, scope := range terraform.Scopes() {
			if err := Each(ctx, reader, scope.GroupVersionKind(), "", s.add); err != nil && !meta.IsNoMatchError(err) {
				return err
			}
		}
		return nil
	})
	if err := concurrently(reads); err != nil {
		return nil, err
	}
	return s, nil
}

// maxConcurrentReads limits how many kinds are read at a time, because one page of each is in memory.
const maxConcurrentReads = 3

// concurrently calls functions that read different kinds. It returns the first error, but errors about missing rights only together.
func concurrently(reads []func() error) error {
	var group errgroup.Group
	group.SetLimit(maxConcurrentReads)
	errs := make([]error, len(reads))
	for i, read := range reads {
		group.Go(func() error { errs[i] = read(); return nil })
	}
	_ = group.Wait() // The errors are in errs, in the order of the kinds.
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil && !apierrors.IsForbidden(err) }); i >= 0 {
		return errs[i]
	}
	return errors.Join(errs...)
}

// ReadObjects takes a snapshot of some objects and what they refer to, with their namespaces. What does not exist is left out.
func ReadObjects(ctx context.Context, reader client.Reader, refs []ObjectRef, now time.Time) (*Snapshot, error) {
	s, seen := &Snapshot{Taken: now}, map[ObjectRef]bool{}
	reader = retry.Reader(reader)
	for len(refs) > 0 {
		for _, ref := range refs {
			ref.UID = ""
			if seen[ref] {
				continue
			}
			seen[ref] = true
			object, err := Get(ctx, reader, ref)
			if err == nil && object != nil {
				err = s.add(object)
			}
			if err != nil {
				return nil, err
			}
		}
		refs = slices.DeleteFunc(s.related(), func(ref ObjectRef) bool { return seen[ref] })
	}
	return s, nil
}

// related are the objects that those of a snapshot refer to, and the namespaces of all.
func (s *Snapshot) related() (refs []ObjectRef) {
	add := func(kind, namespace, name string) {
		if name != "" {
			refs = append(refs, ObjectRef{Group: infrav1.GroupVersion.Group, Kind: kind, Namespace: namespace, Name: name})
		}
	}
	addTemplate := func(key types.NamespacedName) { add("WorkspaceTemplate", key.Namespace, key.Name) }
	for _, objects := range [][]client.Object{Objects(s.Clusters), Objects(s.CAPTClusters), Objects(s.ControlPlanes), Objects(s.Applies), Objects(s.Templates)} {
		for _, object := range objects {
			refs = append(refs, ObjectRef{Kind: "Namespace", Name: object.GetNamespace()})
			switch object := object.(type) {
			case *clusterv1.Cluster:
				if ref := object.Spec.InfrastructureRef; ref.Kind == "CAPTCluster" {
					add(ref.Kind, object.Namespace, ref.Name)
				}
			case *infrav1.CAPTCluster:
				add("WorkspaceTemplateApply", object.Namespace, object.Spec.WorkspaceTemplateApplyRef.Name)
				addTemplate(object.Spec.VPC.Template.Ref.Key(object.Namespace))
			case *controlplanev1.CAPTControlPlane:
				add("WorkspaceTemplateApply", object.Namespace, object.Spec.WorkspaceTemplateApplyRef.Name)
				addTemplate(object.Spec.WorkspaceTemplateRef.Key(object.Namespace))
			case *infrav1.WorkspaceTemplateApply:
				key := object.TemplateKey()
				addTemplate(key)
				for _, stored := range rollout.StoredAs(key, rollout.AssignedTo(object)) {
					refs = append(refs, ObjectRef{Group: appsv1.GroupName, Kind: revisionKind, Namespace: stored.Namespace, Name: stored.Name})
				}
				if ref := object.Status.WorkspaceRef; ref != nil {
					refs = append(refs, ObjectRef{Group: schema.FromAPIVersionAndKind(ref.APIVersion, "").Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name})
				}
			}
		}
	}
	return refs
}

// ClusterUID identifies a management cluster: it is the UID of the namespace kube-system.
func ClusterUID(ctx context.Context, reader client.Reader) (types.UID, error) {
	var system corev1.Namespace
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("reading namespace %s, which identifies the management cluster: %w", metav1.NamespaceSystem, err)
	}
	return system.UID, nil
}

func (s *Snapshot) add(object *unstructured.Unstructured) error {
	object.SetManagedFields(nil)
	switch object.GetKind() {
	case "Namespace":
		return appendTyped(&s.Namespaces, object)
	case revisionKind:
		return appendTyped(&s.Revisions, object)
	case "Cluster":
		return appendTyped(&s.Clusters, object)
	case "WorkspaceTemplate":
		return appendTyped(&s.Templates, object)
	case "WorkspaceTemplateApply":
		return appendTyped(&s.Applies, object)
	case "CAPTCluster":
		return appendTyped(&s.CAPTClusters, object)
	case "CAPTControlPlane":
		return appendTyped(&s.ControlPlanes, object)
	case terraform.WorkspaceKind:
		if naming.IsPreview(object) {
			return nil // It has the state of another Workspace, and no owner.
		}
		s.Workspaces = append(s.Workspaces, *object)
	default:
		return fmt.Errorf("%s is none of the kinds that CAPT v0.3 had", object.GetKind())
	}
	return nil
}

// Get reads an object; nil if it does not exist.
func Get(ctx context.Context, reader client.Reader, ref ObjectRef) (*unstructured.Unstructured, error) {
	kind, err := ref.GroupVersionKind()
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	err = reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return object, nil
}

// Objects returns the elements of a list of a snapshot.
func Objects[T any, P interface {
	*T
	client.Object
}](list []T) []client.Object {
	found := make([]client.Object, len(list))
	for i := range list {
		found[i] = P(&list[i])
	}
	return found
}

func appendTyped[T any](list *[]T, object *unstructured.Unstructured) error {
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed); err != nil {
		return fmt.Errorf("decoding %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	*list = append(*list, typed)
	return nil
}

// LegacyWrites lists the writes of the status of an object by CAPT v0.3 since a time, according to managedFields.
func LegacyWrites(object metav1.Object, since time.Time) (writes []string) {
	for _, entry := range object.GetManagedFields() {
		if IsOlder(entry.APIVersion) && entry.Subresource == "status" && entry.Time != nil && entry.Time.After(since) {
			writes = append(writes, fmt.Sprintf("%s wrote its status in %s at %s", entry.Manager, entry.APIVersion, entry.Time.UTC().Format(time.RFC3339)))
		}
	}
	return writes
}

// IsOlder reports whether an API version is an older one of CAPT's groups.
func IsOlder(apiVersion string) bool {
	version, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && version.Version != Version && (version.Group == infrav1.GroupVersion.Group || version.Group == controlplanev1.GroupVersion.Group)
}
