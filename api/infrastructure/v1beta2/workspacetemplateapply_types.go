// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
)

const (
	// WorkspaceTemplateApplyFinalizer keeps a WorkspaceTemplateApply until its Workspace is gone, or left behind on purpose.
	WorkspaceTemplateApplyFinalizer = "infrastructure.cluster.x-k8s.io/workspacetemplateapply"
	// LegacyWorkspaceTemplateApplyFinalizer is what the older CAPT put in its place.
	LegacyWorkspaceTemplateApplyFinalizer = "infrastructure.cluster.x-k8s.io/finalizer"
)

// WorkspaceTemplateApplySpec says which template is applied, with which variables, to which Workspace.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.workspaceName) || !has(self.workspaceName) || self.workspaceName == oldSelf.workspaceName",message="workspaceName is immutable once set: another one would be another Workspace, and the cloud resources of this one would be forgotten",fieldPath=".workspaceName",reason=FieldValueForbidden
type WorkspaceTemplateApplySpec struct {
	// templateRef names the WorkspaceTemplate.
	// +required
	TemplateRef WorkspaceTemplateReference `json:"templateRef,omitempty,omitzero"`

	// workspaceName is the Workspace this object owns. It is set at creation by the naming scheme, or by captctl on
	// adoption, so that a lost status never loses the Workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkspaceName string `json:"workspaceName,omitempty"`

	// variables take the place of placeholders in the template (docs/templates.md).
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:MaxProperties=512
	Variables map[string]string `json:"variables,omitempty"`

	// writeConnectionSecretToRef names the Secret that receives all outputs; it takes the place of the one the template
	// names. Its namespace must be this object's own, which is the default.
	// +optional
	WriteConnectionSecretToRef *terraform.SecretReference `json:"writeConnectionSecretToRef,omitempty"`

	// waitForSecrets are Secrets that must exist, with the keys non-empty, before the Workspace is created or changed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	WaitForSecrets []SecretDependency `json:"waitForSecrets,omitempty"`

	// waitForWorkspaces are Workspaces that must be up to date before the Workspace is created or changed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	WaitForWorkspaces []WorkspaceDependency `json:"waitForWorkspaces,omitempty"`

	// deletionPolicy says what becomes of the Workspace when this object is deleted: Delete (the default) or Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// SecretDependency is a Secret that is waited for.
type SecretDependency struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace of the Secret; only the WorkspaceTemplateApply's own is permitted, which is the default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// keys that must be there and not empty. Without any, one non-empty key of whatever name is enough.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Keys []string `json:"keys,omitempty"`
}

