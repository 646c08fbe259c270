// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package captcontrolplane provides the EKS control plane of a Cluster, which Terraform creates: the WorkspaceTemplateApply, the
// endpoint, the kubeconfigs and the Fargate profiles.
package captcontrolplane

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
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
	"github.com/capt-provider/capt/controllers/health/probe"
	"github.com/capt-provider/capt/controllers/kubeconfig"
	"github.com/capt-provider/capt/controllers/kubeconfigsecret"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/owner"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	applyindex "github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
)

// Reconciler of CAPTControlPlanes.
type Reconciler struct {
	owner.Reconciler
	// Cache reads from the cache only: Secrets as metadata, which Client would read from the API server.
	Cache client.Reader
	// Tokens creates tokens for the kubeconfigs of clusters; nil when this manager creates none.
	Tokens kubeconfig.Tokens
	// Probes connect to the API servers; nil when this manager probes none.
	Probes *probe.Pool
	// FargateMetrics are the metrics of Fargate profiles.
	FargateMetrics *metrics.Fargate
	// Workspaces reads Workspaces for recovery.
	Workspaces Workspaces
	// Kubeconfigs has the metric of tokens.
	Kubeconfigs *metrics.Kubeconfigs
}

// Workspaces is what this controller needs of the port to Terraform.
type Workspaces interface {
	// NotFailing returns what shows that the Workspace of a WorkspaceTemplateApply does not fail any more, according to the API server; empty if nothing
	// does.
	NotFailing(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) (string, error)
}

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/status,verbs=patch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// The API server allows setting an owner reference again only to clients that may delete the Secret.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete

// Reconcile one CAPTControlPlane.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &controlplanev1.CAPTControlPlane{}, engine.Phases[*controlplanev1.CAPTControlPlane, Facts, *Plan]{
		Observe: r.observe,
		Plan:    plan,
		// Independent phases: an error of one must not prevent the renewal of a token or the reconciliation of profiles.
		Act: engine.Finally(
			engine.Independent(
				r.reconcileControlPlane,
				engine.InOrder(r.reconcileKubeconfig, r.publishEndpoint),
				r.reconcileFargateProfiles,
				r.reconcileProbes,
				r.reconcileRecovery,
			),
			r.await,
		),
		Status:    status,
		Situation: situation,
		Details:   details,
		EventConditions: []string{
			controlplanev1.InitializedCondition, controlplanev1.ReadyCondition, infrav1.DegradedCondition, controlplanev1.DependencyCycleCondition,
			infrav1.RecoveringCondition, infrav1.VPCReplacedCondition, infrav1.DeletingCondition, infrav1.DeletionTimedOutCondition, infrav1.FieldsConsumedCondition, infrav1.ClusterConflictCondition,
		},
		IsWarning: isWarning,
		Events:    fargate.Events,
		OnDeleted: func(_ context.Context, key client.ObjectKey) error {
			r.forget(key)
			return nil
		},
	})
}

// AddProbes makes the manager probe the API servers of control planes. It must be called before SetupWithManager.
func (r *Reconciler) AddProbes(mgr ctrl.Manager, m *metrics.Health) error {
	r.Probes = probe.NewPool(m, r.mustProbe)
	return mgr.Add(r.Probes)
}

// forget removes what this process has about an object that no longer exists.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.FargateMetrics.Forget(key)
	r.Recovery.Forget("CAPTControlPlane", key)
	r.Kubeconfigs.Report(key, time.Time{})
	if r.Probes != nil {
		r.Probes.Forget(key)
	}
}

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
	if r.Tokens != nil {
		options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
	}
	control := r.NewController(ctx, mgr, &controlplanev1.CAPTControlPlane{}, options)
	if r.Tokens != nil {
		control.Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(kubeconfigsecret.OfSameCluster(r.Client)), builder.WithPredicates(owner.Deleted()))
	}
	if r.Probes != nil {
		control.WatchesRawSource(source.Channel(r.Probes.Changes(), &handler.EnqueueRequestForObject{}))
	}
	control.
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.Any(scheme, log, predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(scheme, log), owner.EndpointChanged(),
				owner.ReferenceChanged(), owner.Updated(graphreader.StateChanged)))).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofInfrastructure)).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.ofMachinePool), builder.WithPredicates(predicate.Funcs{UpdateFunc: machinePoolChanged})).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.ofApply), builder.WithPredicates(graphreader.Changed())).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate), builder.WithPredicates(graphreader.Changed())).
		WatchesMetadata(engine.Metadata("Secret"), handler.EnqueueRequestsFromMapFunc(r.ofSecret),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{}))
	return r.requests().Watch(control).Complete(r)
}

// RegisterIndexes adds the indexes of this controller to a cache.
func RegisterIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, secretIndex, secretKeys),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.TemplateIndex, templateKeys),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.EKSNameIndex, owner.IndexEKSName),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.WaitIndex, owner.IndexWaits),
		indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, owner.EKSIndex, owner.IndexEKS),
		indexer.IndexField(ctx, &infrav1.CAPTCluster{}, vpcSecretIndex, vpcSecretKey),
		indexer.IndexField(ctx, &controlplanev1.CAPTControlPlane{}, owner.ReferenceIndex, referenceKeys),
		indexer.IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, fargate.ControllerIndex, fargate.IndexController),
	)
}

