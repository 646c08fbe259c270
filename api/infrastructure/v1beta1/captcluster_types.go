// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The CEL rules of CAPTClusterSpec reject mistakes that v1beta2 cannot express, and that conversion would therefore hide. An object that
// already has such a mistake can still be changed in other fields.

// CAPTClusterSpec describes the network of a cluster.
// +kubebuilder:validation:XValidation:rule="((has(self.existingVpcId) && self.existingVpcId != \"\") != has(self.vpcTemplateRef)) || (oldSelf.hasValue() && ((has(oldSelf.value().existingVpcId) && oldSelf.value().existingVpcId != \"\") == has(oldSelf.value().vpcTemplateRef)))",optionalOldSelf=true,message="exactly one of existingVpcId and vpcTemplateRef must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.retainVpcOnDelete) || !self.retainVpcOnDelete || has(self.vpcTemplateRef) || (oldSelf.hasValue() && has(oldSelf.value().retainVpcOnDelete) && oldSelf.value().retainVpcOnDelete && !has(oldSelf.value().vpcTemplateRef))",optionalOldSelf=true,message="retainVpcOnDelete is only used with vpcTemplateRef: CAPT never deletes an existing VPC. Remove retainVpcOnDelete",fieldPath=".retainVpcOnDelete",reason=FieldValueForbidden
type CAPTClusterSpec struct {
	// region is the AWS region.
	Region string `json:"region"`

	// vpcTemplateRef names the WorkspaceTemplate that creates the VPC. Set either this field or existingVpcId.
	VPCTemplateRef *WorkspaceTemplateReference `json:"vpcTemplateRef,omitempty"`

	// existingVpcId is the ID of an existing VPC, which CAPT does not manage.
	ExistingVPCID *string `json:"existingVpcId,omitempty"`

	// retainVpcOnDelete leaves the VPC when the CAPTCluster is deleted. It has an effect only with vpcTemplateRef.
	RetainVPCOnDelete *bool `json:"retainVpcOnDelete,omitempty"`

	// vpcConfig configures the VPC.
	VPCConfig *VPCConfig `json:"vpcConfig,omitempty"`

	// workspaceTemplateApplyName is the WorkspaceTemplateApply in use. CAPT writes it.
	WorkspaceTemplateApplyName *string `json:"workspaceTemplateApplyName,omitempty"`
}

// VPCConfig configures a VPC.
type VPCConfig struct {
	// name of the VPC; the default is the name of the CAPTCluster with "-vpc" appended.
	Name *string `json:"name,omitempty"`
}

// CAPTClusterStatus is the observed state of the network of a cluster.
type CAPTClusterStatus struct {
	// vpcWorkspaceName is the name of the VPC's Workspace.
	VPCWorkspaceName *string `json:"vpcWorkspaceName,omitempty"`

	// vpcId is the ID of the VPC.
	VPCID *string `json:"vpcId,omitempty"`

	// ready is true once the network exists.
	Ready *bool `json:"ready,omitempty"`

	// failureReason is the reason of a failure that the user must correct, in CamelCase.
	FailureReason *string `json:"failureReason,omitempty"`

	// failureMessage describes the failure.
	FailureMessage *string `json:"failureMessage,omitempty"`

	// failureDomains are the availability zones of the VPC.
	// +optional
	FailureDomains map[string]FailureDomainSpec `json:"failureDomains,omitzero"`

	// conditions of the CAPTCluster.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitzero"`

	// workspaceTemplateStatus is the state of the VPC's WorkspaceTemplateApply.
	WorkspaceTemplateStatus *CAPTClusterWorkspaceTemplateStatus `json:"workspaceTemplateStatus,omitempty"`

	// conversionData is the part of status that only v1beta2 has, for the conversion between the versions.
	ConversionData string `json:"conversionData,omitempty"`
}

// FailureDomainSpec is an availability zone.
type FailureDomainSpec struct {
	// controlPlane is true if control plane machines can run in the zone.
	ControlPlane *bool `json:"controlPlane,omitempty"`

	// attributes of the zone.
	// +optional
	Attributes map[string]string `json:"attributes,omitzero"`
}

// CAPTClusterWorkspaceTemplateStatus is the state of the VPC's WorkspaceTemplateApply.
type CAPTClusterWorkspaceTemplateStatus struct {
	// ready is true when the Workspace is up to date.
	Ready *bool `json:"ready,omitempty"`

	// lastAppliedRevision is the revision that was last applied.
	LastAppliedRevision *string `json:"lastAppliedRevision,omitempty"`

	// lastFailedRevision is the revision that last failed.
	LastFailedRevision *string `json:"lastFailedRevision,omitempty"`

	// lastFailureMessage is the error of Terraform for that revision.
	LastFailureMessage *string `json:"lastFailureMessage,omitempty"`

	// lastAppliedTime is the time of the last apply.
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`

	// workspaceName is the name of the Workspace.
	WorkspaceName *string `json:"workspaceName,omitempty"`
}

// CAPTCluster is the network of an EKS cluster: the InfraCluster of Cluster API.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="infrastructure.cluster.x-k8s.io/v1beta1 CAPTCluster is deprecated; use infrastructure.cluster.x-k8s.io/v1beta2, to which captctl convert converts manifests"
// +kubebuilder:resource:path=captclusters,scope=Namespaced,shortName=captc,categories=cluster-api;capt
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="VPC-ID",type=string,JSONPath=`.status.vpcId`
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.metadata.annotations['capt\.cluster\.x-k8s\.io/endpoint']`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec CAPTClusterSpec `json:"spec,omitzero"`
	// +optional
	Status CAPTClusterStatus `json:"status,omitzero"`
}

// CAPTClusterList is a list of CAPTClusters.
//
// +kubebuilder:object:root=true
type CAPTClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTCluster `json:"items"`
}
