// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// cacheReader reads from a cache with the indexes of indexFields, or from the API server. It implements validation.Reader.
type cacheReader struct {
	client.Reader
	// Namespace is the only namespace in the cache; empty means all. OtherNamespaces reads the others, because objects may use
	// WorkspaceTemplates of other namespaces.
	Namespace       string
	OtherNamespaces client.Reader
}

func (r cacheReader) Get(ctx context.Context, key types.NamespacedName, object client.Object, options ...client.GetOption) error {
	if r.Namespace != "" && key.Namespace != "" && key.Namespace != r.Namespace {
		return r.OtherNamespaces.Get(ctx, key, object, options...)
	}
	return r.Reader.Get(ctx, key, object, options...)
}

var _ validation.Reader = cacheReader{}

// liveReader reads objects by name from the API server, and lookups that need an index from the cache. Clusters are read from the cache, too: the
// rules for Fargate profiles may look up many Clusters for one object.
type liveReader struct {
	validation.Reader
	Live validation.Reader
}

func (r liveReader) Object(ctx context.Context, key types.NamespacedName, kind validation.Owner) (validation.Owner, error) {
	if _, ok := kind.(*clusterv1.Cluster); ok {
		return r.Reader.Object(ctx, key, kind)
	}
	return r.Live.Object(ctx, key, kind)
}

func (r liveReader) HasUnclaimedWorkspace(ctx context.Context, workspaceName string) (bool, error) {
	return r.Live.HasUnclaimedWorkspace(ctx, workspaceName)
}

func (r liveReader) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	return r.Live.NamespaceLabels(ctx, name)
}

// Object implements validation.Reader. It returns nil for an invalid name, too: defaulting runs before the schema rejects one.
func (r cacheReader) Object(ctx context.Context, key types.NamespacedName, kind validation.Owner) (validation.Owner, error) {
	for _, name := range []string{key.Namespace, key.Name} {
		if name == "" || len(content.IsPathSegmentName(name)) > 0 {
			return nil, nil
		}
	}
	object := newObject(kind.(client.Object))
	err := r.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %T %s: %w", object, key, err)
	}
	return object, nil
}

func (r cacheReader) MachinePoolOf(ctx context.Context, pool types.NamespacedName) (*clusterv1.MachinePool, error) {
	var machinePools clusterv1.MachinePoolList
	if err := r.List(ctx, &machinePools, client.InNamespace(pool.Namespace), client.MatchingFields{ownerIndex: pool.Name}); err != nil {
		return nil, fmt.Errorf("looking for the MachinePool of CAPTMachinePool %s: %w", pool.Name, err)
	}
	if len(machinePools.Items) == 0 {
		return nil, nil
	}
	return &machinePools.Items[0], nil
}

func (r cacheReader) NodeGroups(ctx context.Context, cluster types.NamespacedName) ([]validation.NodeGroup, error) {
	var machinePools clusterv1.MachinePoolList
	if err := r.List(ctx, &machinePools, client.InNamespace(cluster.Namespace), client.MatchingFields{clusterIndex: cluster.Name}); err != nil {
		return nil, fmt.Errorf("listing the MachinePools of Cluster %s: %w", cluster.Name, err)
	}
	return validation.NodeGroupsOf(ctx, r, machinePools.Items)
}

func (r cacheReader) ClaimantsOf(ctx context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := r.List(ctx, &applies, client.MatchingFields{claimIndex: workspaceName}); err != nil {
		return nil, fmt.Errorf("listing the WorkspaceTemplateApplies of Workspace %s: %w", workspaceName, err)
	}
	return applies.Items, nil
}

func (r cacheReader) ControlPlanesOfTemplate(ctx context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	var users controlplanev1.CAPTControlPlaneList
	if err := r.List(ctx, &users, client.MatchingFields{templateIndex: template.String()}); err != nil {
		return nil, fmt.Errorf("listing the CAPTControlPlanes of WorkspaceTemplate %s: %w", template, err)
	}
	return users.Items, nil
}

func (r cacheReader) UsersOf(ctx context.Context, template types.NamespacedName) (validation.Users, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := r.List(ctx, &applies, client.MatchingFields{templateIndex: template.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return validation.Users{}, fmt.Errorf("listing the WorkspaceTemplateApplies of WorkspaceTemplate %s: %w", template, err)
	}
	return validation.CountUsers(applies.Items), nil
}

func (r cacheReader) EKSClaims(ctx context.Context, name string) ([]validation.EKSClaim, error) {
	var list controlplanev1.CAPTControlPlaneList
	if err := r.List(ctx, &list, client.MatchingFields{eksNameIndex: name}); err != nil {
		return nil, fmt.Errorf("listing the CAPTControlPlanes of EKS cluster %s: %w", name, err)
	}
	return validation.EKSClaimsOf(ctx, r, list.Items)
}

func (r cacheReader) HasUnownedLegacy(ctx context.Context, namespace string) (bool, error) {
	var applies infrav1.WorkspaceTemplateApplyList
	if err := r.List(ctx, &applies, client.InNamespace(namespace), client.MatchingFields{unownedIndex: unownedKey}, client.Limit(1)); err != nil {
		return false, fmt.Errorf("looking for WorkspaceTemplateApplies of CAPT v0.3 without an owner: %w", err)
	}
	return len(applies.Items) > 0, nil
}

func (r cacheReader) HasUnclaimedWorkspace(ctx context.Context, workspaceName string) (bool, error) {
	workspace := &metav1.PartialObjectMetadata{}
	workspace.SetGroupVersionKind(terraform.ScopeCluster.GroupVersionKind())
	err := r.Get(ctx, types.NamespacedName{Name: workspaceName}, workspace)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Workspace %s: %w", workspaceName, err)
	}
	return workspace.Annotations[naming.ClaimAnnotation] == "" && !naming.IsPreview(workspace), nil
}