func (r *Reconciler) requests() owner.Requests {
	return owner.Requests{Client: r.Client, List: &controlplanev1.CAPTControlPlaneList{}}
}

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
		profile := &controlPlane.Spec.FargateProfiles[i]
		derived := naming.FargateWorkspaceTemplateApply(controlPlane.Labels[clusterv1.ClusterNameLabel], profile.Name)
		refs = append(refs, infrav1.WorkspaceTemplateApplyReference{Name: derived})
		if profile.WorkspaceTemplateApplyRef.IsDefined() && profile.WorkspaceTemplateApplyRef.Name != derived {
			refs = append(refs, profile.WorkspaceTemplateApplyRef)
		}
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

// ofInfrastructure returns requests for the control plane whose VPC a CAPTCluster provides.
func (r *Reconciler) ofInfrastructure(ctx context.Context, object client.Object) []ctrl.Request {
	cluster, err := engine.OwnerCluster(ctx, r.Client, r.Uncached, object)
	return ofFound(ctx, object, cluster, err)
}

// ofFound returns requests for the control plane of the Cluster of an object; nil if there is none.
func ofFound(ctx context.Context, object client.Object, cluster *clusterv1.Cluster, err error) []ctrl.Request {
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot read the Cluster of an object", "object", klog.KObj(object))
	}
	if err != nil || cluster == nil {
		return nil
	}
	return ofCluster(ctx, cluster)
}

// ofMachinePool returns requests for the control plane of the Cluster of a CAPTMachinePool.
func (r *Reconciler) ofMachinePool(ctx context.Context, object client.Object) []ctrl.Request {
	cluster, err := engine.LabeledCluster(ctx, r.Client, r.Uncached, object)
	return ofFound(ctx, object, cluster, err)
}

// machinePoolChanged reports whether what the graph has of a machine pool changed, its Cluster, or the version of its nodes, which can block that of the
// control plane.
func machinePoolChanged(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*infrav1.CAPTMachinePool), e.ObjectNew.(*infrav1.CAPTMachinePool)
	return before.Status.Version != after.Status.Version || before.Labels[clusterv1.ClusterNameLabel] != after.Labels[clusterv1.ClusterNameLabel] ||
		graphreader.StateChanged(before, after)
}

// ofSecret returns requests for the control planes that read or write a Secret, or wait for one. The WorkspaceTemplateApply of a control plane may give
// the connection Secret another name.
func (r *Reconciler) ofSecret(ctx context.Context, object client.Object) []ctrl.Request {
	key := client.ObjectKeyFromObject(object).String()
	return slices.Concat(
		r.requests().Matching(ctx, nil, client.MatchingFields{secretIndex: key}),
		engine.RequestsFor(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{}, func(writer client.Object) []ctrl.Request {
			return r.requests().ReferringTo(ctx, writer)
		}, client.MatchingFields{applyindex.ConnectionSecret: key}),
		engine.RequestsFor(ctx, r.Client, &infrav1.CAPTClusterList{}, func(vpc client.Object) []ctrl.Request {
			return r.ofInfrastructure(ctx, vpc)
		}, client.MatchingFields{vpcSecretIndex: key}),
		r.ofApplies(ctx, client.MatchingFields{applyindex.WaitForSecret: key}),
	)
}

// ofApplies returns requests for the control planes whose graphs have the WorkspaceTemplateApplies that a list with these options returns.
func (r *Reconciler) ofApplies(ctx context.Context, options ...client.ListOption) []ctrl.Request {
	return engine.RequestsFor(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{}, func(apply client.Object) []ctrl.Request { return r.ofApply(ctx, apply) }, options...)
}

// ofAddOn returns the request for the control plane of the Cluster whose label a WorkspaceTemplateApply has.
func (r *Reconciler) ofAddOn(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) []ctrl.Request {
	key := client.ObjectKey{Namespace: apply.Namespace, Name: apply.Labels[clusterv1.ClusterNameLabel]}
	if key.Name == "" {
		return nil
	}
	cluster, err := engine.Get(ctx, r.Client, key, &clusterv1.Cluster{})
	if err != nil || cluster == nil {
		return nil
	}
	return ofCluster(ctx, cluster)
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
			requests = append(requests, r.ofAddOn(ctx, apply)...)
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
	users := r.ofApplies(ctx, client.MatchingFields{workspacetemplate.UserIndex: client.ObjectKeyFromObject(object).String()})
	return append(r.requests().UsingTemplate(ctx, object), users...)
}

func templateKeys(object client.Object) []string {
	spec := &object.(*controlplanev1.CAPTControlPlane).Spec
	keys := []string{spec.WorkspaceTemplateRef.Key(object.GetNamespace()).String()}
	for i := range spec.FargateProfiles {
		keys = append(keys, spec.FargateProfiles[i].WorkspaceTemplateRef.Key(object.GetNamespace()).String())
	}
	return keys
}
