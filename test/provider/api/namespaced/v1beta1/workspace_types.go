// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/test/provider/api/managed"
)

// KeyReference names a key of a ConfigMap or a Secret of the Workspace's namespace.
type KeyReference struct {

	// Name of the object.
	Name string `json:"name"`

	// Key of the object's data.
	Key string `json:"key"`
}

// EnvVar is one variable of the CLI's environment: a value, or where to read it.
type EnvVar struct {
	Name string `json:"name"`

	// +optional
	Value string `json:"value,omitempty"`

	// ConfigMapKeyReference is read when value is empty.
	// +optional
	ConfigMapKeyReference *KeyReference `json:"configMapKeyRef,omitempty"`

	// SecretKeyReference is read when value is empty and there is no configMapKeyRef.
	// +optional
	SecretKeyReference *KeyReference `json:"secretKeyRef,omitempty"`
}

// VarFile is a file of variables.
type VarFile struct {
	// Source of the file.
	Source managed.VarFileSource `json:"source"`

	// Format of the file.
	// +kubebuilder:default=HCL
	// +optional
	Format *managed.FileFormat `json:"format,omitempty"`

	// ConfigMapKeyReference is the file when the source is ConfigMapKey.
	// +optional
	ConfigMapKeyReference *KeyReference `json:"configMapKeyRef,omitempty"`

	// SecretKeyReference is the file when the source is SecretKey.
	// +optional
	SecretKeyReference *KeyReference `json:"secretKeyRef,omitempty"`
}

// WorkspaceParameters are what Terraform is asked for.
type WorkspaceParameters struct {
	managed.Module `json:",inline"`

	// Env are variables of the CLI's environment.
	// +optional
	Env []EnvVar `json:"env,omitempty"`

	// VarFiles are files of variables; a later one wins.
	// +optional
	VarFiles []VarFile `json:"varFiles,omitempty"`
}

// WorkspaceSpec is the desired state of a Workspace.
type WorkspaceSpec struct {
	// WriteConnectionSecretToReference is the Secret all outputs are written to, sensitive ones too.
	// +optional
	WriteConnectionSecretToReference *managed.LocalSecretReference `json:"writeConnectionSecretToRef,omitempty"`

	// ProviderConfigReference is the ProviderConfig or ClusterProviderConfig to use.
	// +kubebuilder:default={"kind":"ClusterProviderConfig","name":"default"}
	// +optional
	ProviderConfigReference *managed.ProviderConfigReference `json:"providerConfigRef,omitempty"`

	// ManagementPolicies are the actions the provider may take. Without Delete, deleting the Workspace leaves its
	// resources alone.
	// +optional
	// +kubebuilder:default={"*"}
	ManagementPolicies managed.ManagementPolicies `json:"managementPolicies,omitempty"`

	// ForProvider is what Terraform is asked for.
	ForProvider WorkspaceParameters `json:"forProvider"`
}

// Workspace is one Terraform configuration with one state.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,terraform}
type Workspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WorkspaceSpec           `json:"spec"`
	Status managed.WorkspaceStatus `json:"status,omitempty"`
}

// WorkspaceList is a list of Workspaces.
// +kubebuilder:object:root=true
type WorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Workspace `json:"items"`
}
