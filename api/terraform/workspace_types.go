// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Scope is one of the two scopes of provider-terraform's Workspaces, which are different kinds.
// +kubebuilder:validation:Enum=Namespaced;Cluster
type Scope string

const (
	// ScopeNamespaced: the Workspace is of tf.m.upbound.io. It is in a namespace and refers to objects of that
	// namespace only.
	ScopeNamespaced Scope = "Namespaced"
	// ScopeCluster: the Workspace is of tf.upbound.io. It has no namespace, and its references name one.
	ScopeCluster Scope = "Cluster"
)

// WorkspaceKind is the kind of both Workspaces.
const WorkspaceKind = "Workspace"

// GroupVersionKind returns the kind of the Workspaces of this scope. An empty scope means Namespaced.
func (s Scope) GroupVersionKind() schema.GroupVersionKind {
	if s == ScopeCluster {
		return schema.GroupVersionKind{Group: "tf.upbound.io", Version: "v1beta1", Kind: WorkspaceKind}
	}
	return schema.GroupVersionKind{Group: "tf.m.upbound.io", Version: "v1beta1", Kind: WorkspaceKind}
}

// OrDefault returns the scope; Namespaced when it is empty.
func (s Scope) OrDefault() Scope {
	if s == ScopeCluster {
		return ScopeCluster
	}
	return ScopeNamespaced
}

// Scopes lists every scope, the default one first.
func Scopes() []Scope { return []Scope{ScopeNamespaced, ScopeCluster} }

// Source is the kind of location of a root module.
// +kubebuilder:validation:Enum=Remote;Inline;Flux
type Source string

const (
	// SourceRemote: an address that "terraform init -from-module" accepts.
	SourceRemote Source = "Remote"
	// SourceInline: the text of a main.tf or main.tf.json.
	SourceInline Source = "Inline"
	// SourceFlux: a Flux source, in the form Kind::namespace/name.
	SourceFlux Source = "Flux"
)

// FileFormat is the syntax of an inline module or of a file of variables.
// +kubebuilder:validation:Enum=HCL;JSON
type FileFormat string

const (
	// FormatHCL is Terraform's own language.
	FormatHCL FileFormat = "HCL"
	// FormatJSON is the JSON syntax of that language.
	FormatJSON FileFormat = "JSON"
)

// DeletionPolicy is what happens to the cloud resources when a cluster-scoped Workspace is deleted.
// +kubebuilder:validation:Enum=Orphan;Delete
type DeletionPolicy string

const (
	// DeletionOrphan leaves the cloud resources.
	DeletionOrphan DeletionPolicy = "Orphan"
	// DeletionDelete destroys them.
	DeletionDelete DeletionPolicy = "Delete"
)

// ManagementAction is an action that Crossplane may take on the cloud resources of a Workspace.
// +kubebuilder:validation:Enum=Observe;Create;Update;Delete;LateInitialize;"*"
type ManagementAction string

const (
	// ManageAll means every action.
	ManageAll ManagementAction = "*"
	// ManageDelete lets Crossplane destroy the cloud resources.
	ManageDelete ManagementAction = "Delete"
)

// WorkspaceSpec is the desired state of a Workspace, with the fields of both scopes. Comments mark the fields that only one scope has.
// Fields that this version of CAPT does not know are kept in Unknown and written to the Workspace unchanged.
// +kubebuilder:pruning:PreserveUnknownFields
type WorkspaceSpec struct {
	// deletionPolicy is what happens to the cloud resources when the Workspace is deleted. Cluster scope only; in the
	// namespaced scope, omit Delete from managementPolicies instead.
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// managementPolicies are the actions that Crossplane may take; absent means all actions.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=6
	ManagementPolicies []ManagementAction `json:"managementPolicies,omitempty"`

	// providerConfigRef names the ProviderConfig (or ClusterProviderConfig) with the credentials and the backend.
	ProviderConfigRef *ProviderConfigReference `json:"providerConfigRef,omitempty"`

	// publishConnectionDetailsTo is the external secret store configuration of provider-terraform before v1.
	// Cluster scope only.
	PublishConnectionDetailsTo *PublishConnectionDetailsTo `json:"publishConnectionDetailsTo,omitempty"`

	// writeConnectionSecretToRef names the Secret that receives all outputs, including sensitive ones.
	WriteConnectionSecretToRef *SecretReference `json:"writeConnectionSecretToRef,omitempty"`

	// forProvider has the parameters of Terraform.
	// +required
	ForProvider WorkspaceParameters `json:"forProvider,omitempty,omitzero"`

	// Unknown has the fields that this version of CAPT does not know, so that they are not lost.
	Unknown UnknownFields `json:"-"`
}

// UnknownFields maps the name of a field to its JSON.
type UnknownFields map[string]runtime.RawExtension

