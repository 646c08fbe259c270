// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capt-provider/capt/api/desired"
	"github.com/capt-provider/capt/api/terraform/failure"
)

// Condition is a condition without generation and time, which Set adds.
type Condition struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
	// Since is the time of the transition if the status changed; zero means now.
	Since time.Time
}

// True makes a condition of status True.
func True(conditionType, reason, message string) Condition {
	return Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False makes a condition of status False.
func False(conditionType, reason, message string) Condition {
	return Condition{Type: conditionType, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// Unknown makes a condition of status Unknown.
func Unknown(conditionType, reason, message string) Condition {
	return Condition{Type: conditionType, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// If returns the condition if something is true, or else one of status False with another reason.
func (c Condition) If(is bool, otherwise string) Condition {
	if !is {
		return False(c.Type, otherwise, "")
	}
	return c
}

// Limits of the API server, in bytes. It rejects a longer message.
const (
	maxMessageLength = 32768
	maxEventLength   = 1024
)

// Set sets conditions of an object. lastTransitionTime changes only if the status changes.
func Set(obj Object, wanted ...Condition) {
	for _, condition := range wanted {
		conditions.Set(obj, metav1.Condition{
			Type: condition.Type, Status: condition.Status, Reason: condition.Reason, Message: failure.Truncate(condition.Message, maxMessageLength),
			ObservedGeneration: obj.GetGeneration(), LastTransitionTime: metav1.NewTime(condition.Since),
		})
	}
}

// SetNegativePolarity sets conditions whose normal status is False: they are absent until they are True for the first time.
func SetNegativePolarity(obj Object, wanted ...Condition) {
	for _, condition := range wanted {
		if condition.Status != metav1.ConditionFalse || conditions.Has(obj, condition.Type) {
			Set(obj, condition)
		}
	}
}

// keepTransitionTimes restores the transition time of each condition that has the same status as before the reconcile. It is needed when
// Phases.Status sets a summary to True, and the report of a refused request sets it to False again.
func keepTransitionTimes(before []metav1.Condition, after Object) {
	kept := after.GetConditions()
	for i := range kept {
		if was := meta.FindStatusCondition(before, kept[i].Type); was != nil && was.Status == kept[i].Status {
			kept[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	after.SetConditions(kept)
}

// PausedCondition is the condition of Cluster API's pause rule; why is the result of desired.Paused.
func PausedCondition(why string) Condition {
	return True(clusterv1.PausedCondition, clusterv1.PausedReason, why).If(why != "", clusterv1.NotPausedReason)
}

// PausedMessage reports what is not done while an object is paused; why is the result of desired.Paused.
func PausedMessage(done, why string) string {
	return fmt.Sprintf("nothing is %s while the object is paused: %s", done, why)
}

// WithPause adds to the message of a summary that the object is paused.
func WithPause(condition Condition, paused string) Condition {
	switch {
	case paused == "", condition.Reason == clusterv1.PausedReason:
	case condition.Message == "":
		condition.Message = "paused: " + paused
	default:
		condition.Message = fmt.Sprintf("paused (%s): %s", paused, condition.Message)
	}
	return condition
}

// Blocking returns the condition of status False that reports why something is blocked; nil if nothing does.
func Blocking(conditionType string, blocked *desired.Blocked) *Condition {
	if blocked == nil {
		return nil
	}
	condition := False(conditionType, blocked.Reason, blocked.Message)
	return &condition
}
