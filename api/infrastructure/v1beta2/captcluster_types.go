// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTClusterFinalizer keeps a CAPTCluster until its VPC is destroyed, or retained on purpose. CAPT v0.3 used the
// same finalizer.
const CAPTClusterFinalizer = "infrastructure.cluster.x-k8s.io/captcluster"

// CAPTClusterSpec describes the VPC of a cluster.
// +kubebuilder:validation:MinProperties=2
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.workspaceTemplateApplyRef) || !has(self.workspaceTemplateApplyRef) || self.workspaceTemplateApplyRef == oldSelf.workspaceTemplateApplyRef",message="workspaceTemplateApplyRef is immutable: another WorkspaceTemplateApply is another VPC. Restore the reference",fieldPath=".workspaceTemplateApplyRef",reason=FieldValueForbidden
type CAPTClusterSpec struct {
	CAPTClusterTemplateResourceSpec `json:",inline"`

	// workspaceTemplateApplyRef refers to the WorkspaceTemplateApply of the VPC. It is set once: by CAPT for a new VPC, or by
	// captctl on adoption.
	// +optional
	WorkspaceTemplateApplyRef WorkspaceTemplateApplyReference `json:"workspaceTemplateApplyRef,omitempty,omitzero"`
}

// CAPTClusterTemplateResourceSpec is the part of a CAPTCluster that templates have as well.
// +kubebuilder:validation:XValidation:rule="!has(self.recovery) || has(self.vpc.template)",message="recovery is only used with vpc.template: CAPT does not manage an existing VPC. Remove recovery",fieldPath=".recovery",reason=FieldValueForbidden
type CAPTClusterTemplateResourceSpec struct {
	// region is the AWS region, for example ap-northeast-1 or us-gov-west-1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="region is immutable: the VPC and the control plane cannot move. To use another region, create a new Cluster",reason=FieldValueForbidden
	Region string `json:"region"`

	// vpc is the VPC: an existing one, or one created from a WorkspaceTemplate.
	// +required
	VPC VPC `json:"vpc"`

	// recovery is the automatic recovery of a VPC that Terraform creates; absent means the defaults.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.actions) || self.actions.all(a, a.type in ['Requeue', 'Reapply', 'ClearInterruptedCreate'])",message="RecreateFargateProfile and RecreateWorkspace are for control planes only. Use Requeue, Reapply or ClearInterruptedCreate",fieldPath=".actions"
	// +kubebuilder:validation:XValidation:rule="!has(self.onUnhealthy)",message="only control planes have health checks. Remove onUnhealthy",fieldPath=".onUnhealthy",reason=FieldValueForbidden
	Recovery *RecoveryStrategy `json:"recovery,omitempty"`

	// timeouts of waits and of the deletion; Terraform has vpc.template.timeoutSeconds.
	// +optional
	Timeouts CAPTClusterTimeouts `json:"timeouts,omitempty,omitzero"`

	// deletionProtection is Enabled or Disabled (the default). Enabled rejects the deletion of the CAPTCluster and of its Cluster, and
	// keeps the VPC. To delete them, first set it to Disabled.
	// +optional
	DeletionProtection DeletionProtection `json:"deletionProtection,omitempty"`
}

// CAPTClusterTimeouts are the timeouts of a VPC that do not depend on Terraform.
// +kubebuilder:validation:MinProperties=1
type CAPTClusterTimeouts struct {
	WaitTimeouts `json:",inline"`
}

// VPC is an existing VPC, or one created from a WorkspaceTemplate.
// +kubebuilder:validation:XValidation:rule="has(self.existingID) != has(self.template)",message="exactly one of existingID and template must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.connectionSecretRef) || has(self.existingID)",message="connectionSecretRef is only used with existingID: a VPC created from a template has its own connection Secret. Remove connectionSecretRef",fieldPath=".connectionSecretRef",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.existingID) == has(oldSelf.existingID)",message="existingID and template cannot replace each other: a Cluster cannot move to another VPC. Create a new Cluster"
type VPC struct {
	// existingID is the ID of an existing VPC, which CAPT uses but does not manage.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^vpc-[0-9a-z]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="existingID is immutable: a Cluster cannot move to another VPC. Create a new Cluster",reason=FieldValueForbidden
	ExistingID string `json:"existingID,omitempty"`

	// connectionSecretRef refers to a Secret with the key vpc_config, for templates that need the subnets of an existing VPC.
	// +optional
	ConnectionSecretRef LocalSecretReference `json:"connectionSecretRef,omitempty,omitzero"`

	// template creates the VPC with Terraform.
	// +optional
	Template VPCTemplate `json:"template,omitempty,omitzero"`
}