func (r cacheReader) ReferrersTo(ctx context.Context, apply types.NamespacedName) (owners []validation.Owner, err error) {
	for _, of := range []struct {
		kinds string
		list  client.ObjectList
	}{{"CAPTClusters", &infrav1.CAPTClusterList{}}, {"CAPTControlPlanes", &controlplanev1.CAPTControlPlaneList{}}, {"CAPTMachinePools", &infrav1.CAPTMachinePoolList{}}} {
		if err := r.List(ctx, of.list, client.InNamespace(apply.Namespace), client.MatchingFields{referenceIndex: apply.Name}); err != nil {
			return nil, fmt.Errorf("listing the %s that refer to %s: %w", of.kinds, apply.Name, err)
		}
		err := meta.EachListItem(of.list, func(item runtime.Object) error {
			owners = append(owners, item.(validation.Owner))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

func (r cacheReader) ClusterOf(ctx context.Context, owner validation.Owner) (*clusterv1.Cluster, error) {
	ref := claim.ReferenceTo(owner)
	var clusters clusterv1.ClusterList
	err := r.List(ctx, &clusters, client.InNamespace(owner.GetNamespace()), client.MatchingFields{ownerIndex: claim.ClusterKey(ref)})
	if err != nil {
		return nil, fmt.Errorf("looking for the Cluster of %s %s: %w", ref.Kind, ref.Name, err)
	}
	if len(clusters.Items) > 0 {
		return &clusters.Items[0], nil
	}
	// Cluster API creates the objects of a ClusterClass before the Cluster refers to them. A Cluster that refers to another object does not count.
	cluster, err := validation.Get[*clusterv1.Cluster](ctx, r, types.NamespacedName{Namespace: owner.GetNamespace(), Name: claim.ClusterName(owner)})
	if err != nil || cluster == nil {
		return nil, err
	}
	existing := cluster.Spec.InfrastructureRef
	if ref.Kind == "CAPTControlPlane" {
		existing = cluster.Spec.ControlPlaneRef
	}
	if existing.IsDefined() {
		return nil, nil
	}
	return cluster, nil
}

func (r cacheReader) NamespaceLabels(ctx context.Context, name string) (labels.Set, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := r.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return labels.Merge(nil, namespace.Labels), nil // Not nil: the namespace exists.
}

func newObject[T client.Object](kind T) T {
	return reflect.New(reflect.TypeOf(kind).Elem()).Interface().(T)
}

// Names of the indexes that cacheReader uses. They differ from those of the controllers, because an index can be registered only once per cache,
// and webhooks must not depend on the indexes of controllers.
const (
	claimIndex     = "admission.workspaceName"
	referenceIndex = "admission.workspaceTemplateApplyRef"
	ownerIndex     = "admission.owner"
	clusterIndex   = "admission.cluster"
	unownedIndex   = "admission.unowned"
	templateIndex  = "admission.template"
	eksNameIndex   = "admission.eksClusterName"
)

// unownedKey is the only key of unownedIndex.
const unownedKey = "true"

// indexFields adds the indexes that cacheReader uses.
func indexFields(ctx context.Context, indexer client.FieldIndexer) error {
	return cmp.Or(
		index(ctx, indexer, claimIndex, func(apply *infrav1.WorkspaceTemplateApply) []string { return []string{apply.Spec.WorkspaceName} }),
		index(ctx, indexer, unownedIndex, func(apply *infrav1.WorkspaceTemplateApply) []string {
			if !legacy.IsUnownedLegacy(apply) {
				return nil
			}
			return []string{unownedKey}
		}),
		index(ctx, indexer, templateIndex, func(apply *infrav1.WorkspaceTemplateApply) []string { return []string{apply.TemplateKey().String()} }),
		index(ctx, indexer, referenceIndex, func(c *infrav1.CAPTCluster) []string { return []string{c.Spec.WorkspaceTemplateApplyRef.Name} }),
		index(ctx, indexer, referenceIndex, func(c *controlplanev1.CAPTControlPlane) []string {
			names := []string{c.Spec.WorkspaceTemplateApplyRef.Name}
			for i := range c.Spec.FargateProfiles {
				names = append(names, c.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef.Name)
			}
			return names
		}),
		index(ctx, indexer, templateIndex, func(c *controlplanev1.CAPTControlPlane) []string {
			return []string{c.Spec.WorkspaceTemplateRef.Key(c.Namespace).String()}
		}),
		index(ctx, indexer, eksNameIndex, func(c *controlplanev1.CAPTControlPlane) []string {
			return []string{claim.EKSClusterName(c, claim.ClusterName(c))}
		}),
		index(ctx, indexer, referenceIndex, func(p *infrav1.CAPTMachinePool) []string { return []string{p.Spec.WorkspaceTemplateApplyRef.Name} }),
		index(ctx, indexer, clusterIndex, func(p *clusterv1.MachinePool) []string { return []string{p.Spec.ClusterName} }),
		index(ctx, indexer, ownerIndex, func(p *clusterv1.MachinePool) []string { return []string{claim.PoolOf(p)} }),
		index(ctx, indexer, ownerIndex, claim.ClusterKeys))
}

// index adds an index of the objects of one kind. Empty keys are dropped.
func index[T client.Object](ctx context.Context, indexer client.FieldIndexer, name string, keys func(T) []string) error {
	var kind T
	return indexer.IndexField(ctx, newObject(kind), name, func(object client.Object) []string {
		return slices.DeleteFunc(keys(object.(T)), func(key string) bool { return key == "" })
	})
}
