// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"context"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

const (
	// ReferenceIndex finds owners by the WorkspaceTemplateApplies that they refer to, whether they control them or not.
	ReferenceIndex = "spec.workspaceTemplateApplyRef.name"
	// TemplateIndex finds owners by the WorkspaceTemplates that they refer to, by namespace/name.
	TemplateIndex = "workspaceTemplateRefs"
	// WaitIndex finds owners by what they wait for, with the keys below.
	WaitIndex = "waits"
	// awaitsEKSName is the name of their EKS cluster, which the CAPTControlPlane of another Cluster has.
	awaitsEKSName = "eksClusterName"
	// ofCluster is the beginning of the key for what an owner needs of its Cluster, followed by its namespace and name: it does not depend on status.
	ofCluster = "cluster/"
	// AwaitsNodeGroupName is a name that another node group has.
	AwaitsNodeGroupName = "nodeGroupName"
	// awaitsPolicy is another deletion policy of a WorkspaceTemplateApply.
	awaitsPolicy = "deletionPolicy"
)

// References are the keys of ReferenceIndex for an owner. A reference without a name may become one to any WorkspaceTemplateApply of the namespace.
func References(owner client.Object, refs ...infrav1.WorkspaceTemplateApplyReference) (keys []string) {
	for _, ref := range refs {
		keys = append(keys, owner.GetNamespace()+"/"+ref.Name)
	}
	return keys
}

// Requests lists owners to reconcile.
type Requests struct {
	Client client.Reader
	// List is an empty list of the owner's kind.
	List client.ObjectList
}

// Matching returns requests for the owners that match.
func (r Requests) Matching(ctx context.Context, matches func(client.Object) bool, options ...client.ListOption) []ctrl.Request {
	return engine.Requests(ctx, r.Client, r.List.DeepCopyObject().(client.ObjectList), matches, options...)
}

// ReferringTo returns the owners that refer to a WorkspaceTemplateApply, which they may not control yet.
func (r Requests) ReferringTo(ctx context.Context, apply client.Object) []ctrl.Request {
	return r.Matching(ctx, nil, client.MatchingFields{ReferenceIndex: client.ObjectKeyFromObject(apply).String()})
}

// UsingTemplate returns the owners that refer to a WorkspaceTemplate.
func (r Requests) UsingTemplate(ctx context.Context, template client.Object) []ctrl.Request {
	return r.Matching(ctx, nil, client.MatchingFields{TemplateIndex: client.ObjectKeyFromObject(template).String()})
}

// AfterDeletion returns the owners that may wait until a WorkspaceTemplateApply that they do not own is deleted.
func (r Requests) AfterDeletion(ctx context.Context, apply client.Object) []ctrl.Request {
	unknown := r.Matching(ctx, nil, client.MatchingFields{ReferenceIndex: apply.GetNamespace() + "/"})
	return append(unknown, r.ReferringTo(ctx, apply)...)
}

// awaited is what owners wait for that no object names: keys of WaitIndex, and the reasons of a condition that such owners have.
var awaited = []struct {
	key, condition string
	reasons        []string
}{
	{awaitsEKSName, infrav1.ReadyCondition, []string{infrav1.EKSClusterNameConflictReason}},
	{awaitsPolicy, infrav1.DeletingCondition, []string{infrav1.DeletionPolicyConflictReason}},
	{AwaitsNodeGroupName, infrav1.NodeGroupReadyCondition, []string{infrav1.InvalidNodeGroupNameReason}},
}

// IndexWaits is the function of WaitIndex.
func IndexWaits(object client.Object) []string {
	keys := []string{ofCluster + object.GetNamespace() + "/" + claim.ClusterName(object)}
	for _, wait := range awaited {
		if slices.Contains(wait.reasons, conditions.GetReason(object.(engine.Object), wait.condition)) {
			keys = append(keys, wait.key)
		}
	}
	return keys
}

