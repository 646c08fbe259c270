// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package captcontrolplane

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiconditions "sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/owner"
)

const (
	// secretIndex finds CAPTControlPlanes by the Secrets their kubeconfig is made from and written to.
	secretIndex = "kubeconfigSecrets"
	// vpcSecretIndex finds CAPTClusters by the Secret that describes their VPC, which Fargate profiles wait for.
	vpcSecretIndex = "vpcSecret"
)

// How long after an error another attempt is made, at first and at most, where the manager makes tokens. They are renewed
// 5.5 minutes before they end at the latest, and an error of another kind must not keep them from it.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	scheme := mgr.GetScheme()
	if err := index(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	control := ctrl.NewControllerManagedBy(mgr)
	if r.Tokens != nil {
		if err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, eksIndex, eksCluster); err != nil {
			return err
		}
		control.Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.ofSameCluster), builder.WithPredicates(owner.Deleted()))
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
	}
	secrets := &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))

	return control.
		For(&controlplanev1.CAPTControlPlane{}, builder.WithPredicates(
			predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilterValue),
			predicates.ResourceIsNotExternallyManaged(scheme, log),
		)).
		Named("captcontrolplane").
		WithOptions(options).
		Owns(&infrav1.WorkspaceTemplateApply{}).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.referringTo)).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.withoutReference), builder.WithPredicates(owner.Deleted())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.heldInNamespace), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.Any(scheme, log, predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(scheme, log), owner.EndpointChanged()))).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofInfrastructure)).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(secrets, handler.EnqueueRequestsFromMapFunc(r.ofSecret),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		Complete(r)
}

func index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, secretIndex, secretKeys),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, templateIndex, templateKeys),
		indexer.IndexField(ctx, &infrav1.CAPTCluster{}, vpcSecretIndex, vpcSecretKey),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.ReferenceIndex, references),
		indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, owner.ConnectionIndex, owner.IndexConnection),
		indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, fargate.ControllerIndex, fargate.IndexController),
	)
}

// vpcSecretKey is the Secret that describes a VPC.
func vpcSecretKey(object client.Object) []string {
	if name := vpcSecret(object.(*infrav1.CAPTCluster)); name != "" {
		return []string{object.GetNamespace() + "/" + name}
	}
	return nil
}

func references(object client.Object) []string {
	controlPlane := object.(*controlplanev1.CAPTControlPlane)
	refs := []infrav1.WorkspaceTemplateApplyReference{controlPlane.Spec.WorkspaceTemplateApplyRef}
	for i := range controlPlane.Spec.FargateProfiles {
		refs = append(refs, controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef)
	}
	return owner.References(object, refs...)
}

func secretKeys(object client.Object) []string {
	names := []string{naming.ControlPlaneConnectionSecret(object.GetName())}
	if cluster := object.GetLabels()[clusterv1.ClusterNameLabel]; cluster != "" {
		names = append(names, naming.KubeconfigSecret(cluster), naming.UserKubeconfigSecret(cluster))
	}
	for i := range names {
		names[i] = object.GetNamespace() + "/" + names[i]
	}
	return names
}

func ofCluster(_ context.Context, object client.Object) []ctrl.Request {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok || cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}}}
}

// ofInfrastructure reconciles the control plane that stands in a VPC.
func (r *Reconciler) ofInfrastructure(ctx context.Context, object client.Object) []ctrl.Request {
	cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, metav1.ObjectMeta{
		Namespace: object.GetNamespace(), OwnerReferences: object.GetOwnerReferences(),
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading the Cluster of a CAPTCluster to wake its control plane")
	}
	if err != nil || cluster == nil {
		return nil
	}
	return ofCluster(ctx, cluster)
}

// referringTo reconciles the control planes that refer to a WorkspaceTemplateApply. One that they do not control yet is no
// event of theirs otherwise.
func (r *Reconciler) referringTo(ctx context.Context, apply client.Object) []ctrl.Request {
	return r.requestsFor(ctx, all, owner.ReferringTo(apply))
}

