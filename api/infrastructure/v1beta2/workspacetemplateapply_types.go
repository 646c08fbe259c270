// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
)

const (
	// WorkspaceTemplateApplyFinalizer keeps a WorkspaceTemplateApply until its Workspace is deleted, or retained on purpose.
	WorkspaceTemplateApplyFinalizer = "infrastructure.cluster.x-k8s.io/workspacetemplateapply"
	// LegacyWorkspaceTemplateApplyFinalizer is the finalizer of CAPT v0.3.
	LegacyWorkspaceTemplateApplyFinalizer = "infrastructure.cluster.x-k8s.io/finalizer"
)

// WorkspaceTemplateApplySpec is the template to apply, its variables and its Workspace.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.workspaceName) || !has(self.workspaceName) || self.workspaceName == oldSelf.workspaceName",message="workspaceName is immutable: the cloud resources of the current Workspace would be abandoned. Restore the name",fieldPath=".workspaceName",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.terraformState) == has(oldSelf.terraformState) && (!has(self.terraformState) || self.terraformState == oldSelf.terraformState)",message="terraformState can be set at creation only: with another state, Terraform would create all resources again. Restore the field",fieldPath=".terraformState",reason=FieldValueForbidden
type WorkspaceTemplateApplySpec struct {
	// templateRef refers to the WorkspaceTemplate.
	// +required
	TemplateRef WorkspaceTemplateReference `json:"templateRef"`

	// workspaceName is the name of the Workspace that this object owns. It is set at creation, or by captctl on adoption, so
	// that the Workspace is known even if status is lost.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkspaceName string `json:"workspaceName,omitempty"`

	// terraformState is the Terraform state that this object takes over (docs/adopt.md). The Workspace is created when a plan has shown that Terraform would change
	// no resource. Only users with the right to migrate can set it, at creation.
	// +optional
	TerraformState TerraformState `json:"terraformState,omitempty,omitzero"`

	// variables are the values of the variables of the module, and of the
	// placeholders of the template (docs/templates.md).
	// +optional
	// +mapType=granular
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=512
	Variables Variables `json:"variables,omitempty"`

	// writeConnectionSecretToRef is the Secret to which all outputs are written. It overrides the Secret of the template. Its
	// namespace must be the namespace of this object, which is the default.
	// +optional
	WriteConnectionSecretToRef *terraform.SecretReference `json:"writeConnectionSecretToRef,omitempty"`

	// waitForSecrets are Secrets that must exist, with non-empty keys, before the Workspace is created or updated.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	WaitForSecrets []SecretDependency `json:"waitForSecrets,omitempty"`

	// waitForWorkspaces are Workspaces that must be up to date before the Workspace is created or updated.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	WaitForWorkspaces []WorkspaceDependency `json:"waitForWorkspaces,omitempty"`

	// deletionPolicy is what happens to the Workspace when this object is deleted: Delete (the default) or Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// templateRevision is the revision of the WorkspaceTemplate to apply: the SHA-256 of its content. CAPT sets it if spec.rollout.strategy of
	// the template is Staged, and removes it otherwise.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TemplateRevision string `json:"templateRevision,omitempty"`
}

// TerraformState is a Terraform state that CAPT has not created.
type TerraformState struct {
	// name is the Terraform workspace that has the state; "default" without others.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._~-]+$`
	Name string `json:"name,omitempty"`

	// providerConfig is the ProviderConfig whose backend has the state, as KIND/NAME, or NAME for cluster-wide Workspaces. The template must have it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	ProviderConfig string `json:"providerConfig,omitempty"`
}

// SecretDependency is a Secret that the Workspace depends on.
type SecretDependency struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the Secret; it must be the namespace of the WorkspaceTemplateApply, which is the default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// keys that must exist and not be empty; absent means that any non-empty key is sufficient.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Keys []string `json:"keys,omitempty"`
}

