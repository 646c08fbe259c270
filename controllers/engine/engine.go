// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine is the reconcile loop that all kinds share: observe, plan, act, compute the status, write it once. A kind provides the
// phases; this package runs them in order, writes the status, sends the events and converts errors to results.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	clusterlabels "sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/controllers/metrics"
)

// Object is a custom resource with conditions.
type Object interface {
	client.Object
	conditions.Setter
}

// Phases are the parts of a reconcile that differ between kinds. F are the facts that one reconcile observed, P is the plan made from them.
type Phases[O Object, F, P any] struct {
	// Observe reads from the API what the plan needs. It decides and writes nothing.
	Observe func(ctx context.Context, obj O, v GateDecision) (*F, error)
	// Plan decides what to do. It is pure, and called once.
	Plan func(obj O, facts *F) (P, error)
	// Act carries the plan out, and adds the results of its writes to the facts. It may end with Wait.
	Act Phase[O, F, P]
	// Status computes the status of obj from facts and plan. It is pure.
	Status func(obj O, facts *F, plan P)
	// Situation decides whether a GateDecision keeps the status. It is pure; nil for kinds whose status is always computed.
	Situation func(obj O, facts *F, plan P) Situation
	// Details restores in after, which is a copy, what may be written later, and returns how much later: a write that only changes such
	// details waits for the next one for this long. It is pure; nil if nothing may wait.
	Details func(before, after O, facts *F) time.Duration
	// SummaryCondition is the condition that shows a refused write; Ready when it is empty.
	SummaryCondition string
	// EventConditions lists the conditions whose transitions become events, in this order.
	EventConditions []string
	// IsWarning reports whether the transition of a condition is a warning; others are normal events.
	IsWarning func(condition metav1.Condition) bool
	// Events returns events about parts of an object whose status changed. They follow those of the conditions; it may be nil.
	Events func(before, after O) []Event
	// OnDeleted is called for objects that no longer exist; it may be nil.
	OnDeleted func(ctx context.Context, key client.ObjectKey) error
}

// Phase is one step of Act.
type Phase[O Object, F, P any] func(ctx context.Context, obj O, facts *F, plan P) error

// InOrder runs phases until one fails.
func InOrder[O Object, F, P any](phases ...Phase[O, F, P]) Phase[O, F, P] {
	return func(ctx context.Context, obj O, facts *F, plan P) error {
		for _, phase := range phases {
			if err := phase(ctx, obj, facts, plan); err != nil {
				return err
			}
		}
		return nil
	}
}

// Independent runs all phases in order, and joins their errors. An error does not stop the phases that follow, unless it is that the object
// was deleted.
func Independent[O Object, F, P any](phases ...Phase[O, F, P]) Phase[O, F, P] {
	return func(ctx context.Context, obj O, facts *F, plan P) error {
		var errs []error
		for _, phase := range phases {
			err := phase(ctx, obj, facts, plan)
			errs = append(errs, err)
			if errors.Is(err, errDeleted) {
				break
			}
		}
		return errors.Join(errs...)
	}
}

// Finally runs a phase, and then another one even if the first has failed, unless the object was deleted: clocks do not stop while writes fail.
func Finally[O Object, F, P any](phase, last Phase[O, F, P]) Phase[O, F, P] {
	return func(ctx context.Context, obj O, facts *F, plan P) error {
		err := phase(ctx, obj, facts, plan)
		switch {
		case errors.Is(err, errDeleted):
			return err
		case err == nil:
			return last(ctx, obj, facts, plan)
		}
		return errors.Join(err, last(ctx, obj, facts, plan))
	}
}

// Event is an event that is sent after the status was written.
type Event struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason and Action are CamelCase, and required by the API server.
	Reason, Action string
	// Message is truncated to the limit of events.
	Message string
	// Related is another object, or a *corev1.ObjectReference to a part of this one. The recorder merges events that differ in
	// their message alone, and keeps the first message.
	Related runtime.Object
}

