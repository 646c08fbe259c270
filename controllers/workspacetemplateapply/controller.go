// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspacetemplateapply reconciles WorkspaceTemplateApplies: each renders a WorkspaceTemplate to one Workspace, and reports its state.
package workspacetemplateapply

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/conditions"
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
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/metrics"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/index"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/serialize"
)

// Reconciler of WorkspaceTemplateApplies.
type Reconciler struct {
	engine.Engine
	Workspaces *workspace.Client
	Clock      clock.PassiveClock
	// RateLimiter limits updates of Workspaces.
	RateLimiter *serialize.RateLimiter
	// Unclaimed has the metric of Workspaces that the provider has not started to reconcile.
	Unclaimed *metrics.Unclaimed
	// Namespace is the only namespace in the cache; empty means all. Templates of other namespaces are read from the API server, and their
	// changes cause no reconciles.
	Namespace string
	// DefaultRollout is the policy of templates without spec.rollout.
	DefaultRollout infrav1.WorkspaceTemplateRollout
	// StatePrefix is part of the names of the Terraform states of new Workspaces.
	StatePrefix string
	// Plans reads what Terraform would change; nil if this manager does not read it.
	Plans previews.PlanReader
	// PlanMetrics may be nil.
	PlanMetrics *metrics.Plans
	// PlanCheckDelay is how long the last run of the provider must have been an apply until the same content is planned once more; zero means never.
	PlanCheckDelay time.Duration
	// ProveNew holds each new Workspace until a plan shows that Terraform would change no resource: its state exists.
	ProveNew bool

	serializer serialize.Serializer
	inputs     failedInputs
	slots      previews.Slots
	strays     sync.Map
	// taking serializes the creation of Workspaces for states that exist.
	taking sync.Mutex
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=planrequests,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=captclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=captcontrolplanes,verbs=get;list;watch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=workspaces,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=workspaces/status,verbs=patch
// +kubebuilder:rbac:groups=tf.upbound.io;tf.m.upbound.io,resources=providerconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=tf.m.upbound.io,resources=clusterproviderconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicybindings,verbs=list
// By this permission, policies and webhooks recognize the manager, whatever the name of its ServiceAccount.
// +kubebuilder:rbac:groups=capt.cluster.x-k8s.io,resources=guards,verbs=bypass

// Reconcile one WorkspaceTemplateApply.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.WorkspaceTemplateApply{}, engine.Phases[*infrav1.WorkspaceTemplateApply, Facts, Plan]{
		Observe: r.observe, Plan: plan, Act: r.act, Status: status, Situation: situation, OnDeleted: r.onDeleted,
		EventConditions: []string{
			infrav1.ReadyCondition, infrav1.DeletingCondition, engine.DecisionCondition, infrav1.WorkspaceConflictCondition,
			infrav1.PlanNeverEmptyCondition,
		},
		IsWarning: func(condition metav1.Condition) bool { return reasons.IsProblem(condition.Reason) },
	})
}

// CountPreviews returns how many objects have a preview, and how many wait for one to end.
func (r *Reconciler) CountPreviews() (running, waiting int) { return r.slots.Count() }

func (r *Reconciler) lastObserved(apply *infrav1.WorkspaceTemplateApply) *lastSeen {
	return engine.StateOf[lastSeen](r.State, client.ObjectKeyFromObject(apply))
}

// onDeleted is called for an object that no longer exists.
func (r *Reconciler) onDeleted(ctx context.Context, key client.ObjectKey) error {
	r.forget(key)
	return r.Workspaces.DeleteOrphanedPreviews(ctx, key)
}

// forget removes an object that no longer exists from its queues.
func (r *Reconciler) forget(key client.ObjectKey) {
	r.Unclaimed.Report(key, 0)
	r.serializer.Forget(key)
	r.inputs.Set(key, nil)
	r.slots.Release(key, r.Clock.Now())
	r.strays.Delete(key)
	r.RateLimiter.Cancel(key, r.Clock.Now())
}

