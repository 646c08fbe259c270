// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package api has the Workspaces of provider-terraform v1.1's two API groups, as crossplane-runtime's managed reconciler reads and
// writes them. The definition of the API is test/provider/config/crd.
package api

import (
	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Values of Parameters.Source, of formats and of VarFile.Source.
const (
	SourceRemote = "Remote"
	SourceInline = "Inline"
	SourceFlux   = "Flux"

	FormatJSON = "JSON"

	VarFileConfigMapKey = "ConfigMapKey"
	VarFileSecretKey    = "SecretKey"
)

// Parameters are the module of a Workspace and how the CLI is called on it. The provider ignores enableTerraformCLILogging: the
// output of the CLI can hold secrets.
type Parameters struct {
	Module       string                `json:"module"`
	Source       string                `json:"source"`
	InlineFormat string                `json:"inlineFormat,omitempty"`
	Entrypoint   string                `json:"entrypoint,omitempty"`
	Vars         []Var                 `json:"vars,omitempty"`
	VarFiles     []VarFile             `json:"varFiles,omitempty"`
	VarMap       *runtime.RawExtension `json:"varmap,omitempty"`
	Env          []EnvVar              `json:"env,omitempty"`
	InitArgs     []string              `json:"initArgs,omitempty"`
	PlanArgs     []string              `json:"planArgs,omitempty"`
	ApplyArgs    []string              `json:"applyArgs,omitempty"`
	DestroyArgs  []string              `json:"destroyArgs,omitempty"`

	EnableTerraformCLILogging bool `json:"enableTerraformCLILogging,omitempty"`
}

// Var is one string variable.
type Var struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// EnvVar is one variable of the CLI's environment: a value, or where to read it.
type EnvVar struct {
	Name            string        `json:"name"`
	Value           string        `json:"value,omitempty"`
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
	SecretKeyRef    *KeyReference `json:"secretKeyRef,omitempty"`
}

// VarFile is a file of variables.
type VarFile struct {
	Source          string        `json:"source"`
	Format          string        `json:"format,omitempty"`
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
	SecretKeyRef    *KeyReference `json:"secretKeyRef,omitempty"`
}

// KeyReference names a key of a ConfigMap or a Secret. Only the one of a cluster-scoped Workspace has a namespace.
type KeyReference struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// Status is the observed state of a Workspace.
type Status struct {
	xpv1.ResourceStatus `json:",inline"`

	AtProvider Observation `json:"atProvider,omitempty"`
}

// Observation is what the last look at the Terraform state found: a checksum of the working directory, and the outputs that are not
// sensitive.
type Observation struct {
	Checksum string                       `json:"checksum,omitempty"`
	Outputs  map[string]extensionsv1.JSON `json:"outputs,omitempty"`
}
