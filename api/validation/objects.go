// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/legacy"
	"github.com/capt-provider/capt/api/naming"
)

// Objects are typed objects of CAPT's kinds, Clusters, MachinePools and Namespaces. They are all that exists, except for Namespaces: any may exist without
// being among them, and then has only the label that every Namespace has.
type Objects []Owner

var _ Reader = Objects{}

// Files are the objects of files. A cluster may have others.
type Files struct{ Objects }

func find[T Owner](o Objects, is func(T) bool) (found T) {
	for _, object := range o {
		if object, ok := object.(T); ok && is(object) {
			return object
		}
	}
	return found
}

func list[E any, T interface {
	*E
	Owner
}](o Objects, is func(T) bool) (found []E) {
	for _, object := range o {
		if object, ok := object.(T); ok && is(object) {
			found = append(found, *object)
		}
	}
	return found
}

// Object implements Reader.
func (o Objects) Object(_ context.Context, key types.NamespacedName, kind Owner) (Owner, error) {
	return find(o, func(object Owner) bool {
		return naming.KeyOf(object) == key && reflect.TypeOf(object) == reflect.TypeOf(kind)
	}), nil
}

// ClaimantsOf implements Reader.
func (o Objects) ClaimantsOf(_ context.Context, workspaceName string) ([]infrav1.WorkspaceTemplateApply, error) {
	return list(o, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return workspaceName != "" && apply.Spec.WorkspaceName == workspaceName
	}), nil
}

// UsersOf implements Reader.
func (o Objects) UsersOf(_ context.Context, template types.NamespacedName) (Users, error) {
	return CountUsers(list(o, func(apply *infrav1.WorkspaceTemplateApply) bool { return apply.TemplateKey() == template })), nil
}

// MachinePoolOf implements Reader.
func (o Objects) MachinePoolOf(_ context.Context, pool types.NamespacedName) (*clusterv1.MachinePool, error) {
	return find(o, func(machinePool *clusterv1.MachinePool) bool {
		return machinePool.Namespace == pool.Namespace && claim.PoolOf(machinePool) == pool.Name
	}), nil
}

// NodeGroups implements Reader.
func (o Objects) NodeGroups(ctx context.Context, cluster types.NamespacedName) ([]NodeGroup, error) {
	return NodeGroupsOf(ctx, o, list(o, func(machinePool *clusterv1.MachinePool) bool {
		return machinePool.Namespace == cluster.Namespace && machinePool.Spec.ClusterName == cluster.Name
	}))
}

// ReferrersTo implements Reader.
func (o Objects) ReferrersTo(_ context.Context, apply types.NamespacedName) (owners []Owner, err error) {
	for _, owner := range o {
		var refs []infrav1.WorkspaceTemplateApplyReference
		switch owner := owner.(type) {
		case *infrav1.CAPTCluster:
			refs = append(refs, owner.Spec.WorkspaceTemplateApplyRef)
		case *controlplanev1.CAPTControlPlane:
			refs = append(refs, owner.Spec.WorkspaceTemplateApplyRef)
			for i := range owner.Spec.FargateProfiles {
				refs = append(refs, owner.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef)
			}
		case *infrav1.CAPTMachinePool:
			refs = append(refs, owner.Spec.WorkspaceTemplateApplyRef)
		}
		if owner.GetNamespace() == apply.Namespace && slices.Contains(refs, infrav1.WorkspaceTemplateApplyReference{Name: apply.Name}) {
			owners = append(owners, owner)
		}
	}
	return owners, nil
}

// ControlPlanesOfTemplate implements Reader.
func (o Objects) ControlPlanesOfTemplate(_ context.Context, template types.NamespacedName) ([]controlplanev1.CAPTControlPlane, error) {
	return list(o, func(controlPlane *controlplanev1.CAPTControlPlane) bool {
		return controlPlane.Spec.WorkspaceTemplateRef.Key(controlPlane.Namespace) == template
	}), nil
}

// EKSClaims implements Reader.
func (o Objects) EKSClaims(ctx context.Context, name string) ([]EKSClaim, error) {
	return EKSClaimsOf(ctx, o, list(o, func(controlPlane *controlplanev1.CAPTControlPlane) bool {
		cluster := claim.ClusterName(controlPlane)
		if referring, _ := o.ClusterOf(ctx, controlPlane); referring != nil {
			cluster = referring.Name
		}
		return claim.EKSClusterName(controlPlane, cluster) == name
	}))
}

// HasUnownedLegacy implements Reader.
func (o Objects) HasUnownedLegacy(_ context.Context, namespace string) (bool, error) {
	return find(o, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return apply.Namespace == namespace && legacy.IsUnownedLegacy(apply)
	}) != nil, nil
}

// HasUnclaimedWorkspace implements Reader. Workspaces are not written by hand.
func (o Objects) HasUnclaimedWorkspace(context.Context, string) (bool, error) { return false, nil }

// ClusterOf implements Reader.
func (o Objects) ClusterOf(_ context.Context, owner Owner) (*clusterv1.Cluster, error) {
	return find(o, func(cluster *clusterv1.Cluster) bool { return claim.RefersTo(cluster, owner) }), nil
}

// NamespaceLabels implements Reader.
func (o Objects) NamespaceLabels(_ context.Context, name string) (labels.Set, error) {
	found := labels.Set{corev1.LabelMetadataName: name}
	if namespace := find(o, func(namespace *corev1.Namespace) bool { return namespace.Name == name }); namespace != nil {
		found = labels.Merge(namespace.Labels, found)
	}
	return found, nil
}
