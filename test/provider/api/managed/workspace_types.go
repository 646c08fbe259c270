// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package managed

import (
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ModuleSource says where a Workspace's root module comes from.
// +kubebuilder:validation:Enum=Remote;Inline;Flux
type ModuleSource string

// The module sources.
const (
	ModuleSourceRemote ModuleSource = "Remote"
	ModuleSourceInline ModuleSource = "Inline"
	ModuleSourceFlux   ModuleSource = "Flux"
)

// FileFormat is the syntax of an inline module or of a file of variables.
// +kubebuilder:validation:Enum=HCL;JSON
type FileFormat string

// The file formats.
const (
	FileFormatHCL  FileFormat = "HCL"
	FileFormatJSON FileFormat = "JSON"
)

// VarFileSource says where a file of variables comes from.
// +kubebuilder:validation:Enum=ConfigMapKey;SecretKey
type VarFileSource string

// The sources of files of variables.
const (
	VarFileSourceConfigMapKey VarFileSource = "ConfigMapKey"
	VarFileSourceSecretKey    VarFileSource = "SecretKey"
)

// Var is one string variable, given on the command line as -var key=value.
type Var struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Module is where a Workspace's configuration comes from and how the CLI is called on it.
type Module struct {
	// Module is the address of the root module (Remote), its text (Inline), or Kind::namespace/name of a Flux
	// source (Flux).
	Module string `json:"module"`

	// Source of the root module.
	Source ModuleSource `json:"source"`

	// InlineFormat is the syntax of an Inline module.
	// +optional
	InlineFormat FileFormat `json:"inlineFormat,omitempty"`

	// Entrypoint is the folder of the module to run in.
	// +kubebuilder:default=""
	Entrypoint string `json:"entrypoint,omitempty"`

	// Vars are string variables. A variable that is in varFiles or varmap as well has the value from there.
	// +optional
	Vars []Var `json:"vars,omitempty"`

	// VarMap is a JSON object of variables of any type.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	VarMap *runtime.RawExtension `json:"varmap,omitempty"`

	// InitArgs are added to init.
	// +optional
	InitArgs []string `json:"initArgs,omitempty"`

	// PlanArgs are added to plan.
	// +optional
	PlanArgs []string `json:"planArgs,omitempty"`

	// ApplyArgs are added to apply.
	// +optional
	ApplyArgs []string `json:"applyArgs,omitempty"`

	// DestroyArgs are added to destroy.
	// +optional
	DestroyArgs []string `json:"destroyArgs,omitempty"`

	// EnableTerraformCLILogging asks for the CLI's output in the provider's log. It is accepted and ignored here:
	// that output can hold secrets.
	// +optional
	EnableTerraformCLILogging bool `json:"enableTerraformCLILogging,omitempty"`
}

// WorkspaceObservation is what the last look at the Terraform state found.
type WorkspaceObservation struct {
	// Checksum of the working directory after the last observation, 32 hexadecimal digits.
	// +optional
	Checksum string `json:"checksum,omitempty"`

	// Outputs of the module that are not sensitive, as JSON values.
	// +optional
	Outputs map[string]extensionsv1.JSON `json:"outputs,omitempty"`
}

// WorkspaceStatus is the observed state of a Workspace.
type WorkspaceStatus struct {
	ConditionedStatus `json:",inline"`

	// ObservedGeneration is never written by provider-terraform; conditions carry generations instead.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// AtProvider is what the last look at the Terraform state found.
	// +optional
	AtProvider WorkspaceObservation `json:"atProvider,omitempty"`
}
