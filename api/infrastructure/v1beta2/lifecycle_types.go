// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Lifecycle is the part of status that all owners of a WorkspaceTemplateApply have: CAPTCluster, CAPTControlPlane and CAPTMachinePool.
type Lifecycle struct {
	// state is the state of the object in its life cycle.
	// +optional
	State State `json:"state,omitempty"`

	// progress of the current operation.
	// +optional
	Progress *Progress `json:"progress,omitempty"`

	// recovery describes the recovery actions.
	// +optional
	Recovery RecoveryStatus `json:"recovery,omitempty,omitzero"`
}

// WaitTimeouts are the timeouts of what does not depend on Terraform.
type WaitTimeouts struct {
	// waitSeconds is how long the object may wait, before Terraform starts, for its Cluster or for objects that it needs, before a new one is Failed
	// with the reason WaitTimeout; the default is 900. CAPT keeps waiting.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	WaitSeconds int32 `json:"waitSeconds,omitempty"`

	// deletionSeconds is how long the deletion may take before the condition DeletionTimedOut is True; the default is 3600. It continues.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	DeletionSeconds int32 `json:"deletionSeconds,omitempty"`
}

// State is the state of an object in its life cycle.
// +kubebuilder:validation:Enum=Pending;Validating;Provisioning;Configuring;Ready;Degraded;Recovering;Failed
type State string

const (
	// StatePending: no owner yet, or paused before the start.
	StatePending State = "Pending"
	// StateValidating: references, permissions, the version or dependencies are not satisfied yet.
	StateValidating State = "Validating"
	// StateProvisioning: Terraform applies the Workspace.
	StateProvisioning State = "Provisioning"
	// StateConfiguring: Terraform has applied the Workspace; endpoint, kubeconfig, Fargate profiles or nodes are not ready.
	StateConfiguring State = "Configuring"
	// StateReady: the object matches its spec.
	StateReady State = "Ready"
	// StateDegraded: the object was Ready and a part of it no longer is. Condition Available of a control plane is False if its API server does not
	// answer.
	StateDegraded State = "Degraded"
	// StateRecovering: a recovery action runs.
	StateRecovering State = "Recovering"
	// StateFailed: the user must act.
	StateFailed State = "Failed"
)

// Operation is what CAPT does with an object.
// +kubebuilder:validation:Enum=Creation;Update;Recreation;FargateProfileUpdate
type Operation string

const (
	// OperationCreation: everything is created for the first time.
	OperationCreation Operation = "Creation"
	// OperationUpdate: Terraform applies a change, and changes of Fargate profiles made meanwhile.
	OperationUpdate Operation = "Update"
	// OperationRecreation: Terraform destroys what existed, or creates it again.
	OperationRecreation Operation = "Recreation"
	// OperationFargateProfileUpdate: only Fargate profiles are created, updated or deleted.
	OperationFargateProfileUpdate Operation = "FargateProfileUpdate"
)

// Outcome is how an operation ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Superseded
type Outcome string

const (
	// OutcomeSucceeded: the object matches its spec.
	OutcomeSucceeded Outcome = "Succeeded"
	// OutcomeFailed: the last attempt failed. If a retry starts, the operation is in progress again.
	OutcomeFailed Outcome = "Failed"
	// OutcomeSuperseded: another operation started before this one was complete, because the spec changed.
	OutcomeSuperseded Outcome = "Superseded"
)

// Progress of the current operation.
type Progress struct {
	// currentOperation is the operation in progress; absent when none is.
	// +optional
	CurrentOperation Operation `json:"currentOperation,omitempty"`

	// revision is the generation of the WorkspaceTemplateApply that the last operation applies. A change of it starts a new operation.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision int64 `json:"revision,omitempty"`

	// percentComplete grows from 0 to 100 within one operation. It changes when a step is complete.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	PercentComplete *int32 `json:"percentComplete,omitempty"`

	// estimatedCompletionTime is when the operation is expected to complete, based on earlier ones; absent when unknown.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`

	// estimatedSecondsRemaining is the time until estimatedCompletionTime, as of the last status write.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EstimatedSecondsRemaining *int32 `json:"estimatedSecondsRemaining,omitempty"`

	// history contains the last 20 operations, oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []OperationRecord `json:"history,omitempty"`
}

// mostPercent is the percentage of an operation that is not complete but takes longer than expected.
const mostPercent = 99

// PercentAt is how much of the operation in progress is complete at a time: what status has, or the part of the expected duration that has passed.
func (p *Progress) PercentAt(at time.Time) int32 {
	elapsed := 0.0
	if len(p.History) > 0 && p.History[len(p.History)-1].StartTime != nil && p.EstimatedCompletionTime != nil {
		started := p.History[len(p.History)-1].StartTime.Time
		if expected := p.EstimatedCompletionTime.Sub(started); expected > 0 {
			elapsed = 100 * at.Sub(started).Seconds() / expected.Seconds()
		}
	}
	return min(mostPercent, max(ptr.Deref(p.PercentComplete, 0), int32(min(elapsed, mostPercent))))
}

// OperationRecord is an operation.
type OperationRecord struct {
	// name of the operation.
	// +required
	Name Operation `json:"name,omitempty"`

	// startTime of the operation.
	// +required
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime of the operation; absent while it is in progress.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// outcome of the operation; absent while it is in progress.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`

	// message is the cause of a failure, without secrets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`
}

