// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubeconfigsecret

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
)

// EKSIndex finds the WorkspaceTemplateApplies of control planes by the EKS cluster that they create. It exists only where the manager
// creates tokens.
const EKSIndex = "eksCluster"

// IndexEKS is the function of EKSIndex. A token is bound to the name of the EKS cluster alone: EKS accepts one that was signed for any
// region.
func IndexEKS(object client.Object) []string {
	apply, ok := object.(*infrav1.WorkspaceTemplateApply)
	if !ok {
		return nil
	}
	if owner := metav1.GetControllerOf(apply); owner == nil || owner.Kind != "CAPTControlPlane" {
		return nil
	}
	return []string{apply.Spec.Variables[naming.ClusterVariable]}
}

// NameConflict reports whether a control plane of another namespace had an EKS cluster of the same name first. Only WorkspaceTemplateApplies
// that a control plane refers to count, because users can create others with any cluster_name. The older WorkspaceTemplateApply wins:
// admission does not allow changes of its cluster_name once it has a Workspace. The age of the control plane does not count, because an old
// one can get a new WorkspaceTemplateApply.
func NameConflict(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	others, err := appliesOfEKSCluster(ctx, c, apply.Spec.Variables[naming.ClusterVariable])
	if err != nil {
		return false, fmt.Errorf("listing EKS clusters of the same name: %w", err)
	}
	for i := range others {
		other := &others[i]
		if other.Namespace == apply.Namespace || !hasWorkspace(other) || !engine.Older(other, apply) {
			continue
		}
		if referred, err := isReferenced(ctx, c, other); err != nil || referred {
			return referred, err
		}
	}
	return false, nil
}

// isReferenced reports whether the control plane that controls a WorkspaceTemplateApply refers to it.
func isReferenced(ctx context.Context, c client.Reader, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	key := client.ObjectKey{Namespace: apply.Namespace, Name: metav1.GetControllerOf(apply).Name}
	controlPlane, err := engine.Get(ctx, c, key, &controlplanev1.CAPTControlPlane{})
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

// appliesOfEKSCluster lists the WorkspaceTemplateApplies of control planes that create an EKS cluster of a name.
func appliesOfEKSCluster(ctx context.Context, c client.Reader, name string) ([]infrav1.WorkspaceTemplateApply, error) {
	var list infrav1.WorkspaceTemplateApplyList
	err := c.List(ctx, &list, client.MatchingFields{EKSIndex: name})
	return list.Items, err
}

// OfSameCluster returns the control planes with an EKS cluster of the same name: one may wait for the name to be free.
func OfSameCluster(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) (requests []ctrl.Request) {
		for _, name := range IndexEKS(object) {
			others, err := appliesOfEKSCluster(ctx, c, name)
			if err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Cannot list the WorkspaceTemplateApplies of an EKS cluster name", "WorkspaceTemplateApply", klog.KObj(object), "name", name)
				return nil
			}
			for i := range others {
				owner := client.ObjectKey{Namespace: others[i].Namespace, Name: metav1.GetControllerOf(&others[i]).Name}
				requests = append(requests, ctrl.Request{NamespacedName: owner})
			}
		}
		return requests
	}
}