// ProviderConfigReference names a ProviderConfig.
type ProviderConfigReference struct {
	// name of the ProviderConfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// kind is ProviderConfig or ClusterProviderConfig; the default is ClusterProviderConfig. Namespaced scope only.
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`

	// policy of resolving the reference. Cluster scope only.
	Policy *ReferencePolicy `json:"policy,omitempty"`
}

// ReferencePolicy specifies when and whether a reference must be resolved.
type ReferencePolicy struct {
	// resolution specifies whether the reference must be resolvable.
	// +kubebuilder:validation:Enum=Required;Optional
	Resolution string `json:"resolution,omitempty"`

	// resolve specifies when the reference is resolved.
	// +kubebuilder:validation:Enum=Always;IfNotPresent
	Resolve string `json:"resolve,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the Secret. In scope Namespaced it must be absent or the namespace of the Workspace.
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// PublishConnectionDetailsTo configures an external secret store.
type PublishConnectionDetailsTo struct {
	// name of the entry.
	// +required
	Name string `json:"name"`

	// configRef names the store's configuration.
	ConfigRef *ProviderConfigReference `json:"configRef,omitempty"`

	// metadata of the entry.
	Metadata *ConnectionSecretMetadata `json:"metadata,omitempty"`
}

// ConnectionSecretMetadata is metadata of an entry in an external secret store.
type ConnectionSecretMetadata struct {
	// annotations of the entry.
	Annotations map[string]string `json:"annotations,omitempty"`

	// labels of the entry.
	Labels map[string]string `json:"labels,omitempty"`

	// type of the Secret.
	Type *corev1.SecretType `json:"type,omitempty"`
}

// WorkspaceParameters are the parameters of Terraform.
// +kubebuilder:pruning:PreserveUnknownFields
type WorkspaceParameters struct {
	// source is the kind of location of the module: Remote, Inline or Flux.
	// +required
	Source Source `json:"source"`

	// module is the address of the root module, or its text when source is Inline.
	// +required
	Module string `json:"module"`

	// inlineFormat is the syntax of an inline module; absent means HCL.
	InlineFormat FileFormat `json:"inlineFormat,omitempty"`

	// entrypoint is the directory within the module in which Terraform runs.
	Entrypoint string `json:"entrypoint,omitempty"`

	// vars are Terraform variables, one string each.
	// +listType=atomic
	Vars []Var `json:"vars,omitempty"`

	// varmap is a JSON object of Terraform variables of any type.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	VarMap *apiextensionsv1.JSON `json:"varmap,omitempty"`

	// varFiles are files of variables. Set each variable in one place only.
	// +listType=atomic
	VarFiles []VarFile `json:"varFiles,omitempty"`

	// env are environment variables of the terraform process.
	// +listType=atomic
	Env []EnvVar `json:"env,omitempty"`

	// initArgs are further arguments of terraform init.
	// +listType=atomic
	InitArgs []string `json:"initArgs,omitempty"`

	// planArgs are further arguments of terraform plan.
	// +listType=atomic
	PlanArgs []string `json:"planArgs,omitempty"`

	// applyArgs are further arguments of terraform apply.
	// +listType=atomic
	ApplyArgs []string `json:"applyArgs,omitempty"`

	// destroyArgs are further arguments of terraform destroy.
	// +listType=atomic
	DestroyArgs []string `json:"destroyArgs,omitempty"`

	// enableTerraformCLILogging sends Terraform's own output to the provider's log.
	EnableTerraformCLILogging *bool `json:"enableTerraformCLILogging,omitempty"`

	// remotePullPolicy specifies when a remote module is fetched again.
	// +kubebuilder:validation:Enum=Always;IfNotPresent
	RemotePullPolicy string `json:"remotePullPolicy,omitempty"`

	// Unknown has the fields that this version of CAPT does not know, so that they are not lost.
	Unknown UnknownFields `json:"-"`
}

// Var is one Terraform variable.
type Var struct {
	// key is the name of the variable.
	// +required
	Key string `json:"key"`

	// value of the variable; it reaches Terraform byte for byte.
	// +required
	Value string `json:"value"`
}

// VarFile is a file of Terraform variables.
type VarFile struct {
	// source specifies whether the file is in a ConfigMap or in a Secret.
	// +required
	// +kubebuilder:validation:Enum=ConfigMapKey;SecretKey
	Source string `json:"source"`

	// configMapKeyRef names the key of a ConfigMap.
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef names the key of a Secret.
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`

	// format is the syntax of the file; absent means HCL.
	Format FileFormat `json:"format,omitempty"`
}

// EnvVar is an environment variable of the terraform process.
type EnvVar struct {
	// name of the environment variable.
	// +required
	Name string `json:"name"`

	// value of the environment variable.
	Value string `json:"value,omitempty"`

	// configMapKeyRef takes the value from a ConfigMap.
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef takes the value from a Secret.
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
}

// KeyReference names a key of a ConfigMap or a Secret.
type KeyReference struct {
	// name of the object.
	// +required
	Name string `json:"name"`

	// namespace of the object. In scope Namespaced it must be absent or the namespace of the Workspace.
	Namespace string `json:"namespace,omitempty"`

	// key within the object.
	// +required
	Key string `json:"key"`
}

// WorkspaceStatus is the state that the provider reports.
type WorkspaceStatus struct {
	// conditions are Ready and Synced, see docs/provider-terraform.md.
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// atProvider is the state that Terraform returned.
	AtProvider WorkspaceObservation `json:"atProvider,omitempty"`
}

// WorkspaceObservation is the state that Terraform returned.
type WorkspaceObservation struct {
	// checksum of the configuration that was applied.
	Checksum string `json:"checksum,omitempty"`

	// outputs are the outputs that are not sensitive, as typed JSON.
	Outputs map[string]runtime.RawExtension `json:"outputs,omitempty"`
}

// Workspace is a provider-terraform Workspace of either scope; TypeMeta identifies the scope.
type Workspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WorkspaceSpec   `json:"spec,omitempty"`
	Status WorkspaceStatus `json:"status,omitempty"`
}
