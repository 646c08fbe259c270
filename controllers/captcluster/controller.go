// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package captcluster provides the VPC of a Cluster: an existing one, or one that Terraform creates.
package captcluster

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/recovery"
)

// Reconciler of CAPTClusters.
type Reconciler struct{ owner.Reconciler }

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch

// Reconcile one CAPTCluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.CAPTCluster{}, engine.Phases[*infrav1.CAPTCluster, Facts, *owner.Plan]{
		Observe:   r.observe,
		Plan:      plan,
		Act:       engine.Finally(engine.Independent(r.reconcileVPC, r.reconcileRecovery), r.await),
		Status:    status,
		Situation: situation,
		Details:   details,
		EventConditions: []string{
			infrav1.ReadyCondition, infrav1.DegradedCondition, infrav1.RecoveringCondition, infrav1.VPCReplacedCondition, infrav1.DeletingCondition, infrav1.DeletionTimedOutCondition, engine.DecisionCondition,
			infrav1.FieldsConsumedCondition, infrav1.ClusterConflictCondition,
		},
		IsWarning: func(condition metav1.Condition) bool { return reasons.IsProblem(condition.Reason) },
		Events:    vpcEvents,
		OnDeleted: func(_ context.Context, key client.ObjectKey) error {
			r.Recovery.Forget("CAPTCluster", key)
			return nil
		},
	})
}

// RegisterIndexes adds the indexes of this controller to a cache.
func RegisterIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &infrav1.CAPTCluster{}, owner.ReferenceIndex, referenceKeys),
		indexer.IndexField(ctx, &infrav1.CAPTCluster{}, owner.TemplateIndex, templateKey),
		indexer.IndexField(ctx, &infrav1.CAPTCluster{}, owner.WaitIndex, owner.IndexWaits),
	)
}

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	scheme := mgr.GetScheme()
	if err := RegisterIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	toInfrastructure := util.ClusterToInfrastructureMapFunc(ctx, infrav1.GroupVersion.WithKind("CAPTCluster"), mgr.GetClient(), &infrav1.CAPTCluster{})
	control := r.NewController(ctx, mgr, &infrav1.CAPTCluster{}, options).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(toInfrastructure),
			builder.WithPredicates(predicates.Any(scheme, log, predicates.ClusterPausedTransitions(scheme, log), owner.EndpointChanged(), owner.ReferenceChanged())))
	return r.requests().Watch(r.Gate.Watch(control, &infrav1.CAPTCluster{})).Complete(r)
}

func (r *Reconciler) requests() owner.Requests {
	return owner.Requests{Client: r.Client, List: &infrav1.CAPTClusterList{}}
}

func templateKey(object client.Object) []string {
	template := object.(*infrav1.CAPTCluster).Spec.VPC.Template
	if !template.IsDefined() {
		return nil
	}
	return []string{template.Ref.Key(object.GetNamespace()).String()}
}

func referenceKeys(object client.Object) []string {
	refs := []infrav1.WorkspaceTemplateApplyReference{object.(*infrav1.CAPTCluster).Spec.WorkspaceTemplateApplyRef}
	if isReplaced(object) {
		refs = append(refs, infrav1.WorkspaceTemplateApplyReference{})
	}
	return owner.References(object, refs...)
}

// isReplaced reports whether a CAPTCluster keeps the ID of its first VPC until no control plane uses that.
func isReplaced(object client.Object) bool {
	return object.(*infrav1.CAPTCluster).Status.VPC.ReplacedBy != ""
}

// plan decides what to do. It is pure.
func plan(captCluster *infrav1.CAPTCluster, f *Facts) (*owner.Plan, error) {
	in := owner.PlanInput{Owner: ownerOf(captCluster), BlockDeletion: len(f.ControlPlanes) > 0}
	var vpc owner.Described
	if captCluster.Spec.VPC.Template.IsDefined() {
		vpc = &desired.VPC{CAPTCluster: captCluster, Cluster: f.Cluster, Existing: f.Apply.Existing(), Template: &f.Template, EKS: f.EKS, OtherClaims: f.OtherClaims}
	} else {
		in.Hold = f.Cluster != nil && !f.Apply.NeedsDecision()
	}
	p, err := f.Observed.Plan(in, vpc, infrav1.VPCReadyCondition)
	p.Recovery = f.Recover(&p, func() recovery.Failure { return p.Failing(f.timeout(captCluster)) }, p.Ready(), nil)
	return &p, err
}

func ownerOf(captCluster *infrav1.CAPTCluster) owner.Owner {
	return owner.Owner{
		Object: captCluster, Kind: infrav1.GroupVersion.WithKind("CAPTCluster"), Ref: &captCluster.Spec.WorkspaceTemplateApplyRef,
		Finalizer: infrav1.CAPTClusterFinalizer, FieldManager: naming.CAPTClusterFieldManager, Creates: "the VPC", Strategy: captCluster.Spec.Recovery, Timeouts: captCluster.Spec.Timeouts.WaitTimeouts,
	}
}

// reconcileVPC holds, provisions, destroys or releases the WorkspaceTemplateApply of the VPC.
func (r *Reconciler) reconcileVPC(ctx context.Context, _ *infrav1.CAPTCluster, _ *Facts, p *owner.Plan) error {
	return p.Act(ctx, r.Client, r.Uncached, nil)
}

func (r *Reconciler) reconcileRecovery(ctx context.Context, _ *infrav1.CAPTCluster, f *Facts, p *owner.Plan) error {
	return r.ReconcileRecovery(&f.Observed, p, func() (string, error) { return "", r.RunAgain(ctx, &p.Recovery, p.Live) })
}

// await repeats the reconcile while a template blocks that is not watched, and when something takes too long.
func (r *Reconciler) await(ctx context.Context, captCluster *infrav1.CAPTCluster, f *Facts, p *owner.Plan) error {
	if f.Paused == "" && captCluster.DeletionTimestamp.IsZero() {
		vpc := vpcReady(captCluster, f, p)
		r.AwaitTimeout(p, &f.Observed, f.timeoutOf(captCluster, p, &vpc), &vpc, wasProvisioned(captCluster))
	}
	return f.Await(ctx, p)
}