// WorkspaceDependency is a Workspace that is waited for.
type WorkspaceDependency struct {
	// name of the Workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace of the Workspace, or of the WorkspaceTemplateApply it belongs to; the default is this object's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// WorkspaceTemplateApplyStatus is the observed state of the Workspace.
// +kubebuilder:validation:MinProperties=1
type WorkspaceTemplateApplyStatus struct {
	// conditions are Ready, Synced, DependenciesReady, Rendered, Paused, Deleting and WorkspaceConflict.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// workspaceRef is the Workspace that was created or adopted.
	// +optional
	WorkspaceRef *WorkspaceReference `json:"workspaceRef,omitempty"`

	// workspaceName is the name of the Workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkspaceName string `json:"workspaceName,omitempty"`

	// writtenGeneration is the generation of this object with which the Workspace was last seen written as it was rendered.
	// +optional
	// +kubebuilder:validation:Minimum=1
	WrittenGeneration int64 `json:"writtenGeneration,omitempty"`

	// lastUpdate is the last change of the Workspace, and whether the provider has seen it.
	// +optional
	LastUpdate *WorkspaceUpdate `json:"lastUpdate,omitempty"`

	// startedTime is when Terraform began to apply what it applies now; absent while it has not begun, and when it is done.
	// +optional
	StartedTime *metav1.Time `json:"startedTime,omitempty"`

	// applied is True once Terraform has applied the Workspace.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Applied metav1.ConditionStatus `json:"applied,omitempty"`

	// lastAppliedTime is when the Workspace was last seen up to date with a new revision.
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`

	// lastAppliedRevision is the hash of the rendered Workspace that was last applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`

	// lastFailedRevision is the hash of the rendered Workspace on which Terraform last failed; it is empty once a later
	// apply succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastFailedRevision string `json:"lastFailedRevision,omitempty"`

	// lastFailureMessage is what Terraform said then, shortened and without secrets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	LastFailureMessage string `json:"lastFailureMessage,omitempty"`

	// lastFailureClass says what kind of failure it was: Auth, Quota, Throttle, Lock, Timeout, Config, Interrupted, Network or
	// Unknown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	LastFailureClass string `json:"lastFailureClass,omitempty"`

	// missingDependencies are what spec.waitForSecrets and spec.waitForWorkspaces name and what is not there, or not ready.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4224
	MissingDependencies []MissingDependency `json:"missingDependencies,omitempty"`

	// outputs are the Terraform outputs that may be published: strings as they are, others as JSON.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// MissingDependency is a Secret, a key of it, or a Workspace that is waited for.
type MissingDependency struct {
	// kind is Secret or Workspace.
	// +required
	// +kubebuilder:validation:Enum=Secret;Workspace
	Kind string `json:"kind,omitempty"`

	// name of the Secret or the Workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key of the Secret that is missing or empty; empty when the whole Secret is.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`

	// message says what is wrong with it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// since is when it was first seen missing.
	// +required
	Since *metav1.Time `json:"since,omitempty"`
}

// WorkspaceReference is a Workspace.
type WorkspaceReference struct {
	// apiVersion of the Workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the Workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// name of the Workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace of the Workspace; empty in the cluster scope.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// uid of the Workspace.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	UID types.UID `json:"uid,omitempty"`

	// externalName is where the Workspace has its Terraform state. Should the Workspace be made again, it gets the same.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ExternalName string `json:"externalName,omitempty"`
}

// WorkspaceUpdate is what a Workspace was when CAPT last changed it.
type WorkspaceUpdate struct {
	// generation of the Workspace with the change.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// statusHash is a hash of the status that the Workspace had then. As soon as it has another one, the provider has seen
	// the change; the hash is empty from then on, since the status may become what it was.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	StatusHash string `json:"statusHash,omitempty"`
}

// WorkspaceTemplateApply applies a WorkspaceTemplate: it owns one Workspace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=workspacetemplateapplies,scope=Namespaced,shortName=wta;wtapply,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Workspace",type=string,JSONPath=`.spec.workspaceName`
// +kubebuilder:printcolumn:name="Synced",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef.name`,priority=1
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.lastAppliedRevision`,priority=1
type WorkspaceTemplateApply struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec WorkspaceTemplateApplySpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status WorkspaceTemplateApplyStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (a *WorkspaceTemplateApply) GetConditions() []metav1.Condition { return a.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (a *WorkspaceTemplateApply) SetConditions(conditions []metav1.Condition) {
	a.Status.Conditions = conditions
}

// TemplateKey is the namespace and name of the template that the object refers to.
func (a *WorkspaceTemplateApply) TemplateKey() types.NamespacedName {
	return a.Spec.TemplateRef.Key(a.Namespace)
}

// DependencyKey is the namespace and name of a Workspace that the object waits for. A cluster-wide one has no namespace, but
// its WorkspaceTemplateApply has.
func (a *WorkspaceTemplateApply) DependencyKey(dependency WorkspaceDependency) types.NamespacedName {
	if dependency.Namespace == "" {
		return types.NamespacedName{Namespace: a.Namespace, Name: dependency.Name}
	}
	return types.NamespacedName{Namespace: dependency.Namespace, Name: dependency.Name}
}

// WorkspaceTemplateApplyList is a list of WorkspaceTemplateApplies.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateApplyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplateApply `json:"items"`
}
