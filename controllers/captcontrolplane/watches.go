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
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/fargate"
	"github.com/capt-provider/capt/controllers/graphreader"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/owner"
	applyindex "github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
)

const (
	// secretIndex finds CAPTControlPlanes by the Secrets that their kubeconfigs are made from and written to.
	secretIndex = "kubeconfigSecrets"
	// vpcSecretIndex finds CAPTClusters by the Secret that describes their VPC, which Fargate profiles wait for.
	vpcSecretIndex = "vpcSecret"
)

// Backoff after errors, if the manager creates tokens. Tokens are renewed at the latest 5.5 minutes before they expire; the backoff after
// other errors must not delay that.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log, scheme, indexer := ctrl.LoggerFrom(ctx), mgr.GetScheme(), mgr.GetFieldIndexer()
	if err := RegisterIndexes(ctx, indexer); err != nil {
		return err
	}
	control := ctrl.NewControllerManagedBy(mgr)
	if r.Tokens != nil {
		if err := indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, kubeconfigsecret.EKSIndex, kubeconfigsecret.IndexEKS); err != nil {
			return err
		}
		control.Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(kubeconfigsecret.OfSameCluster(r.Client)), builder.WithPredicates(owner.Deleted()))
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
	}
	if r.Probes != nil {
		control.WatchesRawSource(source.Channel(r.Probes.Changes(), &handler.EnqueueRequestForObject{}))
	}
	secrets := &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))

	control.
		For(&controlplanev1.CAPTControlPlane{}, builder.WithPredicates(
			predicates.ResourceHasFilterLabel(scheme, log, r.WatchFilterValue),
			predicates.ResourceIsNotExternallyManaged(scheme, log),
		)).
		Named("captcontrolplane").
		WithOptions(options).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.Any(scheme, log, predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(scheme, log), owner.EndpointChanged(),
				owner.ReferenceChanged(), owner.Updated(graphreader.StateChanged)))).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofInfrastructure)).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.ofApply), builder.WithPredicates(graphreader.Changed())).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate), builder.WithPredicates(graphreader.Changed())).
		WatchesMetadata(secrets, handler.EnqueueRequestsFromMapFunc(r.ofSecret),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}))
	return r.requests().Watch(control).Complete(r)
}

// RegisterIndexes adds the indexes of this controller to a cache.
func RegisterIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, secretIndex, secretKeys),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.TemplateIndex, templateKeys),
		indexer.IndexField(ctx, &infrav1.CAPTCluster{}, vpcSecretIndex, vpcSecretKey),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.ReferenceIndex, referenceKeys),
		indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, fargate.ControllerIndex, fargate.IndexController),
	)
}

// requests lists the CAPTControlPlanes to reconcile.
func (r *Reconciler) requests() owner.Requests {
	return owner.Requests{Client: r.Client, List: &controlplanev1.CAPTControlPlaneList{}, MayWaitFor: mayWaitFor}
}

// vpcSecretKey is the Secret that describes a VPC.
func vpcSecretKey(object client.Object) []string {
	if name := desired.VPCSecret(object.(*infrav1.CAPTCluster)); name != "" {
		return []string{object.GetNamespace() + "/" + name}
	}
	return nil
}

func referenceKeys(object client.Object) []string {
	controlPlane := object.(*controlplanev1.CAPTControlPlane)
	refs := []infrav1.WorkspaceTemplateApplyReference{controlPlane.Spec.WorkspaceTemplateApplyRef}
	for i := range controlPlane.Spec.FargateProfiles {
		refs = append(refs, controlPlane.Spec.FargateProfiles[i].WorkspaceTemplateApplyRef)
	}
	return owner.References(object, refs...)
}

// secretKeys are the Secrets that a control plane reads, as namespace/name.
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

// ofCluster returns a request for the control plane of a Cluster.
func ofCluster(_ context.Context, object client.Object) []ctrl.Request {
	cluster, ok := object.(*clusterv1.Cluster)
	if !ok || cluster.Spec.ControlPlaneRef.Kind != "CAPTControlPlane" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}}}
}

// ofInfrastructure returns requests for the control plane whose VPC a CAPTCluster provides.
func (r *Reconciler) ofInfrastructure(ctx context.Context, object client.Object) []ctrl.Request {
	cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, metav1.ObjectMeta{
		Namespace: object.GetNamespace(), OwnerReferences: object.GetOwnerReferences(),
	})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot read the Cluster of a CAPTCluster", "CAPTCluster", klog.KObj(object))
	}
	if err != nil || cluster == nil {
		return nil
	}
	return ofCluster(ctx, cluster)
}