// Awaiting returns requests for the owners with a key of WaitIndex.
func (r Requests) Awaiting(key string) handler.MapFunc {
	return func(ctx context.Context, _ client.Object) []ctrl.Request {
		return r.Matching(ctx, nil, client.MatchingFields{WaitIndex: key})
	}
}

// UsingControlPlane returns requests for the owners that need a CAPTControlPlane, which was created, changed or deleted: those of its Cluster, found without their
// status, which the cache may not have yet, and those that wait for the name of its EKS cluster.
func (r Requests) UsingControlPlane(ctx context.Context, controlPlane client.Object) []ctrl.Request {
	requests := append(r.Awaiting(awaitsEKSName)(ctx, controlPlane), engine.RequestsFor(ctx, r.Client, &clusterv1.ClusterList{}, func(cluster client.Object) []ctrl.Request {
		return r.Awaiting(ofCluster+cluster.GetNamespace()+"/"+cluster.GetName())(ctx, cluster)
	}, client.InNamespace(controlPlane.GetNamespace()), client.MatchingFields{claim.ClusterIndex: claim.ClusterKey(claim.ReferenceTo(controlPlane))})...)
	if name := claim.ClusterName(controlPlane); name != "" { // Its Cluster may be deleted already.
		requests = append(requests, r.Awaiting(ofCluster+controlPlane.GetNamespace()+"/"+name)(ctx, controlPlane)...)
	}
	return requests
}

// NewController returns a controller of owners that reconciles those that this manager watches.
func (r *Reconciler) NewController(ctx context.Context, mgr ctrl.Manager, object client.Object, options controller.Options) *builder.Builder {
	log, scheme := ctrl.LoggerFrom(ctx), mgr.GetScheme()
	watched := builder.WithPredicates(predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilterValue), predicates.ResourceIsNotExternallyManaged(scheme, log))
	return ctrl.NewControllerManagedBy(mgr).For(object, watched).WithOptions(options)
}

// Watch adds the watches that all owners need. The indexes must be registered for the kind of the owner.
func (r Requests) Watch(b *builder.Builder) *builder.Builder {
	changed := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return b.Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&infrav1.WorkspaceTemplateApply{}, engine.EnqueueResults(readyChanged, r.ReferringTo)).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.AfterDeletion), builder.WithPredicates(Deleted())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.Awaiting(awaitsPolicy)), changed).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.UsingTemplate), changed).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.UsingControlPlane), changed)
}

// readyChanged reports whether a WorkspaceTemplateApply became Ready, or is not any more.
func readyChanged(before, after client.Object) bool {
	return conditions.IsTrue(before.(engine.Object), infrav1.ReadyCondition) != conditions.IsTrue(after.(engine.Object), infrav1.ReadyCondition)
}

// Deleted passes deletions only.
func Deleted() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// Updated passes updates only, if changed reports true.
func Updated(changed func(before, after client.Object) bool) predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  func(e event.UpdateEvent) bool { return changed(e.ObjectOld, e.ObjectNew) },
	}
}

// ReferenceChanged passes a Cluster when it begins or ceases to refer to objects, and when its deletion begins.
func ReferenceChanged() predicate.Funcs {
	changed := Updated(func(before, after client.Object) bool {
		was, ok := before.(*clusterv1.Cluster)
		is, alsoOK := after.(*clusterv1.Cluster)
		return ok && alsoOK && (was.Spec.InfrastructureRef != is.Spec.InfrastructureRef || was.Spec.ControlPlaneRef != is.Spec.ControlPlaneRef ||
			was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero())
	})
	changed.CreateFunc = func(event.CreateEvent) bool { return true }
	changed.DeleteFunc = func(event.DeleteEvent) bool { return true }
	return changed
}

// EndpointChanged passes a Cluster when its endpoint appears or changes.
func EndpointChanged() predicate.Funcs {
	return Updated(func(before, after client.Object) bool {
		was, ok := before.(*clusterv1.Cluster)
		is, alsoOK := after.(*clusterv1.Cluster)
		return ok && alsoOK && was.Spec.ControlPlaneEndpoint != is.Spec.ControlPlaneEndpoint
	})
}
