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
)

// waitError ends a reconcile that is repeated after a while.
type waitError struct {
	reason string
	after  time.Duration
}

func (e *waitError) Error() string {
	return fmt.Sprintf("waiting for %s, next reconcile in %s", e.reason, e.after)
}

// Wait ends a reconcile that is repeated after a while, because no watch reports what it waits for.
func Wait(reason string, after time.Duration) error { return &waitError{reason: reason, after: after} }

// whileDelayed returns the outcome of a reconcile that ended with actErr, and whose status is written later. It must be written now after an
// error, because a retry may be late.
func whileDelayed(actErr error, wait time.Duration) (mayWait bool, outcome error) {
	is, waits := actErr.(*waitError) //nolint:errorlint // An error that is joined to it has other consequences.
	if waits && is.after < wait {
		return true, actErr
	}
	return waits || actErr == nil, Wait("the next status write", wait)
}

// staleError is a write to the reconciled object that the API server refused because the cache was stale. The event of the change
// causes the next reconcile.
type staleError struct{ error }

func (e *staleError) Unwrap() error { return e.error }

// markStale marks the conflict of a write to the reconciled object. No other conflict is marked: no watch reports that a
// ResourceQuota is contended, or that another object was replaced.
func markStale(err error) error {
	if apierrors.IsConflict(err) && !isQuotaConflict(err) {
		return &staleError{err}
	}
	return err
}

// isQuotaConflict reports whether a conflict is on a ResourceQuota, which the API server updates on behalf of a write.
func isQuotaConflict(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "resourcequotas"
}

// isRetriable reports whether an error, or one of those joined in it, is retried by the work queue.
func isRetriable(err error) bool { return len(retriableCauses(err)) > 0 }

// retriableCauses lists the causes in an error that a retry may solve.
func retriableCauses(err error) (causes []error) {
	switch err := err.(type) { //nolint:errorlint // Joined errors are checked one by one.
	case nil, *waitError, *staleError:
		return nil
	case interface{ Unwrap() []error }:
		for _, joined := range err.Unwrap() {
			causes = append(causes, retriableCauses(joined)...)
		}
		return causes
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return retriableCauses(inner)
		}
	}
	if errors.Is(err, errDeleted) {
		return nil
	}
	return []error{err}
}

// onlyRefused reports whether all causes are requests that the API server refused because of a schema, a policy, a quota or missing
// permissions. It refuses a retry as well, until one of these changes.
func onlyRefused(err error) bool {
	causes := retriableCauses(err)
	return len(causes) > 0 && !slices.ContainsFunc(causes, func(cause error) bool {
		return !apierrors.IsForbidden(cause) && !apierrors.IsInvalid(cause) && !apierrors.IsBadRequest(cause)
	})
}

// outcome returns the result of a reconcile. The work queue logs each error that it retries. So a refusal is returned as an error only the
// first time, and requeued without an error while it repeats.
func (e Engine) outcome(ctx context.Context, key client.ObjectKey, err error) (ctrl.Result, error) {
	if !onlyRefused(err) {
		e.State.clearRefusal(key)
		return resultOf(ctx, err)
	}
	after := e.State.recordRefusal(key, err.Error())
	if after == 0 {
		return resultOf(ctx, err)
	}
	ctrl.LoggerFrom(ctx).V(4).Info("The API server rejected the request again, with the same error", "error", err.Error(), "after", after)
	return ctrl.Result{RequeueAfter: after}, nil
}

// resultOf turns the error of a reconcile into an outcome: done, or wait. Any other error is transient, and retried with exponential
// backoff by the work queue.
func resultOf(ctx context.Context, err error) (ctrl.Result, error) {
	var wait *waitError
	switch {
	case err == nil:
		return ctrl.Result{}, nil
	case isRetriable(err):
		return ctrl.Result{}, err
	case errors.As(err, &wait):
		ctrl.LoggerFrom(ctx).V(4).Info("Waiting", "reason", wait.reason, "after", wait.after)
		return ctrl.Result{RequeueAfter: wait.after}, nil
	}
	ctrl.LoggerFrom(ctx).V(4).Info("The object changed after it was read", "error", err.Error())
	return ctrl.Result{}, nil
}
