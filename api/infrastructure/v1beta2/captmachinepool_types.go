// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// CAPTMachinePoolFinalizer keeps a CAPTMachinePool until its node group is destroyed.
const CAPTMachinePoolFinalizer = "infrastructure.cluster.x-k8s.io/captmachinepool"

// CAPTMachinePoolSpec describes an EKS node group.
// +kubebuilder:validation:XValidation:rule="has(self.nodeGroupName) == has(oldSelf.nodeGroupName) && (!has(self.nodeGroupName) || self.nodeGroupName == oldSelf.nodeGroupName)",message="nodeGroupName is immutable: Terraform would replace the node group. Restore the name, or create a new MachinePool",fieldPath=".nodeGroupName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.workspaceTemplateApplyRef) || !has(self.workspaceTemplateApplyRef) || self.workspaceTemplateApplyRef == oldSelf.workspaceTemplateApplyRef",message="workspaceTemplateApplyRef is immutable: another WorkspaceTemplateApply is another node group. Restore the reference",fieldPath=".workspaceTemplateApplyRef",reason=FieldValueForbidden
type CAPTMachinePoolSpec struct {
	CAPTMachinePoolTemplateResourceSpec `json:",inline"`

	// nodeGroupName is the name of the EKS node group, which is unique in the EKS cluster. It defaults to the name of the MachinePool, is needed
	// if EKS does not accept that name, and cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_-]*$`
	NodeGroupName string `json:"nodeGroupName,omitempty"`

	// workspaceTemplateApplyRef refers to the WorkspaceTemplateApply of the node group. It is set once: by CAPT for a new node group, or by a
	// user for a node group that exists.
	// +optional
	WorkspaceTemplateApplyRef WorkspaceTemplateApplyReference `json:"workspaceTemplateApplyRef,omitempty,omitzero"`

	// providerID is the ARN of the node group, from the output node_group_arn. It is set by CAPT.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// providerIDList are the provider IDs of the nodes of the pool. It is set by CAPT, and part of the Cluster API contract.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	ProviderIDList []string `json:"providerIDList,omitempty"`
}

// CAPTMachinePoolTemplateResourceSpec is the part of a CAPTMachinePool that templates have as well.
type CAPTMachinePoolTemplateResourceSpec struct {
	// workspaceTemplateRef refers to the WorkspaceTemplate of the node group.
	// +required
	WorkspaceTemplateRef WorkspaceTemplateReference `json:"workspaceTemplateRef,omitzero"`

	// scaling has the limits of the size of the node group. Annotations of the MachinePool for the cluster autoscaler take precedence.
	// +optional
	Scaling MachinePoolScaling `json:"scaling,omitempty,omitzero"`

	// variables for the template. Variables that CAPT sets take precedence.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=256
	Variables Variables `json:"variables,omitempty"`

	// timeouts of the phases of the node group.
	// +optional
	Timeouts MachinePoolTimeouts `json:"timeouts,omitempty,omitzero"`

	// recovery is the automatic recovery from failures of Terraform; absent means the defaults.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.actions) || self.actions.all(a, a.type in ['Requeue', 'Reapply', 'ClearInterruptedCreate'])",message="RecreateFargateProfile and RecreateWorkspace are for control planes only. Use Requeue, Reapply or ClearInterruptedCreate",fieldPath=".actions"
	// +kubebuilder:validation:XValidation:rule="!has(self.onUnhealthy)",message="only control planes have health checks. Remove onUnhealthy",fieldPath=".onUnhealthy",reason=FieldValueForbidden
	Recovery *RecoveryStrategy `json:"recovery,omitempty"`

	// deletionProtection is Enabled or Disabled (the default). Enabled rejects the deletion of the CAPTMachinePool, of its MachinePool and of
	// its Cluster, and keeps the node group. To delete them, first set it to Disabled.
	// +optional
	DeletionProtection DeletionProtection `json:"deletionProtection,omitempty"`
}

// MachinePoolScaling has the limits of the size of a node group.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || !has(self.maxSize) || self.minSize <= self.maxSize",message="minSize must not be above maxSize",fieldPath=".minSize"
type MachinePoolScaling struct {
	// minSize is the minimum number of nodes. It defaults to spec.replicas of the MachinePool, and to 0 if another client manages these.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MinSize *int32 `json:"minSize,omitempty"`

	// maxSize is the maximum number of nodes. It defaults to spec.replicas of the MachinePool, and is required if another client manages these.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxSize *int32 `json:"maxSize,omitempty"`
}

// MachinePoolTimeouts are the timeouts of the phases of a node group.
// +kubebuilder:validation:MinProperties=1
type MachinePoolTimeouts struct {
	WaitTimeouts `json:",inline"`

	// nodeGroupSeconds is the time that Terraform may take to create or update the node group before Ready has the reason NodeGroupTimeout;
	// the default is 1800. It starts when Terraform starts. CAPT keeps waiting.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	NodeGroupSeconds int32 `json:"nodeGroupSeconds,omitempty"`

	// nodesReadySeconds is the time that fewer nodes than wanted may be ready before the pool is Degraded; the default is 900.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	NodesReadySeconds int32 `json:"nodesReadySeconds,omitempty"`
}

