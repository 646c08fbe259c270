// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
