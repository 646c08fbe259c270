// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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

	infrav1.Lifecycle `json:",inline"`

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

	// health of the control plane.
	// +optional
	Health *Health `json:"health,omitempty"`

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

// Health of a control plane.
type Health struct {
	// overall is the worst of the checks; what is not known without credentials does not count while the API server answers.
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
