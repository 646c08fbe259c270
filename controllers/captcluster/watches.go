// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcluster

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/owner"
)

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	scheme := mgr.GetScheme()
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.CAPTCluster{}, owner.ReferenceIndex, references); err != nil {
		return err
	}
	toInfrastructure := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("CAPTCluster"), mgr.GetClient(), &infrav1.CAPTCluster{})
	if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.CAPTCluster{}, templateIndex, templateKey); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.CAPTCluster{}, builder.WithPredicates(
			predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilterValue),
			predicates.ResourceIsNotExternallyManaged(scheme, log),
		)).
		Named("captcluster").
		WithOptions(options).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.referringTo)).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.withoutReference), builder.WithPredicates(owner.Deleted())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.heldInNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(toInfrastructure),
			builder.WithPredicates(predicates.Any(scheme, log, predicates.ClusterPausedTransitions(scheme, log), owner.EndpointChanged()))).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.deletedInNamespace),
			builder.WithPredicates(owner.Deleted())).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.adoptedInNamespace),
			builder.WithPredicates(onAdoption())).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(r)
}

// templateIndex finds the CAPTClusters of a WorkspaceTemplate, by its namespace/name.
const templateIndex = "spec.vpc.template.ref"

func templateKey(object client.Object) []string {
	template := object.(*infrav1.CAPTCluster).Spec.VPC.Template
	if !template.IsDefined() {
		return nil
	}
	return []string{template.Ref.Key(object.GetNamespace()).String()}
}

// ofTemplate reconciles the CAPTClusters that refer to a template.
func (r *Reconciler) ofTemplate(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, all, client.MatchingFields{templateIndex: client.ObjectKeyFromObject(object).String()})
}

func references(object client.Object) []string {
	return owner.References(object, object.(*infrav1.CAPTCluster).Spec.WorkspaceTemplateApplyRef)
}

// referringTo reconciles the CAPTCluster that refers to a WorkspaceTemplateApply. One that it does not control yet is no event of
// its own otherwise.
func (r *Reconciler) referringTo(ctx context.Context, apply client.Object) []ctrl.Request {
	return r.requestsFor(ctx, all, owner.ReferringTo(apply))
}

// deletedInNamespace reconciles the CAPTClusters that are being deleted, and may wait for a control plane to be gone.
func (r *Reconciler) deletedInNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, func(c *infrav1.CAPTCluster) bool { return !c.DeletionTimestamp.IsZero() }, client.InNamespace(object.GetNamespace()))
}

// onAdoption lets a control plane through when it was adopted, maybe before its first reconcile, or is gone.
func onAdoption() predicate.Funcs {
	awaits := func(object client.Object) bool {
		return !conditions.IsFalse(object.(*controlplanev1.CAPTControlPlane), controlplanev1.AdoptionRequiredCondition)
	}
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return awaits(e.ObjectOld) && !awaits(e.ObjectNew) },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// adoptedInNamespace reconciles the CAPTClusters that are adopted with a control plane.
func (r *Reconciler) adoptedInNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, func(c *infrav1.CAPTCluster) bool {
		return !c.Spec.VPC.Template.IsDefined() && conditions.IsTrue(c, infrav1.AdoptionRequiredCondition)
	}, client.InNamespace(object.GetNamespace()))
}

// heldInNamespace reconciles the CAPTClusters whose deletion waits for another deletion policy.
func (r *Reconciler) heldInNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, func(c *infrav1.CAPTCluster) bool {
		return conditions.GetReason(c, infrav1.DeletingCondition) == infrav1.DeletionPolicyConflictReason
	}, client.InNamespace(object.GetNamespace()))
}

func all(*infrav1.CAPTCluster) bool { return true }

// withoutReference reconciles those that refer to no WorkspaceTemplateApply, or to one that they do not own: the one that is
// gone may have been what they were waiting for a person to decide about.
func (r *Reconciler) withoutReference(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, func(c *infrav1.CAPTCluster) bool {
		ref := c.Spec.WorkspaceTemplateApplyRef
		return !ref.IsDefined() || ref.Name == object.GetName()
	}, client.InNamespace(object.GetNamespace()))
}

func (r *Reconciler) requestsFor(ctx context.Context, counts func(*infrav1.CAPTCluster) bool, options ...client.ListOption) []ctrl.Request {
	var list infrav1.CAPTClusterList
	// They are only looked at, so the cache need not copy them.
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CAPTClusters to wake")
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		if counts(&list.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
