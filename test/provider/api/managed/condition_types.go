// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package managed

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConditionType names a condition.
type ConditionType string

// ConditionReason says why a condition has its status.
type ConditionReason string

// The two condition types a Workspace has.
const (
	TypeReady  ConditionType = "Ready"
	TypeSynced ConditionType = "Synced"
)

// The reasons of Ready and of Synced.
const (
	ReasonAvailable ConditionReason = "Available"
	ReasonCreating  ConditionReason = "Creating"
	ReasonDeleting  ConditionReason = "Deleting"

	ReasonReconcileSuccess ConditionReason = "ReconcileSuccess"
	ReasonReconcileError   ConditionReason = "ReconcileError"
	ReasonReconcilePaused  ConditionReason = "ReconcilePaused"
)

// Condition is one aspect of an object's state.
type Condition struct {
	// Type of the condition; a list holds at most one condition of a type.
	Type ConditionType `json:"type"`

	// Status is True, False or Unknown.
	Status corev1.ConditionStatus `json:"status"`

	// LastTransitionTime is when the condition last changed.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// Reason is one CamelCase word that says why.
	Reason ConditionReason `json:"reason"`

	// Message is for users; errors end up here.
	// +optional
	Message string `json:"message,omitempty"`

	// ObservedGeneration is the metadata.generation the condition speaks about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// ConditionedStatus is the list of conditions of an object.
type ConditionedStatus struct {
	// Conditions of the object, one for each type.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition returns the condition of the type, or nil when it was never set.
func (s *ConditionedStatus) Condition(t ConditionType) *Condition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

// SetConditions puts each condition into the list. A condition that says the same as the one of its type leaves
// that one untouched, lastTransitionTime included.
func (s *ConditionedStatus) SetConditions(conditions ...Condition) {
	for _, c := range conditions {
		existing := s.Condition(c.Type)
		switch {
		case existing == nil:
			s.Conditions = append(s.Conditions, c)
		case !existing.says(c):
			*existing = c
		}
	}
}

// says compares two conditions as crossplane-runtime v2 does: times are ignored, and generations count only when
// both sides have one. So Synced gets a new lastTransitionTime with each new generation.
func (c Condition) says(other Condition) bool {
	generations := c.ObservedGeneration == 0 || other.ObservedGeneration == 0 ||
		c.ObservedGeneration == other.ObservedGeneration
	return generations && c.Status == other.Status && c.Reason == other.Reason && c.Message == other.Message
}
