// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package captmachinepool provides the EKS node groups of Clusters: Terraform creates them, and their nodes are read from the clusters themselves.
package captmachinepool

import (
	"context"
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/captmachinepool/nodes"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
)

// Reconciler of CAPTMachinePools.
type Reconciler struct {
	owner.Reconciler
	// Nodes watches the nodes of clusters; nil when this manager connects to none.
	Nodes *nodes.Watcher
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captmachinepools/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinepools,verbs=get;list;watch;patch

// Reconcile one CAPTMachinePool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.CAPTMachinePool{}, engine.Phases[*infrav1.CAPTMachinePool, Facts, *owner.Plan]{
		Observe: r.observe,
		Plan:    plan,
		Act: engine.Finally(engine.Independent(
			r.reconcileNodeGroup, engine.InOrder(r.reconcileNodes, r.publishNodes, r.reportReplicas), r.reconcileRecovery,
		), r.await),
		Status:  status,
		Details: details,
		EventConditions: []string{
			infrav1.ReadyCondition, infrav1.DegradedCondition, infrav1.RecoveringCondition, infrav1.NodesKnownCondition, infrav1.ReplicasOutOfBoundsCondition, infrav1.DeletingCondition, infrav1.DeletionTimedOutCondition, infrav1.KubeletVersionsDifferCondition,
			engine.DecisionCondition, infrav1.FieldsConsumedCondition,
		},
		IsWarning: isWarning,
		OnDeleted: func(_ context.Context, key client.ObjectKey) error {
			r.releaseNodes(key)
			r.Recovery.Forget("CAPTMachinePool", key)
			return nil
		},
	})
}

func isWarning(condition metav1.Condition) bool { return reasons.IsProblem(condition.Reason) }

// RegisterIndexes adds the indexes of this controller to a cache.
func RegisterIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &infrav1.CAPTMachinePool{}, owner.ReferenceIndex, func(object client.Object) []string {
			return owner.References(object, object.(*infrav1.CAPTMachinePool).Spec.WorkspaceTemplateApplyRef)
		}),
		indexer.IndexField(ctx, &infrav1.CAPTMachinePool{}, owner.TemplateIndex, func(object client.Object) []string {
			return []string{object.(*infrav1.CAPTMachinePool).Spec.WorkspaceTemplateRef.Key(object.GetNamespace()).String()}
		}),
		indexer.IndexField(ctx, &infrav1.CAPTMachinePool{}, owner.WaitIndex, owner.IndexWaits),
	)
}

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log, scheme := ctrl.LoggerFrom(ctx), mgr.GetScheme()
	if err := RegisterIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	control := r.NewController(ctx, mgr, &infrav1.CAPTMachinePool{}, options).
		Watches(&clusterv1.MachinePool{}, handler.EnqueueRequestsFromMapFunc(ofMachinePool),
			builder.WithPredicates(predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.requests().Awaiting(owner.AwaitsNodeGroupName)), builder.WithPredicates(owner.Deleted())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(predicates.Any(scheme, log, predicates.ClusterPausedTransitions(scheme, log), owner.ReferenceChanged()))).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.ofControlPlane), builder.WithPredicates(controlPlaneChanged())).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofControlPlane), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	if r.Nodes != nil {
		control.WatchesRawSource(source.Channel(r.Nodes.Changes(), handler.EnqueueRequestsFromMapFunc(r.ofCluster))).
			WatchesMetadata(engine.Metadata("Secret"), handler.EnqueueRequestsFromMapFunc(r.ofSecret), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}))
	}
	return r.requests().Watch(control).Complete(r)
}

func (r *Reconciler) requests() owner.Requests {
	return owner.Requests{Client: r.Client, List: &infrav1.CAPTMachinePoolList{}}
}

func ofMachinePool(_ context.Context, object client.Object) []ctrl.Request {
	name := claim.PoolOf(object.(*clusterv1.MachinePool))
	if name == "" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: object.GetNamespace(), Name: name}}}
}

func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return r.ofClusterNamed(ctx, cluster.GetNamespace(), cluster.GetName())
}

func (r *Reconciler) ofClusterNamed(ctx context.Context, namespace, name string) []ctrl.Request {
	return r.requests().Matching(ctx, nil, client.InNamespace(namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})
}

// ofControlPlane returns requests for the pools of the Cluster of a CAPTControlPlane or a CAPTCluster.
func (r *Reconciler) ofControlPlane(ctx context.Context, object client.Object) []ctrl.Request {
	return r.ofClusterNamed(ctx, object.GetNamespace(), claim.ClusterName(object))
}

// ofSecret returns requests for the pools of the Cluster whose kubeconfig a Secret has.
func (r *Reconciler) ofSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	cluster, found := strings.CutSuffix(secret.GetName(), naming.KubeconfigSecret(""))
	if !found {
		return nil
	}
	return r.ofClusterNamed(ctx, secret.GetNamespace(), cluster)
}

// controlPlaneChanged passes a control plane when something in its status changes that pools wait for. owner.Requests passes other changes.
func controlPlaneChanged() predicate.Funcs {
	return owner.Updated(func(before, after client.Object) bool {
		was, is := before.(*controlplanev1.CAPTControlPlane), after.(*controlplanev1.CAPTControlPlane)
		return was.Status.Version != is.Status.Version ||
			(was.Status.Initialization.ControlPlaneInitialized == nil) != (is.Status.Initialization.ControlPlaneInitialized == nil) ||
			(was.Status.State == infrav1.StateFailed) != (is.Status.State == infrav1.StateFailed)
	})
}