// SetupWithManager registers indexes and watches: a change of anything that a reconcile reads causes another one.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index.Register(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	log := ctrl.LoggerFrom(ctx)
	c, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplateApply{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Named("workspacetemplateapply").
		WithOptions(options).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(r.ofRevision),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Watches(&appsv1.ControllerRevision{}, handler.Funcs{UpdateFunc: r.revisionChanged}).
		Watches(&infrav1.PlanRequest{}, handler.EnqueueRequestsFromMapFunc(r.ofRequest), builder.WithPredicates(opensOrEnds())).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.relatedApplies)).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.ofGroup), builder.WithPredicates(membershipChanged())).
		WatchesRawSource(source.Func(r.enqueueQueued)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofOwner), builder.WithPredicates(ownerChanged())).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.ofOwner), builder.WithPredicates(ownerChanged())).
		Watches(&infrav1.CAPTMachinePool{}, handler.EnqueueRequestsFromMapFunc(r.ofOwner), builder.WithPredicates(ownerChanged())).
		WatchesMetadata(engine.Metadata("Secret"), handler.EnqueueRequestsFromMapFunc(r.ofSecret), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesMetadata(engine.Metadata("Secret"), handler.EnqueueRequestsFromMapFunc(r.ofConnection), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: predicate.ResourceVersionChangedPredicate{}.Update,
		})).
		WatchesMetadata(engine.Metadata("Namespace"), handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesMetadata(engine.Metadata("CustomResourceDefinition"), handler.EnqueueRequestsFromMapFunc(r.ofDefinition), builder.WithPredicates(definitionChanged())).
		Build(r)
	if err != nil {
		return err
	}
	tracker := &external.ObjectTracker{Controller: syncedWatches{c}, Cache: mgr.GetCache(), Scheme: mgr.GetScheme(), PredicateLogger: &log}
	var starting sync.Mutex // The tracker does not make a second caller wait for the first.
	r.Workspaces.Watch = func(ctx context.Context, scope terraform.Scope) error {
		starting.Lock()
		defer starting.Unlock()
		workspaces := &unstructured.Unstructured{}
		workspaces.SetGroupVersionKind(scope.GroupVersionKind())
		return tracker.Watch(ctrl.LoggerFrom(ctx), workspaces, engine.EnqueueResults(workspace.HasResult, r.ofWorkspace))
	}
	r.Workspaces.WatchProviderConfigs = func(ctx context.Context, kind schema.GroupVersionKind) error {
		starting.Lock()
		defer starting.Unlock()
		configs := &unstructured.Unstructured{}
		configs.SetGroupVersionKind(kind)
		return tracker.Watch(ctrl.LoggerFrom(ctx), configs, handler.EnqueueRequestsFromMapFunc(r.ofInput), predicate.GenerationChangedPredicate{})
	}
	return nil
}

// syncTimeout limits how long a reconcile waits for a new watch; it is retried.
const syncTimeout = time.Minute

// syncedWatches waits for the initial sync of each watch that is added to the running controller. Otherwise, no event would report the deletion
// of an object that a reconcile read before the sync.
type syncedWatches struct{ controller.Controller }

// Watch adds a source and waits for it.
func (s syncedWatches) Watch(src source.Source) error {
	if err := s.Controller.Watch(src); err != nil {
		return err
	}
	waiting, ok := src.(source.SyncingSource)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), syncTimeout)
	defer cancel()
	return waiting.WaitForSync(ctx)
}

func namespacedKey(object client.Object) string { return client.ObjectKeyFromObject(object).String() }

// ofSecret reconciles the WorkspaceTemplateApplies that wait for a Secret.
func (r *Reconciler) ofSecret(ctx context.Context, secret client.Object) []ctrl.Request {
	return append(r.requests(ctx, client.MatchingFields{index.WaitForSecret: namespacedKey(secret)}), r.ofInput(ctx, secret)...)
}

// ofConnection reconciles the WorkspaceTemplateApplies whose connection Secret was changed or deleted.
func (r *Reconciler) ofConnection(ctx context.Context, secret client.Object) []ctrl.Request {
	return r.requests(ctx, client.MatchingFields{index.ConnectionSecret: namespacedKey(secret)})
}

// ofInput reconciles the WorkspaceTemplateApplies whose failed runs used an object.
func (r *Reconciler) ofInput(_ context.Context, object client.Object) []ctrl.Request {
	return requestsOf(r.inputs.Users(workspace.InputKey(object)))
}

