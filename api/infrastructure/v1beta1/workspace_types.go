// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// WorkspaceSpec is the spec of a Workspace of tf.upbound.io, as provider-terraform v0.18 had it.
type WorkspaceSpec struct {
	// deletionPolicy determines whether the cloud resources are destroyed with the Workspace.
	// +kubebuilder:default=Delete
	// +kubebuilder:validation:Enum=Orphan;Delete
	DeletionPolicy *string `json:"deletionPolicy,omitempty"`

	// managementPolicies are the actions that Crossplane may take.
	// +optional
	// +kubebuilder:default={"*"}
	// +kubebuilder:validation:items:Enum=Observe;Create;Update;Delete;LateInitialize;"*"
	ManagementPolicies []string `json:"managementPolicies,omitzero"`

	// providerConfigRef names the ProviderConfig with the credentials and the backend.
	// +kubebuilder:default={"name": "default"}
	ProviderConfigRef *ProviderConfigReference `json:"providerConfigRef,omitempty"`

	// publishConnectionDetailsTo configures an external secret store.
	PublishConnectionDetailsTo *PublishConnectionDetailsTo `json:"publishConnectionDetailsTo,omitempty"`

	// writeConnectionSecretToRef names the Secret that receives all outputs.
	WriteConnectionSecretToRef *SecretReference `json:"writeConnectionSecretToRef,omitempty"`

	// forProvider has the parameters of Terraform.
	ForProvider WorkspaceParameters `json:"forProvider"`
}

// ProviderConfigReference names a ProviderConfig.
type ProviderConfigReference struct {
	// name of the ProviderConfig.
	Name string `json:"name"`

	// policy for resolving the reference.
	Policy *ReferencePolicy `json:"policy,omitempty"`
}

// ReferencePolicy determines when and whether a reference must be resolved.
type ReferencePolicy struct {
	// resolution determines whether the reference must be resolvable.
	// +kubebuilder:default=Required
	// +kubebuilder:validation:Enum=Required;Optional
	Resolution *string `json:"resolution,omitempty"`

	// resolve determines when the reference is resolved.
	// +kubebuilder:validation:Enum=Always;IfNotPresent
	Resolve *string `json:"resolve,omitempty"`
}

// PublishConnectionDetailsTo configures an external secret store.
type PublishConnectionDetailsTo struct {
	// name of the entry.
	Name string `json:"name"`

	// configRef names the configuration of the store.
	// +kubebuilder:default={"name": "default"}
	ConfigRef *ProviderConfigReference `json:"configRef,omitempty"`

	// metadata of the entry.
	Metadata *ConnectionSecretMetadata `json:"metadata,omitempty"`
}

// ConnectionSecretMetadata is metadata of an entry in an external secret store.
type ConnectionSecretMetadata struct {
	// annotations of the entry.
	// +optional
	Annotations map[string]string `json:"annotations,omitzero"`

	// labels of the entry.
	// +optional
	Labels map[string]string `json:"labels,omitzero"`

	// type of the Secret.
	Type *corev1.SecretType `json:"type,omitempty"`
}

// WorkspaceParameters are the parameters of Terraform.
type WorkspaceParameters struct {
	// source is the location of the module: Remote, Inline or Flux.
	// +kubebuilder:validation:Enum=Remote;Inline;Flux
	Source string `json:"source"`

	// module is the address of the root module, or its text if source is Inline.
	Module string `json:"module"`

	// inlineFormat is the syntax of an inline module.
	// +kubebuilder:validation:Enum=HCL;JSON
	InlineFormat *string `json:"inlineFormat,omitempty"`

	// entrypoint is the directory within the module in which Terraform runs.
	// +kubebuilder:default=""
	Entrypoint *string `json:"entrypoint,omitempty"`

	// vars are Terraform variables, one string each.
	// +optional
	Vars []Var `json:"vars,omitzero"`

	// varmap is a JSON object of Terraform variables of any type.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	VarMap *apiextensionsv1.JSON `json:"varmap,omitempty"`

	// varFiles are files of variables.
	// +optional
	VarFiles []VarFile `json:"varFiles,omitzero"`

	// env are environment variables of the terraform process.
	// +optional
	Env []EnvVar `json:"env,omitzero"`

	// initArgs are further arguments of terraform init.
	// +optional
	InitArgs []string `json:"initArgs,omitzero"`

	// planArgs are further arguments of terraform plan.
	// +optional
	PlanArgs []string `json:"planArgs,omitzero"`

	// applyArgs are further arguments of terraform apply.
	// +optional
	ApplyArgs []string `json:"applyArgs,omitzero"`

	// destroyArgs are further arguments of terraform destroy.
	// +optional
	DestroyArgs []string `json:"destroyArgs,omitzero"`

	// enableTerraformCLILogging sends Terraform's own output to the provider's log.
	EnableTerraformCLILogging *bool `json:"enableTerraformCLILogging,omitempty"`
}

// Var is one Terraform variable.
type Var struct {
	// key is the name of the variable.
	Key string `json:"key"`

	// value of the variable.
	Value string `json:"value"`
}

// VarFile is a file of Terraform variables.
type VarFile struct {
	// source specifies whether the file is in a ConfigMap or in a Secret.
	// +kubebuilder:validation:Enum=ConfigMapKey;SecretKey
	Source string `json:"source"`

	// configMapKeyRef names the key of a ConfigMap.
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef names the key of a Secret.
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`

	// format is the syntax of the file.
	// +kubebuilder:default=HCL
	// +kubebuilder:validation:Enum=HCL;JSON
	Format *string `json:"format,omitempty"`
}

// EnvVar is an environment variable of the terraform process.
type EnvVar struct {
	// name of the environment variable.
	Name string `json:"name"`

	// value of the environment variable.
	Value *string `json:"value,omitempty"`

	// configMapKeyRef takes the value from a ConfigMap.
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`

	// secretKeyRef takes the value from a Secret.
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
}

// KeyReference names a key of a ConfigMap or a Secret.
type KeyReference struct {
	// name of the object.
	Name string `json:"name"`

	// namespace of the object.
	Namespace string `json:"namespace"`

	// key within the object.
	Key string `json:"key"`
}
