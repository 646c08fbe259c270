// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
)

const (
	// EKSNameIndex finds CAPTControlPlanes by the name that their EKS cluster gets.
	EKSNameIndex = "eksClusterName"
	// EKSIndex finds the WorkspaceTemplateApplies of control planes by the EKS cluster that they create.
	EKSIndex = "eksCluster"
)

// IndexEKSName is the function of EKSNameIndex. One without a Cluster has an empty key, which is not looked up.
func IndexEKSName(object client.Object) []string {
	return []string{claim.EKSClusterName(object.(*controlplanev1.CAPTControlPlane), claim.ClusterName(object))}
}

// IndexEKS is the function of EKSIndex.
func IndexEKS(object client.Object) []string {
	apply, ok := object.(*infrav1.WorkspaceTemplateApply)
	if !ok {
		return nil
	}
	if owner := metav1.GetControllerOf(apply); owner == nil || owner.Kind != "CAPTControlPlane" {
		return nil
	}
	return []string{apply.Spec.Variables.Text(naming.ClusterVariable)}
}

// EKSClaim reads the control plane of a Cluster, without what else determines its EKS cluster; nil if that is another provider's, or does not exist.
func (r *Reconciler) EKSClaim(ctx context.Context, cluster *clusterv1.Cluster) (*validation.EKSClaim, error) {
	if cluster == nil || !desired.HasCAPTControlPlane(cluster) {
		return nil, nil
	}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}
	controlPlane, err := engine.Get(ctx, r.Client, key, &controlplanev1.CAPTControlPlane{})
	if err != nil || controlPlane == nil {
		return nil, err
	}
	return &validation.EKSClaim{ControlPlane: controlPlane, Cluster: cluster.Name}, nil
}

// CompleteClaim reads what determines the EKS cluster of a control plane of a Cluster, which is nil if it does not exist.
func (r *Reconciler) CompleteClaim(ctx context.Context, c *validation.EKSClaim, cluster *clusterv1.Cluster) error {
	if err := r.CompleteObjects(ctx, c, cluster); err != nil {
		return err
	}
	template := c.ControlPlane.Spec.WorkspaceTemplateRef
	if c.Apply != nil {
		template = c.Apply.Spec.TemplateRef
	}
	c.Template = r.ObserveTemplate(ctx, c.ControlPlane, template, nil).Template // Nothing is known of the account of one that cannot be read.
	return nil
}

// CompleteObjects reads the WorkspaceTemplateApply of a control plane, and the CAPTCluster of its Cluster, which may be nil.
func (r *Reconciler) CompleteObjects(ctx context.Context, c *validation.EKSClaim, cluster *clusterv1.Cluster) (err error) {
	namespace := c.ControlPlane.Namespace
	if ref := c.ControlPlane.Spec.WorkspaceTemplateApplyRef; ref.IsDefined() {
		if c.Apply, err = engine.Get(ctx, r.Client, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &infrav1.WorkspaceTemplateApply{}); err != nil {
			return fmt.Errorf("reading WorkspaceTemplateApply %s: %w", ref.Name, err)
		}
	}
	if cluster != nil && desired.HasCAPTCluster(cluster) {
		key := client.ObjectKey{Namespace: namespace, Name: cluster.Spec.InfrastructureRef.Name}
		if c.CAPTCluster, err = engine.Get(ctx, r.Client, key, &infrav1.CAPTCluster{}); err != nil {
			return fmt.Errorf("reading CAPTCluster %s: %w", key.Name, err)
		}
	}
	return nil
}

// OtherClaims reads the control planes of all namespaces that have, or may get, an EKS cluster of a name.
func (r *Reconciler) OtherClaims(ctx context.Context, own *controlplanev1.CAPTControlPlane, name string) (claims []validation.EKSClaim, err error) {
	var wanting controlplanev1.CAPTControlPlaneList
	var having infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &wanting, client.MatchingFields{EKSNameIndex: name}); err != nil {
		return nil, fmt.Errorf("listing the CAPTControlPlanes of EKS cluster %s: %w", name, err)
	}
	if err := r.Client.List(ctx, &having, client.MatchingFields{EKSIndex: name}); err != nil {
		return nil, fmt.Errorf("listing the WorkspaceTemplateApplies of EKS cluster %s: %w", name, err)
	}
	keys := sets.New[client.ObjectKey]()
	for i := range wanting.Items {
		keys.Insert(client.ObjectKeyFromObject(&wanting.Items[i]))
	}
	for i := range having.Items {
		keys.Insert(client.ObjectKey{Namespace: having.Items[i].Namespace, Name: metav1.GetControllerOf(&having.Items[i]).Name})
	}
	list := keys.Delete(client.ObjectKeyFromObject(own)).UnsortedList()
	slices.SortFunc(list, func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) }) // The message names the first one.
	for _, key := range list {
		controlPlane, err := engine.Get(ctx, r.Client, key, &controlplanev1.CAPTControlPlane{})
		if err != nil {
			return nil, err
		}
		if controlPlane == nil {
			continue
		}
		other := validation.EKSClaim{ControlPlane: controlPlane, Cluster: claim.ClusterName(controlPlane)}
		cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, controlPlane)
		if err != nil {
			return nil, err
		}
		if err := r.CompleteClaim(ctx, &other, cluster); err != nil {
			return nil, err
		}
		claims = append(claims, other)
	}
	return claims, nil
}

// NodeGroups reads the node groups of a Cluster.
func (r *Reconciler) NodeGroups(ctx context.Context, cluster client.ObjectKey) ([]validation.NodeGroup, error) {
	var list clusterv1.MachinePoolList
	if err := r.Client.List(ctx, &list, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the MachinePools of Cluster %s: %w", cluster.Name, err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(machinePool clusterv1.MachinePool) bool { return machinePool.Spec.ClusterName != cluster.Name })
	return validation.NodeGroupsOf(ctx, getter{r.Client}, list.Items)
}

// getter implements validation.Getter.
type getter struct{ client.Reader }

// Object implements validation.Getter.
func (r getter) Object(ctx context.Context, key client.ObjectKey, kind validation.Owner) (validation.Owner, error) {
	return engine.Get(ctx, r, key, reflect.New(reflect.TypeOf(kind).Elem()).Interface().(client.Object))
}
