// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package workspacetemplate checks WorkspaceTemplates, counts their users, delays the deletion of a template until it has no users, and rolls
// out its revisions in stages.
package workspacetemplate

import (
	"context"
	"maps"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/controllers/engine"
)

// Reconciler of WorkspaceTemplates.
type Reconciler struct {
	engine.Engine
	Clock clock.PassiveClock
	// DefaultRollout is the policy of templates without spec.rollout.
	DefaultRollout infrav1.WorkspaceTemplateRollout
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates/status,verbs=patch
// With OwnerReferencesPermissionEnforcement, an owner reference with blockOwnerDeletion requires the permission to change finalizers.
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates/finalizers,verbs=update
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Reconcile one WorkspaceTemplate.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.WorkspaceTemplate{}, engine.Phases[*infrav1.WorkspaceTemplate, Facts, Plan]{
		Observe:          r.observe,
		Plan:             plan,
		Act:              r.act,
		Status:           status,
		SummaryCondition: infrav1.ValidCondition,
		EventConditions:  []string{infrav1.ValidCondition, infrav1.RollingOutCondition, infrav1.DeletingCondition},
		IsWarning:        isWarning,
		Events:           stageEvents,
	})
}

// UserIndex finds the WorkspaceTemplateApplies of a template, by its namespace/name.
const UserIndex = "spec.templateRef"

// SetupWithManager registers the watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.WorkspaceTemplateApply{}, UserIndex, func(object client.Object) []string {
		return []string{object.(*infrav1.WorkspaceTemplateApply).TemplateKey().String()}
	})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.WorkspaceTemplate{}).
		Named("workspacetemplate").
		WithOptions(options).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, user client.Object) []ctrl.Request { return templateOf(user) }), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.Funcs{UpdateFunc: countLater}).
		Watches(&appsv1.ControllerRevision{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []ctrl.Request {
			return []ctrl.Request{{NamespacedName: rollout.TemplateOf(object)}}
		})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster), builder.WithPredicates(relabeled())).
		WatchesMetadata(engine.Metadata("Namespace"), handler.EnqueueRequestsFromMapFunc(r.ofNamespace), builder.WithPredicates(relabeled())).
		Complete(r)
}

// countingDelay limits how often users are counted while a change reaches them one after the other.
const countingDelay = time.Second

// countLater reconciles the template of a user that had another revision of it before, or for which Terraform began or ceased to fail. A new user changes
// no count. In a staged rollout, all that the rollout depends on matters; of a user without a revision, whether it may be assigned one.
func countLater(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	was, is := e.ObjectOld.(*infrav1.WorkspaceTemplateApply), e.ObjectNew.(*infrav1.WorkspaceTemplateApply)
	before, after := &was.Status, &is.Status
	failureChanged := (before.LastFailedRevision == "") != (after.LastFailedRevision == "")
	counts := before.TemplateRevision != "" && (before.TemplateRevision != after.TemplateRevision || failureChanged)
	wasUser, isUser := rollout.UserOf(was, nil), rollout.UserOf(is, nil)
	staged := (is.Spec.TemplateRevision != "" || after.Preview.Result != "" || wasUser.KeepsRevision() != isUser.KeepsRevision()) && rolloutChanged(wasUser, isUser)
	smaller := !maps.Equal(was.Annotations, is.Annotations) // It may have been too large for an assignment.
	if counts || staged || smaller {
		queue.AddAfter(ctrl.Request{NamespacedName: is.TemplateKey()}, countingDelay)
	}
}

// rolloutChanged reports whether something has changed that a rollout depends on. Each write changes the resource version.
func rolloutChanged(before, after rollout.User) bool {
	before.ResourceVersion = after.ResourceVersion
	return !reflect.DeepEqual(before, after)
}

// relabeled passes changes of labels: those of Clusters make them canaries, those of namespaces permit them to use a template.
func relabeled() predicate.Predicate {
	return predicate.And[client.Object](predicate.LabelChangedPredicate{}, predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false },
	})
}

func (r *Reconciler) ofCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	return r.usedBy(ctx, client.InNamespace(cluster.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()})
}

// ofNamespace reconciles the templates that objects of a namespace use, also those in deletion: without the permission, a user does not block it.
func (r *Reconciler) ofNamespace(ctx context.Context, namespace client.Object) []ctrl.Request {
	return r.usedBy(ctx, client.InNamespace(namespace.GetName()))
}

// usedBy returns requests for the templates of the WorkspaceTemplateApplies that a list with these options returns.
func (r *Reconciler) usedBy(ctx context.Context, options ...client.ListOption) []ctrl.Request {
	return engine.RequestsFor(ctx, r.Client, &infrav1.WorkspaceTemplateApplyList{}, templateOf, options...)
}

func templateOf(user client.Object) []ctrl.Request {
	return []ctrl.Request{{NamespacedName: user.(*infrav1.WorkspaceTemplateApply).TemplateKey()}}
}

// Action is what a reconcile does.
type Action string

const (
	// Observe: nothing to write.
	Observe Action = "Observe"
	// Hold: add the finalizer before the template can be used.
	Hold Action = "Hold"
	// Release: remove the finalizer.
	Release Action = "Release"
)

// Plan is the decision of a reconcile.
type Plan struct {
	Action Action
	// Staged is what the rollout does; nil without a staged one.
	Staged *stagedPlan
	// Unassign are the users that keep no revision of an earlier staged rollout.
	Unassign []types.NamespacedName
}

// plan decides what to do. It is pure.
func plan(template *infrav1.WorkspaceTemplate, f *Facts) (Plan, error) {
	p := Plan{Action: action(template, f)}
	switch {
	case f.Staged != nil:
		p.Staged = planStaged(template, f)
	case !f.Policy.IsStaged(): // A template that is being deleted keeps its users as they are.
		p.Unassign = f.Assigned
	}
	return p, nil
}

func action(template *infrav1.WorkspaceTemplate, f *Facts) Action {
	switch {
	case f.Block != nil:
		return Observe
	case template.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(template, infrav1.WorkspaceTemplateFinalizer):
		return Hold
	case !template.DeletionTimestamp.IsZero() && len(f.Users) == 0:
		return Release
	}
	return Observe
}

func (r *Reconciler) act(ctx context.Context, template *infrav1.WorkspaceTemplate, f *Facts, p Plan) error {
	err := engine.Patch(ctx, r.Client, template, func() {
		switch p.Action {
		case Hold:
			controllerutil.AddFinalizer(template, infrav1.WorkspaceTemplateFinalizer)
			removeFinalizers(template, f.Finalizers)
		case Release:
			controllerutil.RemoveFinalizer(template, infrav1.WorkspaceTemplateFinalizer)
			removeFinalizers(template, f.Finalizers)
		case Observe:
		}
	})
	if err != nil {
		return err
	}
	return r.rollOut(ctx, template, f, p)
}

func removeFinalizers(template *infrav1.WorkspaceTemplate, finalizers []string) {
	for _, finalizer := range finalizers {
		controllerutil.RemoveFinalizer(template, finalizer)
	}
}
