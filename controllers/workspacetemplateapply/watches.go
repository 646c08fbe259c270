// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/controllers/external"
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
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// Indexes over WorkspaceTemplateApplies.
const (
	workspaceNameIndex    = "spec.workspaceName"
	legacyNameIndex       = "metadata.name.legacyWorkspace"
	waitForSecretIndex    = "spec.waitForSecrets.name"
	waitForWorkspaceIndex = "spec.waitForWorkspaces.name"
)

// SetupWithManager registers indexes and watches. What a reconcile reads wakes it when it changes.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if err := index(ctx, mgr); err != nil {
		return err
	}
	log := ctrl.LoggerFrom(ctx)
	secrets := &metav1.PartialObjectMetadata{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	namespaces := &metav1.PartialObjectMetadata{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))

	definitions := &metav1.PartialObjectMetadata{}
	definitions.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))

	c, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplateApply{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Named("workspacetemplateapply").
		WithOptions(options).
		Watches(&infrav1.WorkspaceTemplate{}, handler.EnqueueRequestsFromMapFunc(r.ofTemplate), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.related)).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.ofSeries), builder.WithPredicates(membership())).
		WatchesRawSource(source.Func(r.woken)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		Watches(&infrav1.CAPTCluster{}, handler.EnqueueRequestsFromMapFunc(r.ofOwner), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&controlplanev1.CAPTControlPlane{}, handler.EnqueueRequestsFromMapFunc(r.ofOwner), builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesMetadata(secrets, r.wake(waitForSecretIndex, namespacedKey), builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesMetadata(namespaces, handler.EnqueueRequestsFromMapFunc(r.inNamespace), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesMetadata(definitions, handler.EnqueueRequestsFromMapFunc(r.ofDefinition), builder.WithPredicates(definitionMatters())).
		Build(r)
	if err != nil {
		return err
	}
	tracker := &external.ObjectTracker{Controller: syncing{c}, Cache: mgr.GetCache(), Scheme: mgr.GetScheme(), PredicateLogger: &log}
	var starting sync.Mutex // The tracker lets a second caller pass before the watch of the first is synced.
	r.Workspaces.Watch = func(ctx context.Context, scope terraform.Scope) error {
		starting.Lock()
		defer starting.Unlock()
		workspaces := &unstructured.Unstructured{}
		workspaces.SetGroupVersionKind(scope.GroupVersionKind())
		return tracker.Watch(ctrl.LoggerFrom(ctx), workspaces, handler.EnqueueRequestsFromMapFunc(r.ofWorkspace))
	}
	return nil
}

// syncTimeout is how long to wait for a new watch to be synced; it is tried again afterwards.
const syncTimeout = time.Minute

// syncing waits until a watch that is added to a running controller is synced. What is read before that can be gone before the watch
// sees it, and no event would ever report so.
type syncing struct{ controller.Controller }

// Watch adds a source and waits for it.
func (s syncing) Watch(src source.Source) error {
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

func index(ctx context.Context, mgr ctrl.Manager) error {
	for field, extract := range map[string]func(*infrav1.WorkspaceTemplateApply) []string{
		legacyNameIndex: func(a *infrav1.WorkspaceTemplateApply) []string {
			if a.Spec.WorkspaceName != "" {
				return nil
			}
			return []string{naming.LegacyWorkspace(a.Name)}
		},
		controllerIndex: func(a *infrav1.WorkspaceTemplateApply) []string {
			if controller := metav1.GetControllerOf(a); controller != nil {
				return []string{string(controller.UID)}
			}
			return nil
		},
		workspaceNameIndex: func(a *infrav1.WorkspaceTemplateApply) []string { return []string{a.Spec.WorkspaceName} },
		waitForSecretIndex: func(a *infrav1.WorkspaceTemplateApply) (keys []string) {
			for _, secret := range a.Spec.WaitForSecrets {
				keys = append(keys, a.Namespace+"/"+secret.Name)
			}
			return keys
		},
		// A Workspace without a namespace is found by its name alone.
		waitForWorkspaceIndex: func(a *infrav1.WorkspaceTemplateApply) (names []string) {
			for _, dependency := range a.Spec.WaitForWorkspaces {
				names = append(names, dependency.Name, a.DependencyKey(dependency).String())
			}
			return names
		},
	} {
		err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, field, func(object client.Object) []string {
			return extract(object.(*infrav1.WorkspaceTemplateApply))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func namespacedKey(object client.Object) string { return client.ObjectKeyFromObject(object).String() }

// wake reconciles the WorkspaceTemplateApplies that an index finds for an object.
func (r *Reconciler) wake(index string, key func(client.Object) string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, object client.Object) []ctrl.Request {
		return r.requests(ctx, client.MatchingFields{index: key(object)})
	})
}

// ofWorkspace reconciles the WorkspaceTemplateApply that owns a Workspace, and those that wait for it. Of a cluster-wide one
// the name is all there is: it can be anybody's.
func (r *Reconciler) ofWorkspace(ctx context.Context, object client.Object) []ctrl.Request {
	name, namespace := object.GetName(), object.GetNamespace()
	if namespace != "" {
		return append(r.requests(ctx, client.InNamespace(namespace), client.MatchingFields{workspaceNameIndex: name}),
			r.requests(ctx, client.MatchingFields{waitForWorkspaceIndex: namespacedKey(object)})...)
	}
	var requests []ctrl.Request
	for _, index := range []string{workspaceNameIndex, waitForWorkspaceIndex, legacyNameIndex} {
		requests = append(requests, r.requests(ctx, client.MatchingFields{index: name})...)
	}
	return requests
}

// ofTemplate reconciles the users of a template.
func (r *Reconciler) ofTemplate(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.MatchingFields{workspacetemplate.UserIndex: namespacedKey(object)})
}

// ofDefinition reconciles all that wait for a definition, or whose move depends on its labels; all there are, when it is going.
func (r *Reconciler) ofDefinition(ctx context.Context, definition client.Object) []ctrl.Request {
	movable := definition.GetName() == workspace.DefinitionOf(terraform.ScopeNamespaced)
	return r.requestsFor(ctx, func(apply *infrav1.WorkspaceTemplateApply) bool {
		return !definition.GetDeletionTimestamp().IsZero() ||
			movable && blocked(apply) && apply.Annotations[clusterctlv1.BlockMoveAnnotation] != untilByHand ||
			slices.ContainsFunc(apply.Status.Conditions, func(c metav1.Condition) bool { return c.Reason == infrav1.WorkspaceKindMissingReason })
	})
}

// definitionMatters passes what happens to the definitions of Workspaces and could change a decision: they come and go, and have
// labels for clusterctl. Whatever else is written to them would wake the whole fleet for nothing. Whether a version is served
// can not be told from a definition, so who waits for that looks by itself.
func definitionMatters() predicate.Predicate {
	goes := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() && !e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
	return predicate.And(predicate.NewPredicateFuncs(ofWorkspaces), predicate.Or[client.Object](predicate.LabelChangedPredicate{}, goes))
}

// ofWorkspaces tells the definition of a kind of Workspace from all others.
func ofWorkspaces(object client.Object) bool {
	for _, scope := range terraform.Scopes() {
		if object.GetName() == workspace.DefinitionOf(scope) {
			return true
		}
	}
	return false
}

// related reconciles those that wait for the Workspace of a WorkspaceTemplateApply, those that mean the same Workspace, and
// those it waits for itself, whose deletion waits for it.
func (r *Reconciler) related(ctx context.Context, object client.Object) []ctrl.Request {
	apply := object.(*infrav1.WorkspaceTemplateApply)
	var requests []ctrl.Request
	if name := apply.Spec.WorkspaceName; name != "" {
		key := client.ObjectKey{Namespace: apply.Namespace, Name: name}
		requests = append(r.requests(ctx, client.MatchingFields{waitForWorkspaceIndex: key.String()}),
			r.rivalsOf(ctx, apply)...)
	}
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		key := apply.DependencyKey(dependency)
		requests = append(requests, r.requests(ctx, client.InNamespace(key.Namespace), client.MatchingFields{workspaceNameIndex: key.Name})...)
	}
	return requests
}

// rivalsOf reconciles those that mean the same Workspace: those of the namespace, and of others unless one of the two is known
// to have a namespaced one. Fleets have the same names in every namespace, and are not to wake each other.
func (r *Reconciler) rivalsOf(ctx context.Context, apply *infrav1.WorkspaceTemplateApply) []ctrl.Request {
	options := []client.ListOption{client.MatchingFields{workspaceNameIndex: apply.Spec.WorkspaceName}}
	if namespaced(apply) {
		options = append(options, client.InNamespace(apply.Namespace))
	}
	return r.requestsFor(ctx, func(other *infrav1.WorkspaceTemplateApply) bool {
		return other.Namespace == apply.Namespace || !namespaced(other)
	}, options...)
}

// membership passes what can make a WorkspaceTemplateApply leave its series: it is gone, or has other labels, or is not this
// manager's any more.
func membership() predicate.Predicate {
	return predicate.Or[client.Object](predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{})
}

// ofSeries reconciles those that wait for their turn in the series of a WorkspaceTemplateApply.
func (r *Reconciler) ofSeries(_ context.Context, object client.Object) []ctrl.Request {
	s, member := seriesOf(object)
	if !member {
		return nil
	}
	var requests []ctrl.Request
	for _, key := range r.rota.waiting(s) {
		requests = append(requests, ctrl.Request{NamespacedName: key})
	}
	return requests
}

// woken is the source of those whose turn may have come. What frees a turn need not be an event: after a restart it is that the
// last of a series was looked at.
func (r *Reconciler) woken(_ context.Context, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
	r.rota.wakeWith(func(key client.ObjectKey) { queue.Add(ctrl.Request{NamespacedName: key}) })
	return nil
}

func (r *Reconciler) ofCluster(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.InNamespace(object.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetName()})
}

func (r *Reconciler) inNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	return r.requests(ctx, client.InNamespace(object.GetName()))
}

func (r *Reconciler) requests(ctx context.Context, options ...client.ListOption) []ctrl.Request {
	return r.requestsFor(ctx, func(*infrav1.WorkspaceTemplateApply) bool { return true }, options...)
}

func (r *Reconciler) requestsFor(ctx context.Context, counts func(*infrav1.WorkspaceTemplateApply) bool, options ...client.ListOption) []ctrl.Request {
	var applies infrav1.WorkspaceTemplateApplyList
	// They are only looked at, so the cache need not copy them.
	if err := r.Client.List(ctx, &applies, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing WorkspaceTemplateApplies to wake")
		return nil
	}
	requests := make([]ctrl.Request, 0, len(applies.Items))
	for i := range applies.Items {
		if counts(&applies.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&applies.Items[i])})
		}
	}
	return requests
}
