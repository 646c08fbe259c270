// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1beta1 "github.com/capt-provider/capt/api/infrastructure/v1beta1"
)

// CAPTControlPlaneSpec describes an EKS control plane.
type CAPTControlPlaneSpec struct {
	// version is the Kubernetes version.
	Version string `json:"version"`

	// workspaceTemplateRef names the WorkspaceTemplate of the control plane.
	WorkspaceTemplateRef infrav1beta1.WorkspaceTemplateReference `json:"workspaceTemplateRef"`

	// controlPlaneConfig configures the control plane.
	ControlPlaneConfig *ControlPlaneConfig `json:"controlPlaneConfig,omitempty"`

	// additionalTags are tags of the AWS resources.
	// +optional
	AdditionalTags map[string]string `json:"additionalTags,omitzero"`

	// controlPlaneEndpoint is the address of the API server. CAPT writes it.
	ControlPlaneEndpoint *APIEndpoint `json:"controlPlaneEndpoint,omitempty"`

	// workspaceTemplateApplyName is the WorkspaceTemplateApply in use. CAPT writes it.
	WorkspaceTemplateApplyName *string `json:"workspaceTemplateApplyName,omitempty"`

	// additionalFargateProfiles are the Fargate profiles of the cluster.
	// +optional
	AdditionalFargateProfiles []AdditionalFargateProfile `json:"additionalFargateProfiles,omitzero"`
}

// APIEndpoint is the address of an API server.
type APIEndpoint struct {
	// host of the API server; CAPT v0.3 wrote a URL, with https://.
	Host string `json:"host"`

	// port of the API server.
	Port int32 `json:"port"`
}

// ControlPlaneConfig configures a control plane.
type ControlPlaneConfig struct {
	// region is the AWS region.
	Region string `json:"region"`

	// endpointAccess specifies from where the API server is reachable.
	EndpointAccess *EndpointAccess `json:"endpointAccess,omitempty"`

	// addons are the EKS add-ons.
	// +optional
	Addons []Addon `json:"addons,omitzero"`

	// timeouts of the operations.
	Timeouts *TimeoutConfig `json:"timeouts,omitempty"`
}

// EndpointAccess specifies from where the API server is reachable.
type EndpointAccess struct {
	// public endpoint; absent means false.
	Public *bool `json:"public,omitempty"`

	// private endpoint, within the VPC; absent means false.
	Private *bool `json:"private,omitempty"`

	// publicCIDRs are the networks from which the public endpoint is reachable.
	// +optional
	PublicCIDRs []string `json:"publicCIDRs,omitzero"`
}

// Addon is an EKS add-on.
type Addon struct {
	// name of the add-on.
	Name string `json:"name"`

	// version of the add-on.
	Version *string `json:"version,omitempty"`

	// configurationValues are the settings of the add-on.
	ConfigurationValues *string `json:"configurationValues,omitempty"`
}

// TimeoutConfig has timeouts, in minutes.
type TimeoutConfig struct {
	// controlPlaneTimeout is the timeout for the creation of the control plane, in minutes.
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	ControlPlaneTimeout *int `json:"controlPlaneTimeout,omitempty"`

	// vpcReadyTimeout is the timeout for the VPC, in minutes.
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=1
	VPCReadyTimeout *int `json:"vpcReadyTimeout,omitempty"`
}

// AdditionalFargateProfile is a Fargate profile of the cluster.
type AdditionalFargateProfile struct {
	// name of the profile.
	Name string `json:"name"`

	// selectors select the Pods that run on the profile.
	Selectors []FargateSelector `json:"selectors"`

	// workspaceTemplateRef names the WorkspaceTemplate of the profile.
	WorkspaceTemplateRef infrav1beta1.WorkspaceTemplateReference `json:"workspaceTemplateRef"`
}

// FargateSelector selects Pods by namespace and labels.
type FargateSelector struct {
	// namespace of the Pods.
	Namespace string `json:"namespace"`

	// labels of the Pods.
	// +optional
	Labels map[string]string `json:"labels,omitzero"`
}

