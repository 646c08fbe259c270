// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkspaceTemplateSpec is a Terraform module, and how to run it. Its Workspaces are cluster-scoped.
type WorkspaceTemplateSpec struct {
	// template of the Workspaces.
	Template WorkspaceTemplateDefinition `json:"template"`

	// writeConnectionSecretToRef has no effect. The Secret is set in the WorkspaceTemplateApply, or in template.spec.
	WriteConnectionSecretToRef *SecretReference `json:"writeConnectionSecretToRef,omitempty"`
}

// WorkspaceTemplateDefinition is the template of a Workspace.
type WorkspaceTemplateDefinition struct {
	// metadata describes the template to users.
	Metadata *WorkspaceTemplateMetadata `json:"metadata,omitempty"`

	// spec of the Workspace, with placeholders (docs/templates.md).
	Spec WorkspaceSpec `json:"spec"`
}

// WorkspaceTemplateMetadata describes a template to users.
type WorkspaceTemplateMetadata struct {
	// description of the template.
	Description *string `json:"description,omitempty"`

	// version of the template.
	Version *string `json:"version,omitempty"`

	// tags of the template.
	// +optional
	Tags map[string]string `json:"tags,omitzero"`
}

// WorkspaceTemplateStatus is the observed state of a template.
type WorkspaceTemplateStatus struct {
	// workspaceName is the name of a Workspace that was created from the template.
	WorkspaceName *string `json:"workspaceName,omitempty"`

	// conditions of the template.
	// +optional
	Conditions []Condition `json:"conditions,omitzero"`

	// conversionData is the part of status that only v1beta2 has, for the conversion between the versions.
	ConversionData string `json:"conversionData,omitempty"`
}

// WorkspaceTemplate specifies a Terraform module and how to run it.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 WorkspaceTemplate is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2, to which captctl convert converts manifests"
// +kubebuilder:resource:path=workspacetemplates,scope=Namespaced,shortName=wt,categories=cluster-api;capt
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.status.workspaceName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkspaceTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec WorkspaceTemplateSpec `json:"spec,omitzero"`
	// +optional
	Status WorkspaceTemplateStatus `json:"status,omitzero"`
}

// WorkspaceTemplateList is a list of WorkspaceTemplates.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplate `json:"items"`
}