// VPCTemplate creates a VPC with Terraform.
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",message="name is immutable: Terraform would create another VPC. Restore the name",fieldPath=".name",reason=FieldValueForbidden
type VPCTemplate struct {
	// ref refers to the WorkspaceTemplate.
	// +required
	Ref WorkspaceTemplateReference `json:"ref"`

	// name of the VPC; the default is the name of the CAPTCluster with "-vpc" appended.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// variables for the template. Variables that CAPT sets take precedence.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=256
	Variables Variables `json:"variables,omitempty"`

	// deletionPolicy is what happens to the VPC when the CAPTCluster is deleted: Delete (the default) or Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// timeoutSeconds is the time that Terraform may take to create or update the VPC before Ready has the reason VPCReadyTimeout; the
	// default is 900. It starts when Terraform starts. CAPT keeps waiting.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// IsDefined reports whether the VPC is created from a template.
func (t *VPCTemplate) IsDefined() bool { return !reflect.ValueOf(t).Elem().IsZero() }

// CAPTClusterStatus is the observed state of the VPC of a cluster.
// +kubebuilder:validation:MinProperties=1
type CAPTClusterStatus struct {
	// conditions are Ready (mirrored by Cluster API as InfrastructureReady), VPCReady, Degraded, Failed, Recovering, VPCReplaced, FieldsConsumed,
	// Paused, Deleting and AdoptionRequired.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is part of the Cluster API contract.
	// +optional
	Initialization CAPTClusterInitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains are the availability zones of the VPC, from the output availability_zones; part of the contract.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	Lifecycle `json:",inline"`

	// vpc is the VPC of the cluster.
	// +optional
	VPC VPCStatus `json:"vpc,omitempty,omitzero"`

	// workspaceTemplateApply is the WorkspaceTemplateApply in use.
	// +optional
	WorkspaceTemplateApply *WorkspaceTemplateApplySummary `json:"workspaceTemplateApply,omitempty"`

	// endpoint is host:port of the API server, copied from the Cluster for the output of kubectl get.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Endpoint string `json:"endpoint,omitempty"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conversionData is the part of status that only v1beta1 has, for the conversion between the versions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	ConversionData string `json:"conversionData,omitempty"`
}

// CAPTClusterInitializationStatus is part of the Cluster API contract.
// +kubebuilder:validation:MinProperties=1
type CAPTClusterInitializationStatus struct {
	// provisioned is true once the VPC exists, and stays true.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// VPCStatus is the VPC of a cluster.
// +kubebuilder:validation:MinProperties=1
type VPCStatus struct {
	// id is the ID of the VPC that the cluster was created in: the first one that Terraform reported. It is not overwritten while a control
	// plane exists that was created in it, because a control plane cannot move.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ID string `json:"id,omitempty"`

	// replacedBy is the ID of the VPC that Terraform reports now, if that is another one (condition VPCReplaced).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ReplacedBy string `json:"replacedBy,omitempty"`
}

// CAPTCluster is the VPC of an EKS cluster: the InfraCluster of Cluster API.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captclusters,scope=Namespaced,shortName=captc,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="VPC-ID",type=string,JSONPath=`.status.vpc.id`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`,priority=1
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.status.workspaceTemplateApply.workspaceName`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
type CAPTCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the VPC.
	// +required
	Spec CAPTClusterSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state of the VPC.
	// +optional
	Status CAPTClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (c *CAPTCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (c *CAPTCluster) SetConditions(conditions []metav1.Condition) { c.Status.Conditions = conditions }

// GetLifecycle returns the part of status that all owners have, to read and write it.
func (c *CAPTCluster) GetLifecycle() *Lifecycle { return &c.Status.Lifecycle }

// GetWorkspaceTemplateRef returns the reference to the WorkspaceTemplate of the VPC; the zero value for an existing VPC.
func (c *CAPTCluster) GetWorkspaceTemplateRef() WorkspaceTemplateReference {
	return c.Spec.VPC.Template.Ref
}

// IsDeletionProtected reports whether the object is protected from deletion.
func (c *CAPTCluster) IsDeletionProtected() bool {
	return c.Spec.DeletionProtection == DeletionProtectionEnabled
}

// CAPTClusterList is a list of CAPTClusters.
//
// +kubebuilder:object:root=true
type CAPTClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTCluster `json:"items"`
}