func requestsOf(keys []client.ObjectKey) (requests []ctrl.Request) {
	for _, key := range keys {
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
}

// ofWorkspace reconciles the WorkspaceTemplateApply that owns a Workspace or would get one of this name, and those that wait for it. A cluster-wide one
// can belong to any namespace.
func (r *Reconciler) ofWorkspace(ctx context.Context, object client.Object) []ctrl.Request {
	if key, isPreview := workspace.ParsePreviewOf(object); isPreview {
		if r.Namespace != "" && key.Namespace != r.Namespace { // The cache cannot read it.
			return nil
		}
		apply := &infrav1.WorkspaceTemplateApply{}
		if err := r.Client.Get(ctx, key, apply); err == nil {
			r.previews().Report(object, apply)
		}
		return []ctrl.Request{{NamespacedName: key}}
	}
	name, namespace := object.GetName(), object.GetNamespace()
	options, waiting := []client.ListOption{}, name
	if namespace != "" {
		options, waiting = append(options, client.InNamespace(namespace)), namespacedKey(object)
	}
	requests := r.requests(ctx, client.MatchingFields{index.WaitForWorkspace: waiting})
	for _, field := range []string{index.WorkspaceName, index.DerivedName} {
		requests = append(requests, r.requests(ctx, append(options, client.MatchingFields{field: name})...)...)
	}
	return requests
}

func (r *Reconciler) ofTemplate(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.MatchingFields{workspacetemplate.UserIndex: namespacedKey(object)})
}

// ofRevision reconciles the users of a template that should run a revision, which may have been missing.
func (r *Reconciler) ofRevision(ctx context.Context, object client.Object) []ctrl.Request {
	return r.assignedTo(ctx, object, func(*infrav1.WorkspaceTemplateApply) bool { return true })
}

// revisionChanged reconciles the users that wait until their revision is rolled out or approved, as its annotations record.
func (r *Reconciler) revisionChanged(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	if maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) {
		return
	}
	for _, request := range r.assignedTo(ctx, e.ObjectNew, func(apply *infrav1.WorkspaceTemplateApply) bool { return apply.Status.WorkspaceRef == nil }) {
		queue.Add(request)
	}
}

// assignedTo returns requests for some of the users of a template that should run a revision.
func (r *Reconciler) assignedTo(ctx context.Context, revision client.Object, some func(*infrav1.WorkspaceTemplateApply) bool) []ctrl.Request {
	template := rollout.TemplateOf(revision)
	return r.requestsFor(ctx, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return some(apply) && slices.Contains(rollout.StoredAs(template, rollout.AssignedTo(apply)), client.ObjectKeyFromObject(revision))
	}, client.MatchingFields{workspacetemplate.UserIndex: template.String()})
}

// ofDefinition reconciles objects that wait for a definition, or whose move depends on its labels; all objects when it is deleted.
func (r *Reconciler) ofDefinition(ctx context.Context, definition client.Object) []ctrl.Request {
	movable := definition.GetName() == workspace.DefinitionOf(terraform.ScopeNamespaced)
	return r.requestsFor(ctx, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return !definition.GetDeletionTimestamp().IsZero() ||
			movable && blocksMove(apply) && apply.Annotations[clusterctlv1.BlockMoveAnnotation] != blockUntilManual ||
			slices.ContainsFunc(apply.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == infrav1.WorkspaceKindMissingReason })
	})
}

// definitionChanged passes creation, deletion and changed labels of the definitions of Workspaces. Other changes would reconcile the whole
// fleet for nothing.
func definitionChanged() predicate.Predicate {
	deleted := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
	return predicate.And(predicate.NewPredicateFuncs(func(object client.Object) bool {
		return slices.ContainsFunc(terraform.Scopes(), func(scope terraform.Scope) bool { return object.GetName() == workspace.DefinitionOf(scope) })
	}), predicate.Or[client.Object](predicate.LabelChangedPredicate{}, deleted))
}

// relatedApplies reconciles objects that wait for the Workspace or the connection Secret of a WorkspaceTemplateApply, those with the same
// Workspace, and those that it depends on, whose deletion waits for it.
func (r *Reconciler) relatedApplies(ctx context.Context, object client.Object) []ctrl.Request {
	apply := object.(*infrav1.WorkspaceTemplateApply)
	var requests []ctrl.Request
	if name := apply.Spec.WorkspaceName; name != "" {
		key := client.ObjectKey{Namespace: apply.Namespace, Name: name}
		requests = append(r.requests(ctx, client.MatchingFields{index.WaitForWorkspace: key.String()}),
			r.withSameWorkspace(ctx, apply)...)
	}
	if ref := apply.Spec.WriteConnectionSecretToRef; ref != nil { // Those that have the Secret do not depend on the state of its writer.
		requests = append(requests, r.requestsFor(ctx, func(waiting *infrav1.WorkspaceTemplateApply) bool {
			return len(waiting.Status.MissingDependencies) > 0
		}, client.MatchingFields{index.WaitForSecret: apply.Namespace + "/" + ref.Name})...)
	}
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		key := apply.DependencyKey(dependency)
		requests = append(requests, r.requests(ctx, client.InNamespace(key.Namespace), client.MatchingFields{index.WorkspaceName: key.Name})...)
	}
	return requests
}

