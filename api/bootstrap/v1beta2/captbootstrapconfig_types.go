// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTBootstrapConfigSpec has no fields: EKS bootstraps the nodes of its node groups.
type CAPTBootstrapConfigSpec struct{}

// CAPTBootstrapConfigStatus is the same for each object, and set by the API server.
// +kubebuilder:validation:MinProperties=1
type CAPTBootstrapConfigStatus struct {
	// initialization is part of the Cluster API contract.
	// +optional
	Initialization CAPTBootstrapConfigInitializationStatus `json:"initialization,omitempty,omitzero"`

	// dataSecretName is part of the contract, and empty: nodes need no bootstrap data.
	// +optional
	// +kubebuilder:validation:MaxLength=0
	DataSecretName *string `json:"dataSecretName,omitempty"`
}

// CAPTBootstrapConfigInitializationStatus is part of the Cluster API contract.
// +kubebuilder:validation:MinProperties=1
type CAPTBootstrapConfigInitializationStatus struct {
	// dataSecretCreated is true: Cluster API has nothing to wait for.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// CAPTBootstrapConfig is the BootstrapConfig of Cluster API for node groups, whose nodes are bootstrapped by EKS.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captbootstrapconfigs,scope=Namespaced,shortName=captbc,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,priority=1
type CAPTBootstrapConfig struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec has no fields.
	// +optional
	Spec CAPTBootstrapConfigSpec `json:"spec,omitempty,omitzero"`

	// status reports that nothing needs to be created.
	// +optional
	// +kubebuilder:default={initialization: {dataSecretCreated: true}, dataSecretName: ""}
	Status CAPTBootstrapConfigStatus `json:"status,omitempty,omitzero"`
}

// CAPTBootstrapConfigList is a list of CAPTBootstrapConfigs.
//
// +kubebuilder:object:root=true
type CAPTBootstrapConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTBootstrapConfig `json:"items"`
}

// CAPTBootstrapConfigTemplateSpec is the spec of a CAPTBootstrapConfigTemplate.
type CAPTBootstrapConfigTemplateSpec struct {
	// template of the CAPTBootstrapConfigs.
	// +optional
	Template CAPTBootstrapConfigTemplateResource `json:"template,omitempty,omitzero"`
}

// CAPTBootstrapConfigTemplateResource is the CAPTBootstrapConfig that Cluster API creates from the template.
type CAPTBootstrapConfigTemplateResource struct {
	// metadata is copied to the CAPTBootstrapConfig.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is copied to the CAPTBootstrapConfig, and has no fields.
	// +optional
	Spec CAPTBootstrapConfigSpec `json:"spec,omitempty,omitzero"`
}

// CAPTBootstrapConfigTemplate is the template of CAPTBootstrapConfigs in a ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captbootstrapconfigtemplates,scope=Namespaced,shortName=captbct,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTBootstrapConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template.
	// +optional
	Spec CAPTBootstrapConfigTemplateSpec `json:"spec,omitempty,omitzero"`
}

// CAPTBootstrapConfigTemplateList is a list of CAPTBootstrapConfigTemplates.
//
// +kubebuilder:object:root=true
type CAPTBootstrapConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTBootstrapConfigTemplate `json:"items"`
}
