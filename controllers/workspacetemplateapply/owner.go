// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// controllerIndex finds WorkspaceTemplateApplies by the UID of the object that controls them.
const controllerIndex = "metadata.controller"

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch

// pausedByOwner reports why the object that controls this one is paused by its own annotation; empty when it is not. An owner that
// is paused writes nothing, but an edited template, or the garbage collector, would still reach what it controls.
func (r *Reconciler) pausedByOwner(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error) {
	controller := metav1.GetControllerOf(apply)
	if controller == nil {
		return "", nil
	}
	var owner client.Object
	switch controller.Kind {
	case "CAPTCluster":
		owner = &infrav1.CAPTCluster{}
	case "CAPTControlPlane":
		owner = &controlplanev1.CAPTControlPlane{}
	default:
		return "", nil
	}
	key := client.ObjectKey{Namespace: apply.Namespace, Name: controller.Name}
	found, err := engine.Get(ctx, r.Client, key, owner)
	if err == nil && found == nil { // The cache may not have it yet.
		found, err = engine.Get(ctx, r.Uncached, key, owner)
	}
	if err != nil {
		return "", fmt.Errorf("reading %s %s: %w", controller.Kind, controller.Name, err)
	}
	if found == nil || found.GetUID() != controller.UID {
		return "", nil
	}
	why := engine.Paused(nil, found)
	if why == "" {
		return "", nil
	}
	return fmt.Sprintf("%s %s, which controls this object, is paused: %s", controller.Kind, controller.Name, why), nil
}

// ofOwner reconciles the WorkspaceTemplateApplies that an owner controls.
func (r *Reconciler) ofOwner(ctx context.Context, owner client.Object) []ctrl.Request {
	return r.requests(ctx, client.InNamespace(owner.GetNamespace()), client.MatchingFields{controllerIndex: string(owner.GetUID())})
}
