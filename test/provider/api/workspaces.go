// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	"github.com/crossplane/crossplane-runtime/v2/pkg/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
