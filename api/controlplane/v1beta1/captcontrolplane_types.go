// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