// CAPTControlPlane is an EKS control plane that Terraform creates: the ControlPlane of Cluster API.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="controlplane.cluster.x-k8s.io/v1beta1 CAPTControlPlane is deprecated; use controlplane.cluster.x-k8s.io/v1beta2, to which captctl convert converts manifests"
// +kubebuilder:resource:path=captcontrolplanes,scope=Namespaced,shortName=captcp,categories=cluster-api;capt
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec CAPTControlPlaneSpec `json:"spec,omitzero"`
	// +optional
	Status CAPTControlPlaneStatus `json:"status,omitzero"`
}

// CAPTControlPlaneList is a list of CAPTControlPlanes.
//
// +kubebuilder:object:root=true
type CAPTControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTControlPlane `json:"items"`
}

// CAPTControlPlaneStatus is the observed state of a control plane.
type CAPTControlPlaneStatus struct {
	// ready is true while the API server of the cluster can be used.
	Ready *bool `json:"ready,omitempty"`

	// initialized is true once the API server could be used, and stays true.
	Initialized *bool `json:"initialized,omitempty"`

	// secretsReady is true when the Secrets of the cluster exist.
	// +kubebuilder:default=false
	SecretsReady *bool `json:"secretsReady,omitempty"`

	// phase of the control plane.
	// +kubebuilder:validation:Enum=Creating;Ready;Failed
	Phase *string `json:"phase,omitempty"`

	// failureReason is the reason of a failure that the user must correct, in CamelCase.
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage describes the failure.
	FailureMessage *string `json:"failureMessage,omitempty"`

	// conditions of the control plane.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitzero"`

	// workspaceTemplateStatus is the state of the WorkspaceTemplateApply.
	WorkspaceTemplateStatus *WorkspaceTemplateStatus `json:"workspaceTemplateStatus,omitempty"`

	// workspaceStatus is the state of the Workspace.
	WorkspaceStatus *WorkspaceStatus `json:"workspaceStatus,omitempty"`

	// fargateProfileStatuses are the Fargate profiles.
	// +optional
	FargateProfileStatuses []FargateProfileStatus `json:"fargateProfileStatuses,omitzero"`

	// conversionData is the part of status that only v1beta2 has, for the conversion between the versions.
	ConversionData string `json:"conversionData,omitempty"`
}

// WorkspaceTemplateStatus is the state of a control plane's WorkspaceTemplateApply.
type WorkspaceTemplateStatus struct {
	// ready is true when the Workspace is up to date.
	Ready *bool `json:"ready,omitempty"`

	// state of the WorkspaceTemplateApply.
	State *string `json:"state,omitempty"`

	// lastAppliedRevision is the revision that was last applied.
	LastAppliedRevision *string `json:"lastAppliedRevision,omitempty"`

	// lastFailedRevision is the revision that last failed.
	LastFailedRevision *string `json:"lastFailedRevision,omitempty"`

	// lastFailureMessage is the error of Terraform for that revision.
	LastFailureMessage *string `json:"lastFailureMessage,omitempty"`

	// outputs of Terraform.
	// +optional
	Outputs map[string]string `json:"outputs,omitzero"`
}

// WorkspaceStatus is the state of a control plane's Workspace.
type WorkspaceStatus struct {
	// ready is true when the Workspace is ready.
	Ready *bool `json:"ready,omitempty"`

	// state of the Workspace: the reason of its Ready condition.
	State *string `json:"state,omitempty"`

	// atProvider is what the provider reported.
	// +kubebuilder:pruning:PreserveUnknownFields
	AtProvider *runtime.RawExtension `json:"atProvider,omitempty"`
}

// FargateProfileStatus is the observed state of a Fargate profile.
type FargateProfileStatus struct {
	// name of the profile.
	Name string `json:"name"`

	// ready is true when the profile is ready.
	Ready *bool `json:"ready,omitempty"`

	// workspaceTemplateApplyName is the WorkspaceTemplateApply of the profile.
	WorkspaceTemplateApplyName *string `json:"workspaceTemplateApplyName,omitempty"`

	// failureReason is the reason of the failure, in CamelCase.
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage describes the failure.
	FailureMessage *string `json:"failureMessage,omitempty"`
}
