// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// State is the state of a control plane in its life cycle.
// +kubebuilder:validation:Enum=Pending;Validating;Provisioning;Configuring;Ready;Degraded;Recovering;Failed
type State string

const (
	// StatePending: no owner yet, or paused before the start.
	StatePending State = "Pending"
	// StateValidating: references, permissions, the version or dependencies are not satisfied yet.
	StateValidating State = "Validating"
	// StateProvisioning: the Workspace of the control plane is being applied.
	StateProvisioning State = "Provisioning"
	// StateConfiguring: the Workspace is ready; endpoint, kubeconfig or Fargate profiles are not.
	StateConfiguring State = "Configuring"
	// StateReady: the control plane matches its spec.
	StateReady State = "Ready"
	// StateDegraded: the control plane was Ready and a part of it no longer is. Available is False if the API server does not answer.
	StateDegraded State = "Degraded"
	// StateRecovering: a recovery action runs.
	StateRecovering State = "Recovering"
	// StateFailed: the user must act.
	StateFailed State = "Failed"
)

// Phase is the coarse form of State.
// +kubebuilder:validation:Enum=Creating;Ready;Failed
type Phase string

const (
	// PhaseCreating: the control plane is being created or updated.
	PhaseCreating Phase = "Creating"
	// PhaseReady: the control plane can be used.
	PhaseReady Phase = "Ready"
	// PhaseFailed: the user must act.
	PhaseFailed Phase = "Failed"
)

// CAPTControlPlaneStatus is the observed state of a control plane.
// +kubebuilder:validation:MinProperties=1
type CAPTControlPlaneStatus struct {
	// conditions are Available (mirrored by Cluster API as ControlPlaneAvailable), Ready, and the conditions that these summarize.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is part of the Cluster API contract.
	// +optional
	Initialization CAPTControlPlaneInitializationStatus `json:"initialization,omitempty,omitzero"`

	// externalManagedControlPlane is always true: EKS runs the control plane, which has no Nodes. It is part of the
	// Cluster API contract.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`

	// versions are the Kubernetes versions of the control plane; part of the Cluster API contract.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// version is the Kubernetes version that was last applied; part of the Cluster API contract.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// state is the state of the control plane in its life cycle.
	// +optional
	State State `json:"state,omitempty"`

	// phase is the coarse form of state.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// endpoint is host:port of the API server, for the output of kubectl get.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Endpoint string `json:"endpoint,omitempty"`

	// workspaceTemplateApply is the WorkspaceTemplateApply in use.
	// +optional
	WorkspaceTemplateApply *WorkspaceTemplateApplyStatus `json:"workspaceTemplateApply,omitempty"`

	// fargateProfiles are the Fargate profiles, in the order of spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	FargateProfiles []FargateProfileStatus `json:"fargateProfiles,omitempty"`

	// progress of the current operation.
	// +optional
	Progress *Progress `json:"progress,omitempty"`

	// health of the control plane.
	// +optional
	Health *Health `json:"health,omitempty"`

	// recovery describes the recovery actions of the control plane.
	// +optional
	Recovery RecoveryStatus `json:"recovery,omitempty,omitzero"`

	// dependencies are the objects that this one depends on, or that depend on it, directly or not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Dependencies []Dependency `json:"dependencies,omitempty"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conversionData is the part of status that only v1beta1 has, for the conversion between the versions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	ConversionData string `json:"conversionData,omitempty"`
}

