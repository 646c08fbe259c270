// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CAPTControlPlaneTemplateSpec is the spec of a CAPTControlPlaneTemplate.
type CAPTControlPlaneTemplateSpec struct {
	// template of the CAPTControlPlanes.
	Template CAPTControlPlaneTemplateResource `json:"template"`
}

// CAPTControlPlaneTemplateResource is the template of a CAPTControlPlane.
type CAPTControlPlaneTemplateResource struct {
	// metadata of the CAPTControlPlane.
	Metadata *TemplateMetadata `json:"metadata,omitempty"`

	// spec of the CAPTControlPlane.
	Spec *CAPTControlPlaneSpec `json:"spec,omitempty"`
}

// TemplateMetadata is the part of an object's metadata that CAPT v0.3 accepted in a template. Cluster API takes
// labels and annotations from it.
type TemplateMetadata struct {
	// name has no effect.
	Name *string `json:"name,omitempty"`

	// namespace has no effect.
	Namespace *string `json:"namespace,omitempty"`

	// labels of the CAPTControlPlane.
	// +optional
	Labels map[string]string `json:"labels,omitzero"`

	// annotations of the CAPTControlPlane.
	// +optional
	Annotations map[string]string `json:"annotations,omitzero"`

	// finalizers have no effect.
	// +optional
	Finalizers []string `json:"finalizers,omitzero"`
}

// CAPTControlPlaneTemplate is the template from which a ClusterClass creates CAPTControlPlanes. CAPT v0.3 called the kind
// CaptControlPlaneTemplate, from which Cluster API cannot derive the kind of the control plane.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="controlplane.cluster.x-k8s.io/v1beta1 CAPTControlPlaneTemplate is deprecated; use controlplane.cluster.x-k8s.io/v1beta2, to which captctl convert converts manifests"
// +kubebuilder:resource:path=captcontrolplanetemplates,scope=Namespaced,shortName=captcpt,categories=cluster-api;capt
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec CAPTControlPlaneTemplateSpec `json:"spec,omitzero"`
}

// CAPTControlPlaneTemplateList is a list of CAPTControlPlaneTemplates.
//
// +kubebuilder:object:root=true
type CAPTControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTControlPlaneTemplate `json:"items"`
}