// RecoveryStrategy specifies the automatic recovery from failures of Terraform. docs/recovery.md has the defaults for each class of errors.
type RecoveryStrategy struct {
	// maxRetries is the number of attempts, in addition to the retries of provider-terraform; the default is 5. 0 disables the recovery of this
	// object. After the last attempt, an object that was never ready for use is Failed; one that was is Degraded.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxRetries *int32 `json:"maxRetries,omitempty"`

	// backoff between attempts.
	// +optional
	Backoff Backoff `json:"backoff,omitempty,omitzero"`

	// actions in the order in which they are tried, one per attempt; after the last one, the first is tried again. Actions that cannot help
	// with an error are skipped. RecreateFargateProfile and RecreateWorkspace are for control planes only. Absent means the defaults for the class of the error. No action is tried for the classes Auth, Quota and
	// Config, which a user must correct.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Actions []RecoveryAction `json:"actions,omitempty"`

	// onUnhealthy are the health checks of a control plane that was ready for use whose failure makes the provider run Terraform once, like the action
	// Reapply, although Terraform reports no error; absent means Workspace and Dependencies. A failed check never destroys anything.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	OnUnhealthy []RecoveryCheck `json:"onUnhealthy,omitempty"`
}

// RecoveryCheck is a health check whose failure starts a recovery.
// +kubebuilder:validation:Enum=APIServer;Workspace;Dependencies
type RecoveryCheck string

// Backoff between attempts; it grows by factor from initialSeconds to maxSeconds. Each wait is varied by up to a tenth.
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

// RecoveryActionType is an action that recovers an object.
// +kubebuilder:validation:Enum=Requeue;Reapply;ClearInterruptedCreate;RecreateFargateProfile;RecreateWorkspace
type RecoveryActionType string

const (
	// RecoveryRequeue reconciles again, and changes nothing.
	RecoveryRequeue RecoveryActionType = "Requeue"
	// RecoveryReapply makes the provider run Terraform again.
	RecoveryReapply RecoveryActionType = "Reapply"
	// RecoveryClearInterruptedCreate lets the provider continue after it ended during the first apply. It needs a remote Terraform state.
	RecoveryClearInterruptedCreate RecoveryActionType = "ClearInterruptedCreate"
	// RecoveryRecreateFargateProfile destroys and recreates a failed Fargate profile; with the parameter profile, only the one of that name.
	RecoveryRecreateFargateProfile RecoveryActionType = "RecreateFargateProfile"
	// RecoveryRecreateWorkspace destroys and recreates the control plane. It needs the parameter allowDestroy "true",
	// and never runs once the control plane was initialized.
	RecoveryRecreateWorkspace RecoveryActionType = "RecreateWorkspace"
)

// Parameters of recovery actions.
const (
	// AllowDestroyParameter with the value "true" confirms that RecreateWorkspace destroys the control plane.
	AllowDestroyParameter = "allowDestroy"
	// ProfileParameter limits RecreateFargateProfile to one profile.
	ProfileParameter = "profile"
)

// RecoveryAction is an action that recovers an object.
// +kubebuilder:validation:XValidation:rule="self.type != 'RecreateWorkspace' || (has(self.parameters) && 'allowDestroy' in self.parameters && self.parameters['allowDestroy'] == 'true')",message="RecreateWorkspace destroys the control plane. Confirm with the parameter allowDestroy: \"true\""
type RecoveryAction struct {
	// type of the action.
	// +required
	Type RecoveryActionType `json:"type,omitempty"`

	// parameters of the action.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Parameters map[string]string `json:"parameters,omitempty"`

	// timeoutSeconds is how long the action may take before the attempt has failed. The default depends on the type: 60 for Requeue, 300 for
	// Reapply, 1800 for the others.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// RecoveryStatus describes the recovery actions of an object.
// +kubebuilder:validation:MinProperties=1
type RecoveryStatus struct {
	// attempts is the number of attempts; it is reset when the object has been Ready for an hour.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts *int32 `json:"attempts,omitempty"`

	// lastAction is the type of the last action.
	// +optional
	LastAction RecoveryActionType `json:"lastAction,omitempty"`

	// lastActionTime is when the last action started.
	// +optional
	LastActionTime *metav1.Time `json:"lastActionTime,omitempty"`

	// nextAttemptTime is when the next action starts; absent while an action runs, and when none is planned.
	// +optional
	NextAttemptTime *metav1.Time `json:"nextAttemptTime,omitempty"`

	// failureClass is the class of the current error, or of the one for which the last action runs; absent when there is none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureClass string `json:"failureClass,omitempty"`

	// inputs identifies what the failed run used: the spec, the template, the ProviderConfig and Secrets. When it changes, the attempts start
	// again.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Inputs string `json:"inputs,omitempty"`

	// lastOutcome is the result of the last action; absent while it runs.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastOutcome string `json:"lastOutcome,omitempty"`

	// retry is the last observed value of the annotation capt.cluster.x-k8s.io/retry.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Retry string `json:"retry,omitempty"`

	// retryTime is when that value was first observed. Timeouts start again at this time.
	// +optional
	RetryTime *metav1.Time `json:"retryTime,omitempty"`
}
