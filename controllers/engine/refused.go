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
	"github.com/capt-provider/capt/api/retriable"
	"github.com/capt-provider/capt/controllers/workspace/failure"
)

// refusedCodes are the answers of an API server that does not accept a write, and will not before something else has changed.
var refusedCodes = []int32{
	http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
}

// firstRefusal returns the part of an error that the API server answered to a write that it refuses, with what was written; nil when it
// refused none, or only for a reason that ends by itself.
func firstRefusal(err error) (apierrors.APIStatus, error) {
	switch e := err.(type) { //nolint:errorlint // Each error of the tree is looked at by itself.
	case apierrors.APIStatus:
		if slices.Contains(refusedCodes, e.Status().Code) && !passing(err) {
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

// passing recognizes refusals that end by themselves: nothing is created in a namespace that is being deleted, and admission may
// not know a new version of a kind yet.
func passing(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) || retriable.IsUnknownOwnerVersion(err)
}

// reportRefusal makes a refused write visible: in the condition Deleting of an object that is being deleted, otherwise in the
// condition that sums the object up. A condition that has the answer of the API server already has the better words.
func reportRefusal(obj Object, summary string, actErr error) {
	answer, err := firstRefusal(actErr)
	if err == nil {
		return
	}
	message := "The API server refused a request of CAPT (" + failure.OneLine(err.Error()) +
		"). Change what refused it, such as an admission policy, a webhook, a quota, or the rights of CAPT's account; CAPT tries again"
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
	case summary == infrav1.ReadyCondition:
		Set(obj, False(summary, infrav1.WriteRefusedReason, message))
	default:
		Set(obj, Unknown(summary, infrav1.WriteRefusedReason, message))
	}
}
