// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// world is what the rules see of the API server. It implements validation.World.
type world struct {
	client.Reader
	// A cache that holds one namespace answers with an error for others, from which templates may be used all the same.
	namespace string
	elsewhere client.Reader
}

// Get implements client.Reader.
func (w world) Get(ctx context.Context, key types.NamespacedName, object client.Object, options ...client.GetOption) error {
	if w.namespace != "" && key.Namespace != "" && key.Namespace != w.namespace {
		return w.elsewhere.Get(ctx, key, object, options...)
	}
	return w.Reader.Get(ctx, key, object, options...)
}

var _ validation.World = world{}

// lookedUp is a live world, but for what only an index of the cache can find, and for Clusters: the name of the
// WorkspaceTemplateApply of a Fargate profile may begin with the names of many.
type lookedUp struct {
	validation.World
	cached validation.World
}

func (w lookedUp) ClusterOf(ctx context.Context, owner validation.Owner) (*clusterv1.Cluster, error) {
	return w.cached.ClusterOf(ctx, owner)
}

func (w lookedUp) ReferrersTo(ctx context.Context, apply types.NamespacedName) ([]validation.Owner, error) {
	return w.cached.ReferrersTo(ctx, apply)
}

func (w lookedUp) ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	return w.cached.ControlPlanesOfTemplate(ctx, template)
}

func (w lookedUp) Cluster(ctx context.Context, key types.NamespacedName) (*clusterv1.Cluster, error) {
	return w.cached.Cluster(ctx, key)
}

func (w lookedUp) Orphaned(ctx context.Context, namespace string) (bool, error) {
	return w.cached.Orphaned(ctx, namespace)
}

func (w world) WorkspaceTemplate(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplate, error) {
	return get[*infrav1.WorkspaceTemplate](ctx, w, key)
}

func (w world) WorkspaceTemplateApply(ctx context.Context, key types.NamespacedName) (*infrav1.WorkspaceTemplateApply, error) {
	return get[*infrav1.WorkspaceTemplateApply](ctx, w, key)
}

func (w world) CAPTCluster(ctx context.Context, key types.NamespacedName) (*infrav1.CAPTCluster, error) {
	return get[*infrav1.CAPTCluster](ctx, w, key)
}

func (w world) CAPTControlPlane(ctx context.Context, key types.NamespacedName) (*controlplanev1.CAPTControlPlane, error) {
	return get[*controlplanev1.CAPTControlPlane](ctx, w, key)
}

func (w world) Cluster(ctx context.Context, key types.NamespacedName) (*clusterv1.Cluster, error) {
	return get[*clusterv1.Cluster](ctx, w, key)
}

func (w world) ClaimantsOf(ctx context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := w.List(ctx, &applies, client.MatchingFields{claimIndex: workspaceName}); err != nil {
		return nil, fmt.Errorf("listing the WorkspaceTemplateApplies of Workspace %s: %w", workspaceName, err)
	}
	return applies.Items, nil
}

func (w world) ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	var users controlplanev1.CAPTControlPlaneList
	if err := w.List(ctx, &users, client.MatchingFields{templateIndex: template.String()}); err != nil {
		return nil, fmt.Errorf("listing the CAPTControlPlanes of WorkspaceTemplate %s: %w", template, err)
	}
	return users.Items, nil
}

func (w world) UsersOf(ctx context.Context, template types.NamespacedName) (int, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := w.List(ctx, &applies, client.MatchingFields{templateIndex: template.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing the WorkspaceTemplateApplies of WorkspaceTemplate %s: %w", template, err)
	}
	return len(applies.Items), nil
}

func (w world) Orphaned(ctx context.Context, namespace string) (bool, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := w.List(ctx, &applies, client.InNamespace(namespace), client.MatchingFields{orphanIndex: orphan}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("looking for WorkspaceTemplateApplies of CAPT v0.3 without an owner: %w", err)
	}
	return len(applies.Items) > 0, nil
}

func (w world) Leftover(ctx context.Context, workspaceName string) (bool, error) {
	workspace := &metav1.PartialObjectMetadata{}
	workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	err := w.Get(ctx, types.NamespacedName{Name: workspaceName}, workspace)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Workspace %s: %w", workspaceName, err)
	}
	return workspace.Annotations[naming.ClaimAnnotation] == "", nil
}

