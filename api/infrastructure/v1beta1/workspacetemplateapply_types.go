// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkspaceTemplateApplySpec specifies the template to apply and its variables.
type WorkspaceTemplateApplySpec struct {
	// templateRef names the WorkspaceTemplate.
	TemplateRef WorkspaceTemplateReference `json:"templateRef"`

	// writeConnectionSecretToRef names the Secret that receives all outputs.
	WriteConnectionSecretToRef *SecretReference `json:"writeConnectionSecretToRef,omitempty"`

	// variables replace placeholders in the template (docs/templates.md).
	// +optional
	Variables map[string]string `json:"variables,omitzero"`

	// waitForSecrets are Secrets that must exist before the Workspace is created.
	// +optional
	WaitForSecrets []SecretReference `json:"waitForSecrets,omitzero"`

	// waitForWorkspaces are Workspaces that must be ready before the Workspace is created.
	// +optional
	WaitForWorkspaces []WorkspaceReference `json:"waitForWorkspaces,omitzero"`

	// retainWorkspaceOnDelete leaves the Workspace when the WorkspaceTemplateApply is deleted.
	RetainWorkspaceOnDelete *bool `json:"retainWorkspaceOnDelete,omitempty"`
}

// WorkspaceReference names a Workspace.
type WorkspaceReference struct {
	// name of the Workspace.
	Name string `json:"name"`

	// namespace of the Workspace.
	Namespace *string `json:"namespace,omitempty"`
}

// WorkspaceTemplateApplyStatus is the observed state of the Workspace.
type WorkspaceTemplateApplyStatus struct {
	// workspaceName is the name of the Workspace.
	WorkspaceName *string `json:"workspaceName,omitempty"`

	// applied is true once Terraform has applied the template.
	Applied *bool `json:"applied,omitempty"`

	// lastAppliedTime is the time of the last apply.
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`

	// conditions are the conditions of the Workspace.
	// +optional
	Conditions []Condition `json:"conditions,omitzero"`

	// conversionData is the part of status that only v1beta2 has, for the conversion between the versions.
	ConversionData string `json:"conversionData,omitempty"`
}

// WorkspaceTemplateApply applies a WorkspaceTemplate: it owns one Workspace.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 WorkspaceTemplateApply is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2, to which captctl convert converts manifests"
// +kubebuilder:resource:path=workspacetemplateapplies,scope=Namespaced,shortName=wta;wtapply,categories=cluster-api;capt
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.status.workspaceName`
// +kubebuilder:printcolumn:name="Applied",type=boolean,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkspaceTemplateApply struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec WorkspaceTemplateApplySpec `json:"spec,omitzero"`
	// +optional
	Status WorkspaceTemplateApplyStatus `json:"status,omitzero"`
}

// WorkspaceTemplateApplyList is a list of WorkspaceTemplateApplies.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateApplyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplateApply `json:"items"`
}