// withSameWorkspace reconciles objects with the same Workspace: those of the namespace, and of others unless one of the two has a namespaced
// Workspace. Fleets have the same names in every namespace. An object that has not recorded the name of its Workspace has a conflict with those of
// other namespaces only if their cluster-wide Workspaces are recorded.
func (r *Reconciler) withSameWorkspace(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) []ctrl.Request {
	options := []client.ListOption{client.MatchingFields{index.WorkspaceName: apply.Spec.WorkspaceName}}
	if hasNamespacedWorkspace(apply) {
		options = append(options, client.InNamespace(apply.Namespace))
	}
	requests := r.requestsFor(ctx, func(other *infrav1.WorkspaceTemplateApply) bool {
		return other.Namespace == apply.Namespace || !hasNamespacedWorkspace(other)
	}, options...)
	options = []client.ListOption{client.MatchingFields{index.DerivedName: apply.Spec.WorkspaceName}}
	if apply.Status.WorkspaceRef == nil || hasNamespacedWorkspace(apply) {
		options = append(options, client.InNamespace(apply.Namespace))
	}
	return append(requests, r.requests(ctx, options...)...)
}

// membershipChanged passes events that may remove a WorkspaceTemplateApply from its group: deletion, other labels, or another manager.
func membershipChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// ofGroup reconciles the queued members of the group of a WorkspaceTemplateApply.
func (r *Reconciler) ofGroup(_ context.Context, object client.Object) []ctrl.Request {
	group, member := serialize.GroupOf(object)
	if !member {
		return nil
	}
	return requestsOf(r.serializer.Waiting(group))
}

// enqueueQueued is a source of requests for queued objects that may become active. After a restart, an object can become active without an event,
// as soon as the last member of its group was reconciled.
func (r *Reconciler) enqueueQueued(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	enqueue := func(key client.ObjectKey) { queue.Add(ctrl.Request{NamespacedName: key}) }
	r.serializer.EnqueueWith(enqueue)
	r.slots.EnqueueWith(enqueue)
	return nil
}

// ownerChanged passes changes of an owner that may pause or continue what it controls: of its annotations, of its protection from deletion, and
// of what its deletion waits for.
func ownerChanged() predicate.Predicate {
	type state struct {
		protected, continues bool
		waitsFor             string
	}
	stateOf := func(object client.Object) state {
		owner := object.(engine.Object)
		return state{desired.IsDeletionProtected(owner), engine.DeletionContinues(owner), conditions.GetReason(owner, infrav1.DeletingCondition)}
	}
	held := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return stateOf(e.ObjectOld) != stateOf(e.ObjectNew) }}
	return predicate.Or[client.Object](predicate.AnnotationChangedPredicate{}, held)
}

func (r *Reconciler) ofOwner(ctx context.Context, owner client.Object) []ctrl.Request {
	return r.requests(ctx, client.InNamespace(owner.GetNamespace()), client.MatchingFields{index.Controller: string(owner.GetUID())})
}

// ofCluster reconciles the WorkspaceTemplateApplies with the label of a Cluster.
func (r *Reconciler) ofCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.InNamespace(object.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetName()})
}

func (r *Reconciler) inNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.InNamespace(object.GetName()))
}

// requests returns requests for all WorkspaceTemplateApplies that a list with these options returns.
func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []ctrl.Request {
	return engine.Requests(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{}, nil, options...)
}

// requestsFor is requests for those that also match.
func (r *Reconciler) requestsFor(ctx context.Context, matches func(*infrav1.WorkspaceTemplateApply) bool, options ...client.ListOption) []ctrl.Request {
	return engine.Requests(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{}, func(object client.Object) bool { return matches(object.(*infrav1.WorkspaceTemplateApply)) }, options...)
}