// Engine runs reconciles.
type Engine struct {
	Client   client.Client
	Recorder events.EventRecorder
	// WatchFilterValue restricts the engine to objects with that value of Cluster API's watch label. Predicates on the
	// objects themselves are not enough, because events of other objects cause reconciles, too.
	WatchFilterValue string
	// State has what this process last observed of each object.
	State *StateCache
	// Uncached reads from the API server what may forbid a deletion; nil in tests of one controller.
	Uncached client.Reader
	// Secrets reads Secrets.
	Secrets *Secrets
	// Gate is asked before an object is observed.
	Gate Gate
	// Metrics of reconciles; nil records none.
	Metrics *metrics.Reconciles
}

// Run runs the phases for the object of a request. Status is written at most once, and only when it changed; events follow it.
func Run[O Object, F, P any](ctx context.Context, e Engine, req ctrl.Request, obj O, phases Phases[O, F, P]) (ctrl.Result, error) {
	if err := e.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if Absent(err) {
			e.Metrics.Deleted(obj, req.NamespacedName, e.State.Now())
			e.State.Forget(req.NamespacedName)
			if phases.OnDeleted != nil {
				return resultOf(ctx, phases.OnDeleted(ctx, req.NamespacedName))
			}
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !e.Watches(obj) {
		return ctrl.Result{}, nil // Another manager reconciles it.
	}
	if e.State.CacheIsStale(obj) {
		// The event of this process's last write will cause a reconcile. After a restore of etcd from a backup, resource versions are lower
		// and there is no such event.
		return ctrl.Result{RequeueAfter: staleCacheTimeout}, nil
	}
	defer func() { e.State.Record(obj) }()
	e.Metrics.Observe(obj, e.State.Now())
	if cluster := obj.GetLabels()[clusterv1.ClusterNameLabel]; cluster != "" {
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(obj.GetNamespace(), cluster)))
	}
	held, wait, err := e.deletionHeld(ctx, obj)
	switch {
	case err != nil:
		reportFailure(ctx, e, obj, err, phases)
	case held != nil:
		err = holdDeletion(ctx, e, obj, held, wait, phases)
	default:
		err = runPhases(ctx, e, obj, phases)
	}
	return e.outcome(ctx, req.NamespacedName, err)
}

// Watches reports whether this manager reconciles an object.
func (e Engine) Watches(obj client.Object) bool {
	return (e.WatchFilterValue == "" || clusterlabels.HasWatchLabel(obj, e.WatchFilterValue)) && !annotations.IsExternallyManaged(obj)
}

// runPhases observes, plans, acts, and writes the status.
func runPhases[O Object, F, P any](ctx context.Context, e Engine, obj O, phases Phases[O, F, P]) error {
	decision, err := e.Gate.Check(ctx, obj)
	var facts *F
	if err == nil {
		facts, err = phases.Observe(ctx, obj, decision)
	}
	if err != nil {
		err = fmt.Errorf("observing: %w", err)
		reportFailure(ctx, e, obj, err, phases)
		return err
	}
	plan, err := phases.Plan(obj, facts)
	if err != nil {
		err = fmt.Errorf("planning: %w", err)
		reportFailure(ctx, e, obj, err, phases)
		return err
	}
	actErr := phases.Act(ctx, obj, facts, plan)
	if !obj.GetDeletionTimestamp().IsZero() && len(obj.GetFinalizers()) == 0 { // The API server deleted it, because its last finalizer was removed.
		return actErr
	}
	if stale := (*staleError)(nil); errors.As(actErr, &stale) {
		return actErr
	}
	before := obj.DeepCopyObject().(O)
	situation := Situation{}
	if phases.Situation != nil {
		situation = phases.Situation(obj, facts, plan)
	}
	decision.Report(obj, situation, func() { phases.Status(obj, facts, plan) })
	e.reportFinalizers(obj)
	e.reportRefusal(obj, cmp.Or(phases.SummaryCondition, infrav1.ReadyCondition), actErr)
	if wait := delayOf(e, before, obj, facts, phases); wait > 0 {
		if mayWait, outcome := whileDelayed(actErr, wait); mayWait {
			return outcome
		}
	}
	err = writeStatus(ctx, e, before, obj, phases)
	switch {
	case err == nil:
		return actErr
	case isRetriable(actErr):
		// The error of Act is returned, and the retry that it causes writes the status.
		ctrl.LoggerFrom(ctx).Error(err, "Cannot write the status")
		return actErr
	}
	return fmt.Errorf("writing status: %w", err)
}

