// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/ssa"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// isRefusal reports whether a status code means that the same request is refused until something else changes.
func isRefusal(code int32) bool {
	switch code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// firstRefusal returns the first response in an error by which the API server refused a request, and the error that describes the request; nil
// when there is none. Refusals that end by themselves do not count.
func firstRefusal(err error) (apierrors.APIStatus, error) {
	switch e := err.(type) { //nolint:errorlint // The errors of the tree are checked one by one.
	case apierrors.APIStatus:
		if isRefusal(e.Status().Code) && !endsByItself(err) {
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

// IsRefusal reports whether the API server refuses a request until something else changes. An object that would exceed the limit of etcd is an
// internal error.
func IsRefusal(err error) bool {
	answer, _ := firstRefusal(err)
	return answer != nil || err != nil && strings.Contains(err.Error(), "etcdserver: request is too large")
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
	message := "the API server rejected a request of CAPT: " + failure.OneLine(err.Error()) +
		". Check admission policies, webhooks, quotas and the RBAC rules of CAPT's service account. CAPT retries"
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
