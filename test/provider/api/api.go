// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package api has the Workspaces of provider-terraform v1.1's two API groups, as crossplane-runtime's managed reconciler reads and
// writes them. The definition of the API is test/provider/config/crd.
package api

import (
	"encoding/json"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// The kinds of Workspace.
var (
	ClusterWorkspaceKind    = schema.GroupVersionKind{Group: "tf.upbound.io", Version: "v1beta1", Kind: "Workspace"}
	NamespacedWorkspaceKind = schema.GroupVersionKind{Group: "tf.m.upbound.io", Version: "v1beta1", Kind: "Workspace"}
)

// AddToScheme adds both kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(ClusterWorkspaceKind, &ClusterWorkspace{})
	scheme.AddKnownTypeWithName(ClusterWorkspaceKind.GroupVersion().WithKind("WorkspaceList"), &List[ClusterWorkspace]{})
	metav1.AddToGroupVersion(scheme, ClusterWorkspaceKind.GroupVersion())
	scheme.AddKnownTypeWithName(NamespacedWorkspaceKind, &NamespacedWorkspace{})
	scheme.AddKnownTypeWithName(NamespacedWorkspaceKind.GroupVersion().WithKind("WorkspaceList"), &List[NamespacedWorkspace]{})
	metav1.AddToGroupVersion(scheme, NamespacedWorkspaceKind.GroupVersion())
	return nil
}

// Workspace is a Workspace of either scope. Scopes differ in the references to a ProviderConfig and to a Secret.
type Workspace[ProviderConfig, Secret any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec[ProviderConfig, Secret] `json:"spec"`
	Status Status                       `json:"status,omitempty"`
}

// Spec is the desired state of a Workspace. Those of a namespace have no DeletionPolicy.
type Spec[ProviderConfig, Secret any] struct {
	WriteConnectionSecretToReference *Secret                 `json:"writeConnectionSecretToRef,omitempty"`
	ProviderConfigReference          *ProviderConfig         `json:"providerConfigRef,omitempty"`
	ManagementPolicies               xpv1.ManagementPolicies `json:"managementPolicies,omitempty"`
	DeletionPolicy                   xpv1.DeletionPolicy     `json:"deletionPolicy,omitempty"`
	ForProvider                      Parameters              `json:"forProvider"`
}

// List is a list of Workspaces.
type List[W any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []W `json:"items"`
}

type (
	// ClusterWorkspace is a Workspace of tf.upbound.io.
	ClusterWorkspace = Workspace[xpv1.Reference, xpv1.SecretReference]
	// NamespacedWorkspace is a Workspace of tf.m.upbound.io.
	NamespacedWorkspace = Workspace[xpv1.ProviderConfigReference, xpv1.LocalSecretReference]
)

var (
	_ interface {
		resource.Managed
		resource.ConnectionSecretWriterTo
		resource.ProviderConfigReferencer
		resource.Orphanable
	} = &ClusterWorkspace{}
	_ resource.ModernManaged = &NamespacedWorkspace{}
)

// DeepCopyObject returns a deep copy.
func (w *Workspace[P, S]) DeepCopyObject() runtime.Object { return deepCopy(w) }

// DeepCopyObject returns a deep copy.
func (l *List[W]) DeepCopyObject() runtime.Object { return deepCopy(l) }

// deepCopy copies through JSON: everything in these types is stored in the API.
func deepCopy[T any](in *T) *T {
	out := new(T)
	data, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(data, out)
	}
	if err != nil {
		panic(err) // The types have nothing that JSON cannot represent.
	}
	return out
}

// Parameters of the module.
func (w *Workspace[P, S]) Parameters() *Parameters { return &w.Spec.ForProvider }

// Observation is what the last look found.
func (w *Workspace[P, S]) Observation() *Observation { return &w.Status.AtProvider }

// GetCondition returns the condition of that type, with status Unknown if there is none.
func (w *Workspace[P, S]) GetCondition(t xpv1.ConditionType) xpv1.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions adds conditions, or replaces those of their types.
func (w *Workspace[P, S]) SetConditions(c ...xpv1.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies returns what the provider may do.
func (w *Workspace[P, S]) GetManagementPolicies() xpv1.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies sets what the provider may do.
func (w *Workspace[P, S]) SetManagementPolicies(p xpv1.ManagementPolicies) {
	w.Spec.ManagementPolicies = p
}

// GetProviderConfigReference returns the ProviderConfig.
func (w *Workspace[P, S]) GetProviderConfigReference() *P { return w.Spec.ProviderConfigReference }

// SetProviderConfigReference sets the ProviderConfig.
func (w *Workspace[P, S]) SetProviderConfigReference(r *P) { w.Spec.ProviderConfigReference = r }

// GetWriteConnectionSecretToReference returns the Secret that gets all outputs.
func (w *Workspace[P, S]) GetWriteConnectionSecretToReference() *S {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference sets the Secret that gets all outputs.
func (w *Workspace[P, S]) SetWriteConnectionSecretToReference(r *S) {
	w.Spec.WriteConnectionSecretToReference = r
}

// GetDeletionPolicy returns what becomes of the resources when the Workspace is deleted.
func (w *Workspace[P, S]) GetDeletionPolicy() xpv1.DeletionPolicy { return w.Spec.DeletionPolicy }

// SetDeletionPolicy sets what becomes of the resources when the Workspace is deleted.
func (w *Workspace[P, S]) SetDeletionPolicy(p xpv1.DeletionPolicy) { w.Spec.DeletionPolicy = p }
