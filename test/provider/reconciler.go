// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capt-provider/capt/test/provider/api/managed"
	"github.com/capt-provider/capt/test/provider/executor"
)

// recordGrace is how long a reconcile may go on after its commands ran into their timeout, to record what happened.
const recordGrace = 30 * time.Second

type reconciler struct {
	client  client.Client
	reader  client.Reader // reads Secrets and the like from the API server: they are few, and a cache may be stale
	scope   scope
	options Options
	backoff workqueue.TypedRateLimiter[reconcile.Request]
}

// round is one reconcile of one Workspace.
type round struct {
	*reconciler
	workspace

	// stored is the status as it was when the round began.
	stored *managed.WorkspaceStatus

	// external bounds the commands; the context given to the phases outlives it by recordGrace.
	external context.Context //nolint:containedctx // it lives as long as the round, which lives for one call

	exec executor.Executor
	seen observation
}

// observation is what plan and state say.
type observation struct {
	exists, differs bool
	outputs         []executor.Output
}

// phase is one step of a round. It returns nil to let the next phase go on.
type phase func(ctx context.Context) *outcome

// Reconcile takes a Workspace from wherever it is to its next resting place. Commands run inside of it.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.options.Timeout+recordGrace)
	defer cancel()
	external, cancelExternal := context.WithTimeout(ctx, r.options.Timeout)
	defer cancelExternal()

	object := r.scope.newObject()
	if err := r.client.Get(ctx, req.NamespacedName, object); err != nil {
		if !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("cannot get managed resource: %w", err)
		}
		r.backoff.Forget(req)
		return reconcile.Result{}, nil
	}
	w := r.scope.wrap(object)
	now := &round{reconciler: r, workspace: w, stored: w.status().DeepCopy(), external: external}

	for _, next := range []phase{
		now.pause,
		now.checkPolicy,
		now.orphan,
		now.nameExternal,
		now.refuseIncompleteCreate,
		now.connect,
		now.observe,
		now.requireExistence,
		now.awaitCreation,
		now.awaitOtherFinalizers,
		now.destroy,
		now.release,
		now.publishObserved,
		now.addFinalizer,
		now.create,
		now.rest,
		now.update,
	} {
		if o := next(ctx); o != nil {
			return now.finish(ctx, req, *o)
		}
	}
	return reconcile.Result{}, nil
}

// outcome ends a round.
type outcome struct {
	// err is why the round failed; it is part of the conditions already, but for errors of the API server.
	err error
	// conditions to mark; the ones that observing set are there already.
	conditions []managed.Condition
	// keepStatus leaves the status in the API server as it is.
	keepStatus bool
	next       next
}

type next int

const (
	nextEvent   next = iota // nothing to wait for: an edit wakes us
	nextPoll                // look again after the poll interval
	nextBackoff             // try again, later each time
)

// failed is the outcome of an error that shows in Synced, behind the other conditions.
func failed(err error, others ...managed.Condition) *outcome {
	return &outcome{err: err, conditions: append(others, reconcileError(err)), next: nextBackoff}
}

func (n *round) finish(ctx context.Context, req reconcile.Request, o outcome) (reconcile.Result, error) {
	logger := log.FromContext(ctx)
	if apierrors.IsConflict(o.err) {
		// What we acted on is stale; nothing of it is worth showing.
		return reconcile.Result{RequeueAfter: n.backoff.When(req)}, nil
	}
	if o.err != nil {
		// The error can quote values of variables and outputs: it goes to the Workspace, as with the real provider,
		// and not to the log.
		logger.Info("Reconcile failed; condition Synced has the reason", "generation", n.object().GetGeneration())
	}
	if !o.keepStatus {
		n.mark(o.conditions...)
		if err := n.client.Status().Update(ctx, n.object()); client.IgnoreNotFound(err) != nil {
			if apierrors.IsConflict(err) {
				return reconcile.Result{RequeueAfter: n.backoff.When(req)}, nil
			}
			return reconcile.Result{}, fmt.Errorf("cannot update managed resource status: %w", err)
		}
	}
	return n.result(logger, req, o), nil
}

func (n *round) result(logger logr.Logger, req reconcile.Request, o outcome) reconcile.Result {
	switch o.next {
	case nextBackoff:
		return reconcile.Result{RequeueAfter: n.backoff.When(req)}
	case nextPoll:
		logger.V(1).Info("At rest", "generation", n.object().GetGeneration())
		n.backoff.Forget(req)
		return reconcile.Result{RequeueAfter: n.options.PollInterval}
	case nextEvent:
		n.backoff.Forget(req)
	}
	return ctrl.Result{}
}

// persist writes metadata. What was put into the status meanwhile stays in memory: the answer of the API server has
// the status it had before.
func (n *round) persist(ctx context.Context) error {
	status := n.status().DeepCopy()
	err := n.client.Update(ctx, n.object())
	*n.status() = *status
	if err != nil {
		return fmt.Errorf("cannot update managed resource: %w", err)
	}
	return nil
}