// CAPTMachinePoolStatus is the observed state of a node group.
// +kubebuilder:validation:MinProperties=1
type CAPTMachinePoolStatus struct {
	// conditions are Ready, NodeGroupReady, NodesKnown, NodesReady, Degraded, Failed, Recovering, ReplicasOutOfBounds, KubeletVersionsDiffer,
	// FieldsConsumed, Paused and Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is part of the Cluster API contract.
	// +optional
	Initialization CAPTMachinePoolInitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready is initialization.provisioned, under the name of the older contract, which the MachinePool controller of Cluster API v1.14 still reads.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	Lifecycle `json:",inline"`

	// replicas is the number of nodes, or the output node_group_size while the nodes are not known; part of the contract.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of nodes that are ready; absent while the nodes are not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// wantedReplicas is the number of nodes that the pool is meant to have; absent while that is not known.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WantedReplicas *int32 `json:"wantedReplicas,omitempty"`

	// instances are the nodes, sorted by name; part of the contract. Of more than 1000 nodes, the first 1000 are listed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	Instances []MachinePoolInstance `json:"instances,omitempty"`

	// version is the Kubernetes version of the node group, for example v1.35.0.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// workspaceTemplateApply is the WorkspaceTemplateApply in use.
	// +optional
	WorkspaceTemplateApply *WorkspaceTemplateApplySummary `json:"workspaceTemplateApply,omitempty"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// CAPTMachinePoolInitializationStatus is part of the Cluster API contract.
// +kubebuilder:validation:MinProperties=1
type CAPTMachinePoolInitializationStatus struct {
	// provisioned is true once the node group exists, and stays true.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// MachinePoolInstance is a node of a node group.
type MachinePoolInstance struct {
	// name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// providerID identifies the instance, for example aws:///eu-west-1a/i-0123456789abcdef0.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// version is the version of the kubelet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// ready is true if the condition Ready of the Node is True.
	// +required
	Ready *bool `json:"ready,omitempty"`
}

// CAPTMachinePool is an EKS node group created with Terraform: the InfraMachinePool of Cluster API.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captmachinepools,scope=Namespaced,shortName=captmp,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Wanted",type=integer,JSONPath=`.status.wantedReplicas`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Nodes-Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,priority=1
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.status.workspaceTemplateApply.workspaceName`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Paused",type=string,JSONPath=`.status.conditions[?(@.type=="Paused")].status`,priority=1
type CAPTMachinePool struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the node group.
	// +required
	Spec CAPTMachinePoolSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state of the node group.
	// +optional
	Status CAPTMachinePoolStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (p *CAPTMachinePool) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (p *CAPTMachinePool) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// GetLifecycle returns the part of status that all owners have, to read and write it.
func (p *CAPTMachinePool) GetLifecycle() *Lifecycle { return &p.Status.Lifecycle }

// GetWorkspaceTemplateRef returns the reference to the WorkspaceTemplate of the node group.
func (p *CAPTMachinePool) GetWorkspaceTemplateRef() WorkspaceTemplateReference {
	return p.Spec.WorkspaceTemplateRef
}

// IsDeletionProtected reports whether the object is protected from deletion.
func (p *CAPTMachinePool) IsDeletionProtected() bool {
	return p.Spec.DeletionProtection == DeletionProtectionEnabled
}

// CAPTMachinePoolList is a list of CAPTMachinePools.
//
// +kubebuilder:object:root=true
type CAPTMachinePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachinePool `json:"items"`
}

// CAPTMachinePoolTemplateSpec is the spec of a CAPTMachinePoolTemplate.
type CAPTMachinePoolTemplateSpec struct {
	// template of the CAPTMachinePools.
	// +required
	Template CAPTMachinePoolTemplateResource `json:"template,omitempty,omitzero"`
}

// CAPTMachinePoolTemplateResource is the CAPTMachinePool that Cluster API creates from the template.
type CAPTMachinePoolTemplateResource struct {
	// metadata is copied to the CAPTMachinePool.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is copied to the CAPTMachinePool.
	// +required
	Spec CAPTMachinePoolTemplateResourceSpec `json:"spec,omitempty,omitzero"`
}

// CAPTMachinePoolTemplate is the template of CAPTMachinePools in a ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=captmachinepooltemplates,scope=Namespaced,shortName=captmpt,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.spec.workspaceTemplateRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CAPTMachinePoolTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the template.
	// +required
	Spec CAPTMachinePoolTemplateSpec `json:"spec,omitempty,omitzero"`
}

// CAPTMachinePoolTemplateList is a list of CAPTMachinePoolTemplates.
//
// +kubebuilder:object:root=true
type CAPTMachinePoolTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CAPTMachinePoolTemplate `json:"items"`
}