func all(*controlplanev1.CAPTControlPlane) bool { return true }

func (r *Reconciler) ofSecret(ctx context.Context, object client.Object) []ctrl.Request {
	key := client.ObjectKeyFromObject(object).String()
	requests := r.requestsFor(ctx, all, client.MatchingFields{secretIndex: key})
	var applies infrav1.WorkspaceTemplateApplyList
	// The connection Secret of an adopted control plane has the name that its WorkspaceTemplateApply gives it.
	if err := r.Client.List(ctx, &applies, client.MatchingFields{owner.ConnectionIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing WorkspaceTemplateApplies to wake control planes")
		return requests
	}
	for i := range applies.Items {
		requests = append(requests, r.referringTo(ctx, &applies.Items[i])...)
	}
	var vpcs infrav1.CAPTClusterList
	if err := r.Client.List(ctx, &vpcs, client.MatchingFields{vpcSecretIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CAPTClusters to wake control planes")
		return requests
	}
	for i := range vpcs.Items {
		requests = append(requests, r.ofInfrastructure(ctx, &vpcs.Items[i])...)
	}
	return requests
}

// templateIndex finds the CAPTControlPlanes of a WorkspaceTemplate, by its namespace/name.
const templateIndex = "spec.workspaceTemplateRef"

func templateKeys(object client.Object) []string {
	spec := &object.(*controlplanev1.CAPTControlPlane).Spec
	keys := []string{spec.WorkspaceTemplateRef.Key(object.GetNamespace()).String()}
	for i := range spec.FargateProfiles {
		keys = append(keys, spec.FargateProfiles[i].WorkspaceTemplateRef.Key(object.GetNamespace()).String())
	}
	return keys
}

// ofTemplate reconciles the control planes that refer to a template.
func (r *Reconciler) ofTemplate(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, all, client.MatchingFields{templateIndex: client.ObjectKeyFromObject(object).String()})
}

// heldInNamespace reconciles those whose deletion waits for another deletion policy.
func (r *Reconciler) heldInNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, func(c *controlplanev1.CAPTControlPlane) bool {
		return capiconditions.GetReason(c, controlplanev1.DeletingCondition) == infrav1.DeletionPolicyConflictReason
	}, client.InNamespace(object.GetNamespace()))
}

func (r *Reconciler) requestsFor(ctx context.Context, counts func(*controlplanev1.CAPTControlPlane) bool, options ...client.ListOption) []ctrl.Request {
	var list controlplanev1.CAPTControlPlaneList
	// They are only looked at, so the cache need not copy them.
	if err := r.Client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing CAPTControlPlanes to wake")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(list.Items))
	for i := range list.Items {
		if counts(&list.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// withoutReference reconciles those that may have waited for a WorkspaceTemplateApply to go, about which a person had to decide.
func (r *Reconciler) withoutReference(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requestsFor(ctx, func(c *controlplanev1.CAPTControlPlane) bool { return waitsFor(c, object.GetName()) }, client.InNamespace(object.GetNamespace()))
}

// waitsFor tells whether a control plane may have waited for a WorkspaceTemplateApply to go: it refers to none, or to this one
// that it does not own, or has a Fargate profile that would be called so.
func waitsFor(controlPlane *controlplanev1.CAPTControlPlane, apply string) bool {
	cluster := controlPlane.Labels[clusterv1.ClusterNameLabel]
	refers := func(ref infrav1.WorkspaceTemplateApplyReference) bool { return ref.Name == apply }
	return !controlPlane.Spec.WorkspaceTemplateApplyRef.IsDefined() || refers(controlPlane.Spec.WorkspaceTemplateApplyRef) ||
		slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool {
			return refers(p.WorkspaceTemplateApplyRef) || naming.FargateWorkspaceTemplateApply(cluster, p.Name) == apply
		})
}
