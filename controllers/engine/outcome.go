// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform/failure"
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

// staleError is a write that the API server refused because the cache was stale. The event of the change causes the next reconcile.
type staleError struct{ error }

func (e *staleError) Unwrap() error { return e.error }

// MarkStale marks the conflict of a write to an object whose changes cause a reconcile. Then no status is written: it would describe what was read before.
// No other conflict may be marked: no watch reports that a ResourceQuota is contended, or that another object was replaced.
func MarkStale(err error) error {
	var status apierrors.APIStatus
	ofQuota := errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "resourcequotas"
	if apierrors.IsConflict(err) && !ofQuota { // The API server updates a ResourceQuota on behalf of a write.
		return &staleError{err}
	}
	return err
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
	after := e.State.recordRefusal(key, errors.Join(retriableCauses(err)...).Error())
	if after == 0 {
		return resultOf(ctx, err)
	}
	if wait := (*waitError)(nil); errors.As(err, &wait) {
		after = min(after, wait.after)
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

// firstRefusal returns the first response in an error by which the API server refused a request, and the error that describes the request; nil
// when there is none. Refusals that end by themselves do not count.
func firstRefusal(err error) (apierrors.APIStatus, error) {
	refusals := []int32{http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}
	switch e := err.(type) { //nolint:errorlint // The errors of the tree are checked one by one.
	case apierrors.APIStatus:
		if slices.Contains(refusals, e.Status().Code) && !endsByItself(err) {
			return e, err
		}
	case interface{ Unwrap() error }:
		if answer, found := firstRefusal(e.Unwrap()); found != nil {
			return answer, err
		}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			if answer, found := firstRefusal(part); found != nil {
				return answer, found
			}
		}
	}
	return nil, nil
}

// RefusalMessage is the message about an error by which the API server refused a request.
func RefusalMessage(err error) string {
	return "the API server rejected a request of CAPT: " + failure.OneLine(err.Error()) +
		". Check admission policies, webhooks, quotas and the RBAC rules of CAPT's service account. CAPT retries"
}

// hasInvalidCertificate reports whether the API server does not trust a webhook: other failures of webhooks end when their programs have started.
func hasInvalidCertificate(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "x509:")
}

// IsRefusal reports whether the API server refuses a request until something else changes. An object that would exceed the limit of etcd is an
// internal error.
func IsRefusal(err error) bool {
	answer, _ := firstRefusal(err)
	return answer != nil || err != nil && (strings.Contains(err.Error(), "etcdserver: request is too large") || hasInvalidCertificate(err))
}

// endsByItself recognizes refusals in a namespace that is being deleted, and of admission that does not know a new version of a
// kind yet.
func endsByItself(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || ssa.IsUnknownOwnerVersion(err)
}

// reportRefusal reports a refused write: in the condition Deleting of an object that is being deleted, otherwise in the summary
// condition, or in DecisionCondition if the gate keeps the summary. A condition that quotes the API server's answer already is kept.
func (e Engine) reportRefusal(obj Object, summary string, actErr error) {
	answer, err := firstRefusal(actErr)
	if err == nil {
		return
	}
	message := RefusalMessage(err)
	if !obj.GetDeletionTimestamp().IsZero() {
		Set(obj, True(infrav1.DeletingCondition, infrav1.WriteRefusedReason, message))
		if conditions.Has(obj, infrav1.ReadyCondition) {
			Set(obj, False(infrav1.ReadyCondition, infrav1.DeletingReason, message))
		}
		return
	}
	text := answer.Status().Message
	reported := func(c metav1.Condition) bool {
		return c.Status != metav1.ConditionTrue && (strings.Contains(c.Message, text) || strings.Contains(c.Message, failure.OneLine(text)))
	}
	switch {
	case slices.ContainsFunc(obj.GetConditions(), reported):
	case e.Gate.KeepsSummary(obj, summary):
		Set(obj, Unknown(DecisionCondition, infrav1.WriteRefusedReason, message))
	case summary == infrav1.ReadyCondition:
		Set(obj, False(summary, infrav1.WriteRefusedReason, message))
	default:
		Set(obj, Unknown(summary, infrav1.WriteRefusedReason, message))
	}
}
