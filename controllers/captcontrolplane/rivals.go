// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

// eksIndex finds the WorkspaceTemplateApplies of control planes by the EKS cluster that they make. There is one only where the
// manager makes tokens.
const eksIndex = "eksCluster"

// eksCluster is the name of the EKS cluster that a WorkspaceTemplateApply of a control plane makes. A token is bound to the name
// alone: EKS takes one that was signed for any region.
func eksCluster(object client.Object) []string {
	apply, ok := object.(*infrav1.WorkspaceTemplateApply)
	if !ok {
		return nil
	}
	if owner := metav1.GetControllerOf(apply); owner == nil || owner.Kind != "CAPTControlPlane" {
		return nil
	}
	return []string{apply.Spec.Variables[naming.ClusterVariable]}
}

// nameTaken reports whether a control plane of another namespace had an EKS cluster of the same name first. Only the
// WorkspaceTemplateApply that the control plane refers to counts: any user of a namespace can create others, with any name.
// The older WorkspaceTemplateApply wins, since admission keeps its cluster name from the moment at which it has a Workspace.
// The age of the control plane is not evidence: an old one can get a new WorkspaceTemplateApply.
func (r *Reconciler) nameTaken(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	others, err := r.sameCluster(ctx, apply.Spec.Variables[naming.ClusterVariable])
	if err != nil {
		return false, fmt.Errorf("looking for EKS clusters of the same name: %w", err)
	}
	for i := range others {
		other := &others[i]
		if other.Namespace == apply.Namespace || !hasWorkspace(other) || !older(other, apply) {
			continue
		}
		if referred, err := r.referredTo(ctx, other); err != nil || referred {
			return referred, err
		}
	}
	return false, nil
}

// referredTo reports whether the control plane that controls a WorkspaceTemplateApply refers to it.
func (r *Reconciler) referredTo(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	key := client.ObjectKey{Namespace: apply.Namespace, Name: metav1.GetControllerOf(apply).Name}
	controlPlane, err := engine.Get(ctx, r.Client, key, &controlplanev1.CAPTControlPlane{})
	if err != nil {
		return false, fmt.Errorf("reading the CAPTControlPlane of an EKS cluster of the same name: %w", err)
	}
	if controlPlane == nil || !metav1.IsControlledBy(apply, controlPlane) {
		return false, nil
	}
	ref := controlPlane.Spec.WorkspaceTemplateApplyRef
	return ref.Name == apply.Name, nil
}

// hasWorkspace reports whether status, which users cannot write, records a Workspace.
func hasWorkspace(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef != nil || apply.Status.WorkspaceName != ""
}

// sameCluster lists the WorkspaceTemplateApplies of control planes that make an EKS cluster of a name.
func (r *Reconciler) sameCluster(ctx context.Context, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	err := r.Client.List(ctx, &list, client.MatchingFields{eksIndex: name})
	return list.Items, err
}

// older tells which of two objects of different namespaces was there first; those of one second have an order, too.
func older(one, other client.Object) bool {
	first, second := one.GetCreationTimestamp(), other.GetCreationTimestamp()
	if first.Equal(&second) {
		return one.GetNamespace() < other.GetNamespace()
	}
	return first.Before(&second)
}

// ofSameCluster reconciles those that make an EKS cluster of the same name: one may have waited for the name to be free.
func (r *Reconciler) ofSameCluster(ctx context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, name := range eksCluster(object) {
		others, err := r.sameCluster(ctx, name)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing WorkspaceTemplateApplies to wake")
			return nil
		}
		for i := range others {
			owner := client.ObjectKey{Namespace: others[i].Namespace, Name: metav1.GetControllerOf(&others[i]).Name}
			requests = append(requests, ctrl.Request{NamespacedName: owner})
		}
	}
	return requests
}
