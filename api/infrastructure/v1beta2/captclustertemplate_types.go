// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTClusterTemplateSpec is the spec of a CAPTClusterTemplate.
type CAPTClusterTemplateSpec struct {
	// template of the CAPTClusters.
	// +required
	Template CAPTClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// CAPTClusterTemplateResource is the CAPTCluster that Cluster API creates from the template.
type CAPTClusterTemplateResource struct {
	// metadata is copied to the CAPTCluster.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is copied to the CAPTCluster.
	// +required
	Spec CAPTClusterTemplateResourceSpec `json:"spec,omitempty,omitzero"`
}

// CAPTClusterTemplate is the template of CAPTClusters in a ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captclustertemplates,scope=Namespaced,shortName=captct,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.template.spec.region`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template.
	// +required
	Spec CAPTClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// CAPTClusterTemplateList is a list of CAPTClusterTemplates.
//
// +kubebuilder:object:root=true
type CAPTClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTClusterTemplate `json:"items"`
}
