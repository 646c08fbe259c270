// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTControlPlaneTemplateSpec is the spec of a CAPTControlPlaneTemplate.
type CAPTControlPlaneTemplateSpec struct {
	// template of the CAPTControlPlanes.
	// +required
	Template CAPTControlPlaneTemplateResource `json:"template"`
}

// CAPTControlPlaneTemplateResource is the CAPTControlPlane that Cluster API creates from the template. The topology controller
// adds the version.
type CAPTControlPlaneTemplateResource struct {
	// metadata is copied to the CAPTControlPlane.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is copied to the CAPTControlPlane.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.fargateProfiles) || self.fargateProfiles.all(p, !has(p.workspaceTemplateApplyRef))",message="workspaceTemplateApplyRef refers to an object of one Cluster and cannot be part of a template. Remove it",fieldPath=".fargateProfiles",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.eksClusterName)",message="all Clusters of the ClusterClass would have the same EKS cluster. Set it with a patch of the ClusterClass (docs/clusterclass.md)",fieldPath=".eksClusterName",reason=FieldValueForbidden
	Spec CAPTControlPlaneTemplateResourceSpec `json:"spec"`
}

// CAPTControlPlaneTemplate is the template of CAPTControlPlanes in a ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captcontrolplanetemplates,scope=Namespaced,shortName=captcpt,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.spec.workspaceTemplateRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template.
	// +required
	Spec CAPTControlPlaneTemplateSpec `json:"spec"`
}

// CAPTControlPlaneTemplateList is a list of CAPTControlPlaneTemplates.
//
// +kubebuilder:object:root=true
type CAPTControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTControlPlaneTemplate `json:"items"`
}