// WorkspaceDependency is a Workspace that the Workspace depends on.
type WorkspaceDependency struct {
	// name of the Workspace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the Workspace, or of its WorkspaceTemplateApply; the default is the namespace of this object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// WorkspaceTemplateApplyStatus is the observed state of the Workspace.
// +kubebuilder:validation:MinProperties=1
type WorkspaceTemplateApplyStatus struct {
	// conditions are Ready, Synced, DependenciesReady, Rendered, Paused, Deleting, WorkspaceConflict, PlanNeverEmpty, CreateRecoverable and
	// AdoptionRequired.
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

	// writtenGeneration is the generation of this object that the Workspace was last rendered from and written with.
	// +optional
	// +kubebuilder:validation:Minimum=1
	WrittenGeneration int64 `json:"writtenGeneration,omitempty"`

	// lastUpdate is the last update of the Workspace by CAPT, and whether the provider has observed it.
	// +optional
	LastUpdate *WorkspaceUpdate `json:"lastUpdate,omitempty"`

	// startedTime is when Terraform started the apply that is in progress; absent when none is in progress.
	// +optional
	StartedTime *metav1.Time `json:"startedTime,omitempty"`

	// applied is True once Terraform has applied the Workspace.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Applied metav1.ConditionStatus `json:"applied,omitempty"`

	// lastAppliedTime is when a new revision was first observed as applied.
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`

	// lastAppliedRevision is the hash of the rendered Workspace that was last applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`

	// templateRevision is the revision of the WorkspaceTemplate that was last applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	TemplateRevision string `json:"templateRevision,omitempty"`

	// writtenTemplateRevision is the revision of the WorkspaceTemplate that the Workspace was last rendered from and written with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	WrittenTemplateRevision string `json:"writtenTemplateRevision,omitempty"`

	// failedTemplateRevision is the revision of the WorkspaceTemplate whose apply last failed; empty once a later apply has succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FailedTemplateRevision string `json:"failedTemplateRevision,omitempty"`

	// assignment is the revision of the WorkspaceTemplate in spec.templateRevision, and since when; absent without one. A staged rollout has a deadline
	// for each user.
	// +optional
	Assignment RevisionAssignment `json:"assignment,omitempty,omitzero"`

	// preview is the plan of Terraform for the revision of the WorkspaceTemplate that a staged rollout is about to assign, or has assigned, or
	// with which captctl migrate apply --prove adopts the Workspace, or takes a Terraform state over; absent before there is a result, and when no preview is requested.
	// +optional
	Preview RevisionPreview `json:"preview,omitempty,omitzero"`

	// plans are the last plans that PlanRequests requested. Nothing depends on them.
	// +optional
	// +listType=map
	// +listMapKey=requestUID
	// +kubebuilder:validation:MaxItems=4
	Plans []RequestedPlan `json:"plans,omitempty"`

	// writtenSpec is a hash of the fields of spec that the Workspace was last rendered from and written with, apart from templateRevision; absent
	// unless spec.rollout of the template holds changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	WrittenSpec string `json:"writtenSpec,omitempty"`

	// appliedTemplate is the WorkspaceTemplate whose content was last applied, as namespace/name. A move to another template waits for its plan, whatever
	// the rollout policy is.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	AppliedTemplate string `json:"appliedTemplate,omitempty"`

	// change is a change of spec that spec.rollout of the template, or the move to another template, holds; absent if there is none.
	// +optional
	Change HeldChange `json:"change,omitempty,omitzero"`

	// lastFailedRevision is the hash of the rendered Workspace whose apply last failed; empty once a later apply has
	// succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastFailedRevision string `json:"lastFailedRevision,omitempty"`

	// lastFailureMessage is the error of Terraform, shortened and without secrets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	LastFailureMessage string `json:"lastFailureMessage,omitempty"`

	// lastFailureClass is the class of the failure: Auth, Quota, Throttle, Lock, Timeout, Config, Interrupted, Network,
	// ProviderPod or Unknown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	LastFailureClass string `json:"lastFailureClass,omitempty"`

	// failureInputs is a hash of the ProviderConfig and the Secrets that the failed Workspace uses; absent while it does not fail.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureInputs string `json:"failureInputs,omitempty"`

	// missingDependencies are the entries of spec.waitForSecrets and spec.waitForWorkspaces that are missing or not ready.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4224
	MissingDependencies []MissingDependency `json:"missingDependencies,omitempty"`

	// outputs are the published Terraform outputs: strings unchanged, other values as JSON.
	// +optional
	Outputs map[string]string `json:"outputs,omitempty"`

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

// MissingDependency is a Secret, a key of a Secret, or a Workspace that is missing or not ready.
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

	// key of the Secret that is missing or empty; absent when the Secret itself is missing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`

	// message describes what is wrong with the dependency.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Message string `json:"message,omitempty"`

	// since is when the dependency was first found missing.
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

	// externalName is the name of the Terraform state of the Workspace. A recreated Workspace gets the same state.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ExternalName string `json:"externalName,omitempty"`
}

// WorkspaceUpdate describes the last update of a Workspace by CAPT.
type WorkspaceUpdate struct {
	// generation of the Workspace after the update.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`

	// statusHash is the hash of the status of the Workspace at that time. A different status means that the provider has
	// observed the update; the hash is then removed, because the status may return to its former value.
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
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.templateRef.name`,priority=1
type WorkspaceTemplateApply struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the Workspace.
	// +required
	Spec WorkspaceTemplateApplySpec `json:"spec"`

	// status is the observed state of the Workspace.
	// +optional
	Status WorkspaceTemplateApplyStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (a *WorkspaceTemplateApply) GetConditions() []metav1.Condition { return a.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (a *WorkspaceTemplateApply) SetConditions(conditions []metav1.Condition) {
	a.Status.Conditions = conditions
}

// TemplateKey returns the namespace and name of the template that the object refers to.
func (a *WorkspaceTemplateApply) TemplateKey() types.NamespacedName {
	return a.Spec.TemplateRef.Key(a.Namespace)
}

// DependencyKey returns the namespace and name of a Workspace that the object depends on. A cluster-scoped Workspace has no namespace,
// but its WorkspaceTemplateApply has.
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

// Scope returns the scope of the Workspace; false without a reference, or if no scope has its apiVersion.
func (r *WorkspaceReference) Scope() (terraform.Scope, bool) {
	for _, scope := range terraform.Scopes() {
		if r != nil && scope.GroupVersionKind().GroupVersion().String() == r.APIVersion {
			return scope, true
		}
	}
	return "", false
}
