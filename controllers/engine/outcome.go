// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// waitError ends a reconcile that must look again after a while, because nothing it could watch will wake it.
type waitError struct {
	reason string
	after  time.Duration
}

func (e *waitError) Error() string {
	return fmt.Sprintf("waiting for %s, looking again in %s", e.reason, e.after)
}

// Wait ends a reconcile that must look again after a while, because no watch can wake it.
func Wait(reason string, after time.Duration) error { return &waitError{reason: reason, after: after} }

// terminalError ends a reconcile that no retry can help.
type terminalError struct {
	reason string
	err    error
}

func (e *terminalError) Error() string { return fmt.Sprintf("%s: %v", e.reason, e.err) }
func (e *terminalError) Unwrap() error { return e.err }

// Terminal ends a reconcile that no retry can help: the error is recorded, and the next change of the object or of what it
// depends on starts anew.
func Terminal(reason string, err error) error { return &terminalError{reason: reason, err: err} }

// staleError is a write to the reconciled object that the API server refused because the object changed after the cache saw it.
// That change is on its way and wakes the object again.
type staleError struct{ error }

func (e *staleError) Unwrap() error { return e.error }

// stale marks the conflict of a write to the reconciled object. No other conflict is marked: no watch reports that a
// ResourceQuota is contended, or that another object was replaced.
func stale(err error) error {
	if apierrors.IsConflict(err) && !ofQuota(err) {
		return &staleError{err}
	}
	return err
}

// ofQuota reports whether a conflict is on a ResourceQuota, which the API server updates on behalf of a write.
func ofQuota(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "resourcequotas"
}

// retried reports whether an error, or any of those that are joined in it, is transient: it makes the work queue try again
// soon.
func retried(err error) bool { return len(transient(err)) > 0 }

// transient lists the causes in an error that a retry may help.
func transient(err error) (causes []error) {
	switch err := err.(type) { //nolint:errorlint // Each error that is joined counts for itself, which errors.As cannot tell.
	case nil, *waitError, *terminalError, *staleError:
		return nil
	case interface{ Unwrap() []error }:
		for _, joined := range err.Unwrap() {
			causes = append(causes, transient(joined)...)
		}
		return causes
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return transient(inner)
		}
	}
	if errors.Is(err, errGone) {
		return nil
	}
	return []error{err}
}

// onlyRefused reports whether an error is nothing but what the API server decided about the request: a schema, a policy, a quota
// or missing permissions. A retry gets the same answer until that is changed.
func onlyRefused(err error) bool {
	causes := transient(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool {
		return !apierrors.IsForbidden(cause) && !apierrors.IsInvalid(cause) && !apierrors.IsBadRequest(cause)
	})
}

// outcome is the result of a reconcile. The work queue logs each error that it retries, so an equal refusal is returned as an
// error once only, and retried without a log entry from then on.
func (e Engine) outcome(ctx context.Context, key client.ObjectKey, err error) (ctrl.Result, error) {
	if !onlyRefused(err) {
		e.Written.refused.Delete(key)
		return result(ctx, err)
	}
	after := e.Written.refusedAgain(key, err.Error())
	if after == 0 {
		return result(ctx, err)
	}
	ctrl.LoggerFrom(ctx).V(4).Info("The API server refuses the same as before", "error", err.Error(), "after", after)
	return ctrl.Result{RequeueAfter: after}, nil
}

// result turns the error of a reconcile into one of three outcomes: done (a watch will wake us), wait, or terminal. Any
// other error is transient and retried with exponential backoff by the work queue.
func result(ctx context.Context, err error) (ctrl.Result, error) {
	var wait *waitError
	var terminal *terminalError
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case retried(err):
		return ctrl.Result{}, err
	case errors.As(err, &wait):
		ctrl.LoggerFrom(ctx).V(4).Info("Waiting", "reason", wait.reason, "after", wait.after)
		return ctrl.Result{RequeueAfter: wait.after}, nil
	case errors.As(err, &terminal):
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	ctrl.LoggerFrom(ctx).V(4).Info("The object changed in the meantime", "error", err.Error())
	return ctrl.Result{}, nil
}
