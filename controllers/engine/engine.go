// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
)

// Object is a custom resource with conditions.
type Object interface {
	client.Object
	conditions.Setter
}

// Steps are the parts of a reconcile that differ between kinds. F holds the facts that one reconcile decides on.
type Steps[O Object, F any] struct {
	// Observe reads everything the decision needs, once.
	Observe func(ctx context.Context, obj O) (*F, error)
	// Act decides on the facts, carries the decision out and adds what it learned from its own writes to the facts. It may
	// end with Wait or Terminal.
	Act func(ctx context.Context, obj O, facts *F) error
	// Status computes the whole status from the facts. It is pure but for the status of obj, which it replaces.
	Status func(obj O, facts *F)
	// Summary is the condition that shows a refused write; Ready when it is empty.
	Summary string
	// Told lists the conditions whose transitions become events, in the order in which they are told: those that tell the
	// story, not each of its details.
	Told []string
	// Gone is told of objects that no longer exist; it may be nil.
	Gone func(key client.ObjectKey)
	// Warnings tells which of them are worth a warning; other transitions are normal events.
	Warnings func(condition metav1.Condition) bool
	// Notes tells what else became of an object when its status changed, such as that of one part of many. They become events
	// after those of the conditions; it may be nil.
	Notes func(before, after O) []Note
}

// Note is an event to come.
type Note struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason and Action are CamelCase: why it is told, and what was done or tried. The API server wants both.
	Reason, Action string
	// Message is cut when it is longer than an event can hold.
	Message string
	// Related is what else the event is about: another object, or a *corev1.ObjectReference to a part of this one. Events that
	// differ in their message alone are taken for one that happens again, and only the first message is kept.
	Related runtime.Object
}

// Engine runs reconciles.
type Engine struct {
	Client   client.Client
	Recorder events.EventRecorder
	// WatchFilterValue restricts the engine to objects with that value of Cluster API's watch label. Predicates on the
	// objects themselves are not enough, since events of other objects lead here, too.
	WatchFilterValue string
	// Written remembers what this process wrote last, see Memory.
	Written *Memory
	// Definitions reads CustomResourceDefinitions past the cache; nil where there are none, as in tests of one controller.
	Definitions client.Reader
}