// delayOf returns how long the write of a status that only changes details has to wait; zero or less if it is written now.
func delayOf[O Object, F, P any](e Engine, before, after O, facts *F, phases Phases[O, F, P]) time.Duration {
	if phases.Details == nil {
		return 0
	}
	key, delay := client.ObjectKeyFromObject(after), time.Duration(0)
	if !Equal(before, after) {
		restored := after.DeepCopyObject().(O)
		if allowed := phases.Details(before, restored, facts); Equal(before, restored) {
			delay = allowed
		}
	}
	return e.State.remainingDelay(key, delay)
}

// reportFailure handles an error before Act. It keeps the status, except that it reports a request that the API server refused, because equal
// refusals are logged only once.
func reportFailure[O Object, F, P any](ctx context.Context, e Engine, obj O, failed error, phases Phases[O, F, P]) {
	before := obj.DeepCopyObject().(O)
	e.reportRefusal(obj, cmp.Or(phases.SummaryCondition, infrav1.ReadyCondition), failed)
	if err := writeStatus(ctx, e, before, obj, phases); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Cannot write the status")
	}
}

// writeStatus writes the status if it changed, and sends events. The API server refuses the write when the cache was stale.
func writeStatus[O Object, F, P any](ctx context.Context, e Engine, before, after O, phases Phases[O, F, P]) error {
	keepTransitionTimes(before.GetConditions(), after)
	if Equal(before, after) {
		e.Metrics.StatusComputed(after, false, e.State.Now())
		return nil
	}
	var list []Event
	for _, condition := range changedConditions(before.GetConditions(), after.GetConditions(), phases.EventConditions) {
		list = append(list, transitionEvent(condition, phases.IsWarning))
	}
	if phases.Events != nil {
		list = append(list, phases.Events(before, after)...)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := e.Client.Status().Patch(ctx, after, patch); err != nil {
		return client.IgnoreNotFound(MarkStale(err))
	}
	e.Metrics.StatusComputed(after, true, e.State.Now())
	for _, event := range list {
		e.Recorder.Eventf(after, event.Related, event.Type, event.Reason, event.Action, "%s", failure.Truncate(event.Message, maxEventLength))
	}
	return nil
}

func transitionEvent(condition metav1.Condition, isWarning func(metav1.Condition) bool) Event {
	event := Event{Type: corev1.EventTypeNormal, Reason: condition.Reason, Action: condition.Type, Message: condition.Message}
	if isWarning != nil && isWarning(condition) {
		event.Type = corev1.EventTypeWarning
	}
	if event.Message == "" {
		event.Message = fmt.Sprintf("condition %s has changed to %s", condition.Type, condition.Status)
	}
	return event
}

// changedConditions returns the conditions of the given types whose status or reason changed. A new condition counts if it has a message.
func changedConditions(before, after []metav1.Condition, types []string) (changed []metav1.Condition) {
	for _, conditionType := range types {
		is := meta.FindStatusCondition(after, conditionType)
		if is == nil {
			continue
		}
		was := meta.FindStatusCondition(before, conditionType)
		if was == nil && is.Message != "" || was != nil && (was.Status != is.Status || was.Reason != is.Reason) {
			changed = append(changed, *is)
		}
	}
	return changed
}

// errDeleted ends a reconcile whose object was deleted after it was read: nothing may be created for it.
var errDeleted = errors.New("the object no longer exists")

// Patch writes metadata and spec of the reconciled object, if change modifies them. The API server rejects the write if the cache was stale.
// After an error, obj is restored, so that status does not report what was not written.
func Patch[O client.Object](ctx context.Context, c client.Client, obj O, change func()) error {
	original := obj.DeepCopyObject().(O)
	if change(); Equal(original, obj) {
		return nil
	}
	wanted := obj.DeepCopyObject().(O)
	overwrite(obj, original)
	if err := c.Patch(ctx, wanted, client.MergeFromWithOptions(original, client.MergeFromWithOptimisticLock{})); err != nil {
		if apierrors.IsNotFound(err) {
			return errDeleted
		}
		return fmt.Errorf("writing metadata or spec: %w", MarkStale(err))
	}
	overwrite(obj, wanted)
	return nil
}

// Equal reports whether two values are semantically equal. Most are identical, which is found in half of the time.
func Equal(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

// overwrite copies the content of one object to another.
func overwrite[O client.Object](obj, state O) {
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(state).Elem())
}
