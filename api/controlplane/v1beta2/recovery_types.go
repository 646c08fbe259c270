// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecoveryStrategy says what CAPT may do by itself when something fails.
type RecoveryStrategy struct {
	// maxRetries is the number of attempts before the control plane is Failed; the default is 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxRetries *int32 `json:"maxRetries,omitempty"`

	// backoff between attempts.
	// +optional
	Backoff Backoff `json:"backoff,omitempty,omitzero"`

	// actions in the order in which they are tried; absent means those that fit the class of the error.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Actions []RecoveryAction `json:"actions,omitempty"`
}

// Backoff between attempts; it grows by factor from initialSeconds to maxSeconds.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="self.?initialSeconds.orValue(30) <= self.?maxSeconds.orValue(1800)",message="initialSeconds must not exceed maxSeconds"
type Backoff struct {
	// initialSeconds is the first wait; the default is 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	InitialSeconds int32 `json:"initialSeconds,omitempty"`

	// maxSeconds is the longest wait; the default is 1800.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxSeconds int32 `json:"maxSeconds,omitempty"`

	// factor by which the wait grows; the default is 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Factor int32 `json:"factor,omitempty"`
}

// RecoveryActionType is something CAPT can do to repair a control plane.
// +kubebuilder:validation:Enum=Requeue;Reapply;ClearInterruptedCreate;RecreateFargateProfile;RecreateWorkspace
type RecoveryActionType string

const (
	// RecoveryRequeue looks again.
	RecoveryRequeue RecoveryActionType = "Requeue"
	// RecoveryReapply asks the provider to run Terraform again.
	RecoveryReapply RecoveryActionType = "Reapply"
	// RecoveryClearInterruptedCreate lets the provider go on after it died during the first apply.
	RecoveryClearInterruptedCreate RecoveryActionType = "ClearInterruptedCreate"
	// RecoveryRecreateFargateProfile destroys a Fargate profile and makes it again.
	RecoveryRecreateFargateProfile RecoveryActionType = "RecreateFargateProfile"
	// RecoveryRecreateWorkspace destroys the control plane and makes it again: only with the parameter allowDestroy
	// "true", and never once the control plane was initialized.
	RecoveryRecreateWorkspace RecoveryActionType = "RecreateWorkspace"
)

// RecoveryAction is something CAPT may do to repair a control plane.
// +kubebuilder:validation:XValidation:rule="self.type != 'RecreateWorkspace' || (has(self.parameters) && 'allowDestroy' in self.parameters && self.parameters['allowDestroy'] == 'true')",message="RecreateWorkspace destroys the control plane: it needs the parameter allowDestroy: \"true\""
type RecoveryAction struct {
	// type of the action.
	// +required
	Type RecoveryActionType `json:"type,omitempty"`

	// parameters of the action.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Parameters map[string]string `json:"parameters,omitempty"`

	// timeoutSeconds after which the action counts as failed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// RecoveryStatus is what CAPT did to repair the control plane.
// +kubebuilder:validation:MinProperties=1
type RecoveryStatus struct {
	// attempts since the last time the control plane was Ready for an hour.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts *int32 `json:"attempts,omitempty"`

	// lastAction is the type of the last action.
	// +optional
	LastAction RecoveryActionType `json:"lastAction,omitempty"`

	// lastActionTime is when it started.
	// +optional
	LastActionTime *metav1.Time `json:"lastActionTime,omitempty"`

	// nextAttemptTime is when the next one starts.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`

	// lastOutcome says how the last action ended.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastOutcome string `json:"lastOutcome,omitempty"`

	// retry is the last value of the annotation capt.cluster.x-k8s.io/retry that was seen.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Retry string `json:"retry,omitempty"`

	// retryTime is when it was seen. Timeouts are counted from then.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}