// Reconcile runs the steps for the object of a request. Status is written at most once, and only when it changed; events
// follow it.
func Reconcile[O Object, F any](ctx context.Context, e Engine, req ctrl.Request, obj O, steps Steps[O, F]) (ctrl.Result, error) {
	if err := e.Client.Get(ctx, req.NamespacedName, obj); err != nil {
		if Absent(err) {
			e.forget(req.NamespacedName, steps.Gone)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !clusterlabels.HasWatchLabel(obj, e.WatchFilterValue) && e.WatchFilterValue != "" || annotations.IsExternallyManaged(obj) {
		return ctrl.Result{}, nil // Somebody else's.
	}
	if e.Written.Newer(obj) {
		// The cache lags behind our own last write, whose event is on its way and wakes us again. When etcd was restored from a
		// backup, no event comes: the versions have gone back.
		return ctrl.Result{RequeueAfter: memorySpan}, nil
	}
	defer func() { e.Written.Remember(obj) }()
	if cluster := obj.GetLabels()[clusterv1.ClusterNameLabel]; cluster != "" {
		ctx = ctrl.LoggerInto(ctx, ctrl.LoggerFrom(ctx).WithValues("Cluster", klog.KRef(obj.GetNamespace(), cluster)))
	}
	definition, err := e.definitionDeleted(ctx, obj)
	if err == nil && definition == "" {
		return carryOut(ctx, e, req, obj, steps)
	}
	if err == nil {
		err = holdForDefinition(ctx, e, obj, definition, steps)
	} else {
		reportUnobserved(ctx, e, obj, err, steps)
	}
	return e.outcome(ctx, req.NamespacedName, err)
}

// reportUnobserved shows an object as it was, but for a request that the API server refused: equal refusals are logged once, so that
// nothing else would say why the object stands still.
func reportUnobserved[O Object, F any](ctx context.Context, e Engine, obj O, observeErr error, steps Steps[O, F]) {
	before := obj.DeepCopyObject().(O)
	reportRefusal(obj, cmp.Or(steps.Summary, infrav1.ReadyCondition), observeErr)
	if err := finish(ctx, e, before, obj, steps); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Status could not be written")
	}
}

// carryOut runs the steps of a reconcile.
func carryOut[O Object, F any](ctx context.Context, e Engine, req ctrl.Request, obj O, steps Steps[O, F]) (ctrl.Result, error) {
	facts, err := steps.Observe(ctx, obj)
	if err != nil {
		err = fmt.Errorf("observing: %w", err)
		reportUnobserved(ctx, e, obj, err, steps)
		return e.outcome(ctx, req.NamespacedName, err)
	}
	actErr := steps.Act(ctx, obj, facts)

	if gone(obj) {
		return e.outcome(ctx, req.NamespacedName, actErr)
	}
	before := obj.DeepCopyObject().(O)
	steps.Status(obj, facts)
	reportRefusal(obj, cmp.Or(steps.Summary, infrav1.ReadyCondition), actErr)
	if err := finish(ctx, e, before, obj, steps); err != nil {
		// The error of the action is the one a person needs, and a status that could not be written is tried again with it; but not
		// when the action is content to wait.
		if retried(actErr) {
			ctrl.LoggerFrom(ctx).Error(err, "Status could not be written")
			return e.outcome(ctx, req.NamespacedName, actErr)
		}
		return e.outcome(ctx, req.NamespacedName, fmt.Errorf("writing status: %w", err))
	}
	return e.outcome(ctx, req.NamespacedName, actErr)
}

func (e Engine) forget(key client.ObjectKey, tell func(client.ObjectKey)) {
	e.Written.Forget(key)
	if tell != nil {
		tell(key)
	}
}

// gone tells whether the object disappeared when its last finalizer was removed.
func gone(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() && len(obj.GetFinalizers()) == 0
}

// finish writes status if it changed, and tells transitions as events. The write is refused by the API server when our
// cache was behind, so that an old view never overwrites a newer one.
func finish[O Object, F any](ctx context.Context, e Engine, before, after O, steps Steps[O, F]) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	var notes []Note
	for _, condition := range changed(before.GetConditions(), after.GetConditions(), steps.Told) {
		notes = append(notes, noteOf(condition, steps.Warnings))
	}
	if steps.Notes != nil {
		notes = append(notes, steps.Notes(before, after)...)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := e.Client.Status().Patch(ctx, after, patch); err != nil {
		return client.IgnoreNotFound(stale(err))
	}
	for _, note := range notes {
		e.Recorder.Eventf(after, note.Related, note.Type, note.Reason, note.Action, "%s", shortened(note.Message, maxNoteLength))
	}
	return nil
}

// noteOf tells the transition of a condition.
func noteOf(condition metav1.Condition, warn func(metav1.Condition) bool) Note {
	note := Note{Type: corev1.EventTypeNormal, Reason: condition.Reason, Action: condition.Type, Message: condition.Message}
	if warn != nil && warn(condition) {
		note.Type = corev1.EventTypeWarning
	}
	if note.Message == "" {
		note.Message = fmt.Sprintf("%s is %s", condition.Type, condition.Status)
	}
	return note
}

// changed returns the told conditions whose status or reason differs from before, in the order of told: that of the story. One
// that appears in its resting state, without a message, is nothing to tell.
func changed(before, after []metav1.Condition, told []string) []metav1.Condition {
	var transitions []metav1.Condition
	for _, conditionType := range told {
		is := meta.FindStatusCondition(after, conditionType)
		if is == nil {
			continue
		}
		was := meta.FindStatusCondition(before, conditionType)
		if was == nil && is.Message != "" || was != nil && (was.Status != is.Status || was.Reason != is.Reason) {
			transitions = append(transitions, *is)
		}
	}
	return transitions
}