// ofSecret returns requests for the control planes that read or write a Secret.
func (r *Reconciler) ofSecret(ctx context.Context, object client.Object) []ctrl.Request {
	key := client.ObjectKeyFromObject(object).String()
	requests := r.requests().Matching(ctx, nil, client.MatchingFields{secretIndex: key})
	var applies infrav1.WorkspaceTemplateApplyList
	// The WorkspaceTemplateApply of a control plane may give the connection Secret another name.
	if err := r.Client.List(ctx, &applies, client.MatchingFields{applyindex.ConnectionSecret: key}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the WorkspaceTemplateApplies of a Secret", "Secret", klog.KObj(object))
		return requests
	}
	for i := range applies.Items {
		requests = append(requests, r.requests().ReferringTo(ctx, &applies.Items[i])...)
	}
	var vpcs infrav1.CAPTClusterList
	if err := r.Client.List(ctx, &vpcs, client.MatchingFields{vpcSecretIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the CAPTClusters of a Secret", "Secret", klog.KObj(object))
		return requests
	}
	for i := range vpcs.Items {
		requests = append(requests, r.ofInfrastructure(ctx, &vpcs.Items[i])...)
	}
	waiting, err := r.graph().Waiting(ctx, object)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the WorkspaceTemplateApplies that wait for a Secret", "Secret", klog.KObj(object))
	}
	for _, apply := range waiting {
		requests = append(requests, r.ofApply(ctx, apply)...)
	}
	return requests
}

// ofApply returns requests for the control planes whose graph has a WorkspaceTemplateApply.
func (r *Reconciler) ofApply(ctx context.Context, object client.Object) (requests []ctrl.Request) {
	related, err := r.graph().Related(ctx, object.(*infrav1.WorkspaceTemplateApply))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the dependencies of a WorkspaceTemplateApply", "WorkspaceTemplateApply", klog.KObj(object))
	}
	for _, apply := range related {
		controller := metav1.GetControllerOf(apply)
		if controller == nil {
			continue
		}
		key := client.ObjectKey{Namespace: apply.Namespace, Name: controller.Name}
		switch controller.Kind {
		case "CAPTControlPlane":
			requests = append(requests, ctrl.Request{NamespacedName: key})
		case "CAPTCluster":
			captCluster, err := engine.Get(ctx, r.Client, key, &infrav1.CAPTCluster{})
			if err == nil && captCluster != nil {
				requests = append(requests, r.ofInfrastructure(ctx, captCluster)...)
			}
		}
	}
	return requests
}

// ofTemplate returns requests for the control planes whose graph has a WorkspaceTemplate.
func (r *Reconciler) ofTemplate(ctx context.Context, object client.Object) []ctrl.Request {
	requests := r.requests().UsingTemplate(ctx, object)
	users, err := r.graph().Using(ctx, object)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot list the WorkspaceTemplateApplies of a WorkspaceTemplate", "WorkspaceTemplate", klog.KObj(object))
	}
	for _, apply := range users {
		requests = append(requests, r.ofApply(ctx, apply)...)
	}
	return requests
}

// templateKeys are the templates that a control plane uses, as namespace/name.
func templateKeys(object client.Object) []string {
	spec := &object.(*controlplanev1.CAPTControlPlane).Spec
	keys := []string{spec.WorkspaceTemplateRef.Key(object.GetNamespace()).String()}
	for i := range spec.FargateProfiles {
		keys = append(keys, spec.FargateProfiles[i].WorkspaceTemplateRef.Key(object.GetNamespace()).String())
	}
	return keys
}

// mayWaitFor reports whether a control plane may wait until a WorkspaceTemplateApply is deleted: it refers to none, or to this one that
// it does not own, or has a Fargate profile that needs the name.
func mayWaitFor(object client.Object, apply string) bool {
	controlPlane := object.(*controlplanev1.CAPTControlPlane)
	cluster := controlPlane.Labels[clusterv1.ClusterNameLabel]
	refers := func(ref infrav1.WorkspaceTemplateApplyReference) bool { return ref.Name == apply }
	return !controlPlane.Spec.WorkspaceTemplateApplyRef.IsDefined() || refers(controlPlane.Spec.WorkspaceTemplateApplyRef) ||
		slices.ContainsFunc(controlPlane.Spec.FargateProfiles, func(p controlplanev1.FargateProfile) bool {
			return refers(p.WorkspaceTemplateApplyRef) || naming.FargateWorkspaceTemplateApply(cluster, p.Name) == apply
		})
}