func (w world) ReferrersTo(ctx context.Context, apply types.NamespacedName) ([]validation.Owner, error) {
	options := []client.ListOption{client.InNamespace(apply.Namespace), client.MatchingFields{referenceIndex: apply.Name}}
	var clusters infrav1.CAPTClusterList
	if err := w.List(ctx, &clusters, options...); err != nil {
		return nil, fmt.Errorf("listing the CAPTClusters that refer to %s: %w", apply.Name, err)
	}
	var controlPlanes controlplanev1.CAPTControlPlaneList
	if err := w.List(ctx, &controlPlanes, options...); err != nil {
		return nil, fmt.Errorf("listing the CAPTControlPlanes that refer to %s: %w", apply.Name, err)
	}
	owners := make([]validation.Owner, 0, len(clusters.Items)+len(controlPlanes.Items))
	for i := range clusters.Items {
		owners = append(owners, &clusters.Items[i])
	}
	for i := range controlPlanes.Items {
		owners = append(owners, &controlPlanes.Items[i])
	}
	return owners, nil
}

func (w world) ClusterOf(ctx context.Context, owner validation.Owner) (*clusterv1.Cluster, error) {
	kind := "CAPTCluster"
	if _, ok := owner.(*controlplanev1.CAPTControlPlane); ok {
		kind = "CAPTControlPlane"
	}
	var clusters clusterv1.ClusterList
	err := w.List(ctx, &clusters, client.InNamespace(owner.GetNamespace()), client.MatchingFields{ownerIndex: ownerKey(kind, owner.GetName())})
	if err != nil {
		return nil, fmt.Errorf("looking for the Cluster of %s %s: %w", kind, owner.GetName(), err)
	}
	if len(clusters.Items) > 0 {
		return &clusters.Items[0], nil
	}
	return w.clusterToBe(ctx, owner, kind)
}

// clusterToBe finds the Cluster that has yet to name an object: one of a ClusterClass does so only when what it names
// exists. Until then the object names the Cluster. One that names another object in its place is not meant.
func (w world) clusterToBe(ctx context.Context, owner validation.Owner, kind string) (*clusterv1.Cluster, error) {
	name := owner.GetLabels()[clusterv1.ClusterNameLabel]
	for _, ref := range owner.GetOwnerReferences() {
		if group, _, _ := strings.Cut(ref.APIVersion, "/"); ref.Kind == "Cluster" && group == clusterv1.GroupVersion.Group {
			name = ref.Name
		}
	}
	cluster, err := w.Cluster(ctx, key(owner.GetNamespace(), name))
	if err != nil || cluster == nil {
		return nil, err
	}
	ref := cluster.Spec.InfrastructureRef
	if kind == "CAPTControlPlane" {
		ref = cluster.Spec.ControlPlaneRef
	}
	if ref.IsDefined() {
		return nil, nil
	}
	return cluster, nil
}

func (w world) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := w.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return labels.Merge(nil, namespace.Labels), nil // Not nil: the namespace exists.
}

// get returns nil for a name that no object can have, too: defaulting comes before the schema, which refuses it.
func get[T client.Object](ctx context.Context, reader client.Reader, key types.NamespacedName) (found T, err error) {
	for _, name := range []string{key.Namespace, key.Name} {
		if name == "" || len(content.IsPathSegmentName(name)) > 0 {
			return found, nil
		}
	}
	object := newObject(found)
	err = reader.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return object, nil
}

// newObject makes an object of a pointer type.
func newObject[T client.Object](kind T) T {
	return reflect.New(reflect.TypeOf(kind).Elem()).Interface().(T)
}