// CAPTControlPlaneInitializationStatus is part of the Cluster API contract.
// +kubebuilder:validation:MinProperties=1
type CAPTControlPlaneInitializationStatus struct {
	// controlPlaneInitialized is true once the API server was available, and stays true.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// WorkspaceTemplateApplyStatus is the state of the WorkspaceTemplateApply of a control plane.
type WorkspaceTemplateApplyStatus struct {
	infrav1.WorkspaceTemplateApplySummary `json:",inline"`

	// state is the reason of the Ready condition of the WorkspaceTemplateApply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	State string `json:"state,omitempty"`

	// outputs are the published Terraform outputs.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`
}

// FargateProfileStatus is the observed state of a Fargate profile.
type FargateProfileStatus struct {
	// name of the profile.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`

	// ready is True when the profile matches its spec, False when it does not.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Ready metav1.ConditionStatus `json:"ready,omitempty"`

	// state of the profile.
	// +optional
	State FargateProfileState `json:"state,omitempty"`

	// lastTransitionTime is when state changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`

	// workspaceTemplateApplyName is the WorkspaceTemplateApply of the profile.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkspaceTemplateApplyName string `json:"workspaceTemplateApplyName,omitempty"`

	// failureReason is the reason of the failure in CamelCase.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage describes the failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	FailureMessage string `json:"failureMessage,omitempty"`
}

// FargateProfileState is a state of a Fargate profile.
// +kubebuilder:validation:Enum=Waiting;Creating;Ready;DependencyMissing;Failed;Deleting
type FargateProfileState string

const (
	// FargateProfileStateWaiting: the control plane is not ready, or the object is paused.
	FargateProfileStateWaiting FargateProfileState = "Waiting"
	// FargateProfileStateCreating: Terraform creates or updates the profile, or is about to.
	FargateProfileStateCreating FargateProfileState = "Creating"
	// FargateProfileStateReady: the profile matches its spec.
	FargateProfileStateReady FargateProfileState = "Ready"
	// FargateProfileStateDependencyMissing: a dependency is missing or unusable. CAPT continues when it is repaired.
	FargateProfileStateDependencyMissing FargateProfileState = "DependencyMissing"
	// FargateProfileStateFailed: the profile could not be created, updated or deleted, and the user must act.
	FargateProfileStateFailed FargateProfileState = "Failed"
	// FargateProfileStateDeleting: Terraform destroys the profile, or is about to.
	FargateProfileStateDeleting FargateProfileState = "Deleting"
)

// Operation is what CAPT does with a control plane.
// +kubebuilder:validation:Enum=Creation;Update;Recreation;FargateProfileUpdate
type Operation string

const (
	// OperationCreation: everything is created for the first time.
	OperationCreation Operation = "Creation"
	// OperationUpdate: Terraform applies a change to the control plane, and to its Fargate profiles if they change meanwhile.
	OperationUpdate Operation = "Update"
	// OperationRecreation: the control plane was initialized, and Terraform destroys it or creates it again.
	OperationRecreation Operation = "Recreation"
	// OperationFargateProfileUpdate: only Fargate profiles are created, updated or deleted.
	OperationFargateProfileUpdate Operation = "FargateProfileUpdate"
)

// Outcome is how an operation ended.
// +kubebuilder:validation:Enum=Succeeded;Failed;Superseded
type Outcome string

const (
	// OutcomeSucceeded: the control plane matches its spec.
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

// OperationRecord is an operation on the control plane.
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

// Health of a control plane.
type Health struct {
	// overall is the worst of the checks.
	// +optional
	Overall HealthState `json:"overall,omitempty"`

	// checks are the results of the individual checks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Checks []HealthCheck `json:"checks,omitempty"`
}

// HealthState is the result of a check.
// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
type HealthState string

const (
	// HealthHealthy: the check passed.
	HealthHealthy HealthState = "Healthy"
	// HealthUnhealthy: the check failed.
	HealthUnhealthy HealthState = "Unhealthy"
	// HealthUnknown: the check could not run.
	HealthUnknown HealthState = "Unknown"
)

// HealthCheck is the result of one check. Latency and time of the check are metrics, so that a healthy cluster causes no
// writes.
type HealthCheck struct {
	// name of the check.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// status of the check.
	// +required
	Status HealthState `json:"status,omitempty"`

	// message about the status.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// lastTransitionTime is when status changed.
	// +optional
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
}

// DependencyDirection is the direction of a dependency.
// +kubebuilder:validation:Enum=Upstream;Downstream
type DependencyDirection string

const (
	// DependencyUpstream: the control plane depends on the object.
	DependencyUpstream DependencyDirection = "Upstream"
	// DependencyDownstream: the object depends on the control plane.
	DependencyDownstream DependencyDirection = "Downstream"
)

// Dependency is an object that the control plane depends on, or an object that depends on the control plane.
type Dependency struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// namespace of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name of the object; "(another namespace)" for all objects of the kind in other namespaces.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// direction of the dependency.
	// +required
	Direction DependencyDirection `json:"direction,omitempty"`

	// ready is True when the object is ready to be depended on; absent when another namespace does not disclose it.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Ready metav1.ConditionStatus `json:"ready,omitempty"`

	// reason why the object is not ready.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}
