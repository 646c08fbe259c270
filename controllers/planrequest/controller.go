// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planrequest counts the results of PlanRequests, and deletes those that are complete. The controller of WorkspaceTemplateApplies makes the plans.
package planrequest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/plans"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/controllers/workspacetemplate"
)

// maxAge is how long a PlanRequest waits for plans: an object may have no manager that reconciles it.
const maxAge = 24 * time.Hour

// Reconciler of PlanRequests.
type Reconciler struct {
	engine.Engine
	Clock clock.PassiveClock
}

// Facts are what a reconcile observed.
type Facts struct {
	Now      time.Time
	Progress plans.Progress
}

// Plan is what a reconcile does.
type Plan struct {
	// Delete is true when the object is no longer needed; After is when to decide again.
	Delete bool
	After  time.Duration
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=planrequests,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=planrequests/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplateapplies,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=workspacetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch

// Reconcile one PlanRequest.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	return engine.Run(ctx, r.Engine, req, &infrav1.PlanRequest{}, engine.Phases[*infrav1.PlanRequest, Facts, Plan]{
		Observe: r.observe, Plan: plan, Act: r.act, Status: status, SummaryCondition: infrav1.CompleteCondition,
	})
}

// SetupWithManager registers the watches. The indexes are those of the controllers of WorkspaceTemplates and WorkspaceTemplateApplies.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.PlanRequest{}).
		Named("planrequest").
		WithOptions(options).
		Watches(&infrav1.WorkspaceTemplateApply{}, handler.EnqueueRequestsFromMapFunc(r.ofApply), builder.WithPredicates(counts())).
		Complete(r)
}

// counts passes what changes the result of a WorkspaceTemplateApply.
func counts() predicate.Predicate {
	planned := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*infrav1.WorkspaceTemplateApply), e.ObjectNew.(*infrav1.WorkspaceTemplateApply)
		return !reflect.DeepEqual(was.Status.Plans, is.Status.Plans) || was.DeletionTimestamp.IsZero() != is.DeletionTimestamp.IsZero()
	}}
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, planned)
}

func (r *Reconciler) ofApply(ctx context.Context, object client.Object) (requests []ctrl.Request) {
	for _, key := range plans.KeysFor(object.(*infrav1.WorkspaceTemplateApply)) {
		requests = append(requests, engine.Requests(ctx, r.Client, &infrav1.PlanRequestList{}, func(request client.Object) bool {
			return !request.(*infrav1.PlanRequest).IsComplete()
		}, client.MatchingFields{plans.Index: key})...)
	}
	return requests
}

func (r *Reconciler) observe(ctx context.Context, request *infrav1.PlanRequest, _ engine.GateDecision) (*Facts, error) {
	f := &Facts{Now: r.Clock.Now()}
	if request.IsComplete() {
		return f, nil
	}
	applies, err := r.applies(ctx, request)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for i := range applies {
		found[applies[i].Name] = true
		blocked := ""
		if block := r.Gate.BlockOf(&applies[i]); block != nil {
			blocked = block.Message
		}
		f.Progress.Add(request, &applies[i], blocked)
	}
	for _, name := range request.Spec.WorkspaceTemplateApplies {
		if !found[name] {
			f.Progress.AddMissing(request, name)
		}
	}
	if f.Now.Sub(request.CreationTimestamp.Time) >= maxAge {
		f.Progress.Expire(request)
	}
	return f, nil
}

// applies returns what a PlanRequest is about, sorted. Users of a template that it does not permit are not counted.
func (r *Reconciler) applies(ctx context.Context, request *infrav1.PlanRequest) ([]infrav1.WorkspaceTemplateApply, error) {
	options, template := client.ListOption(client.InNamespace(request.Namespace)), (*infrav1.WorkspaceTemplate)(nil)
	if key := request.TemplateKey(); key.Name != "" {
		var err error
		if template, err = engine.Get(ctx, r.Client, key, &infrav1.WorkspaceTemplate{}); err != nil || template == nil {
			return nil, err
		}
		options = client.MatchingFields{workspacetemplate.UserIndex: key.String()}
	}
	var list infrav1.WorkspaceTemplateApplyList
	if err := r.Client.List(ctx, &list, options, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WorkspaceTemplateApplies: %w", err)
	}
	var applies []infrav1.WorkspaceTemplateApply
	for i := range list.Items {
		counts, err := r.isCounted(ctx, request, template, &list.Items[i])
		if err != nil {
			return nil, err
		}
		if counts {
			applies = append(applies, list.Items[i])
		}
	}
	return applies, nil
}

func (r *Reconciler) isCounted(ctx context.Context, request *infrav1.PlanRequest, template *infrav1.WorkspaceTemplate, apply *infrav1.WorkspaceTemplateApply) (bool, error) {
	if template == nil {
		return request.Spec.Scope == infrav1.PlanScopeNamespace || slices.Contains(request.Spec.WorkspaceTemplateApplies, apply.Name), nil
	}
	permitted, err := validation.PermitsNamespace(template, apply.Namespace, func() (labels.Set, error) { return engine.NamespaceLabels(ctx, r.Client, apply.Namespace) })
	if err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", apply.Namespace, err)
	}
	return permitted, nil
}

// plan is pure.
func plan(request *infrav1.PlanRequest, f *Facts) (Plan, error) {
	after := request.CreationTimestamp.Add(maxAge).Sub(f.Now)
	if request.IsComplete() {
		after = request.Status.CompletionTime.Add(request.TTL()).Sub(f.Now)
	}
	return Plan{Delete: request.IsComplete() && after <= 0, After: max(after, 0)}, nil
}

func (r *Reconciler) act(ctx context.Context, request *infrav1.PlanRequest, _ *Facts, p Plan) error {
	switch {
	case p.Delete:
		return client.IgnoreNotFound(r.Client.Delete(ctx, request, client.Preconditions{UID: &request.UID}))
	case p.After > 0:
		return engine.Wait("the end of the request", p.After)
	}
	return nil
}

// status computes the status. A complete request keeps its status.
func status(request *infrav1.PlanRequest, f *Facts, _ Plan) {
	if request.IsComplete() {
		return
	}
	s, p := &request.Status, &f.Progress
	s.ObservedGeneration = request.Generation
	for field, count := range map[**int32]int{
		&s.Total: p.Total, &s.Planned: p.Planned, &s.Changed: len(p.Changed), &s.Unknown: len(p.Unknown), &s.Failed: len(p.Failed), &s.Unavailable: len(p.Unavailable),
	} {
		*field = ptr.To(int32(count)) //nolint:gosec // No cluster holds 2^31 objects.
	}
	complete := engine.False(infrav1.CompleteCondition, p.Reason(), p.Message())
	if len(p.Pending) == 0 {
		complete = engine.True(infrav1.CompleteCondition, p.Reason(), p.Message())
		s.CompletionTime = ptr.To(metav1.NewTime(f.Now))
	}
	engine.Set(request, complete)
}
