// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	xpv2 "github.com/crossplane/crossplane-runtime/v2/apis/common/v2"
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
	scheme.AddKnownTypeWithName(ClusterWorkspaceKind.GroupVersion().WithKind("WorkspaceList"), &ClusterWorkspaceList{})
	metav1.AddToGroupVersion(scheme, ClusterWorkspaceKind.GroupVersion())
	scheme.AddKnownTypeWithName(NamespacedWorkspaceKind, &NamespacedWorkspace{})
	scheme.AddKnownTypeWithName(NamespacedWorkspaceKind.GroupVersion().WithKind("WorkspaceList"), &NamespacedWorkspaceList{})
	metav1.AddToGroupVersion(scheme, NamespacedWorkspaceKind.GroupVersion())
	return nil
}

// ClusterWorkspace is a Workspace of tf.upbound.io.
type ClusterWorkspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterWorkspaceSpec `json:"spec"`
	Status Status               `json:"status,omitempty"`
}

// ClusterWorkspaceSpec is the desired state of a ClusterWorkspace.
type ClusterWorkspaceSpec struct {
	xpv1.ResourceSpec `json:",inline"`

	ForProvider Parameters `json:"forProvider"`
}

// ClusterWorkspaceList is a list of ClusterWorkspaces.
type ClusterWorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterWorkspace `json:"items"`
}

// NamespacedWorkspace is a Workspace of tf.m.upbound.io.
type NamespacedWorkspace struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NamespacedWorkspaceSpec `json:"spec"`
	Status Status                  `json:"status,omitempty"`
}

// NamespacedWorkspaceSpec is the desired state of a NamespacedWorkspace.
type NamespacedWorkspaceSpec struct {
	xpv2.ManagedResourceSpec `json:",inline"`

	ForProvider Parameters `json:"forProvider"`
}

// NamespacedWorkspaceList is a list of NamespacedWorkspaces.
type NamespacedWorkspaceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NamespacedWorkspace `json:"items"`
}

// DeepCopyObject returns a deep copy.
func (w *ClusterWorkspace) DeepCopyObject() runtime.Object { return deepCopy(w) }

// DeepCopyObject returns a deep copy.
func (l *ClusterWorkspaceList) DeepCopyObject() runtime.Object { return deepCopy(l) }

// DeepCopyObject returns a deep copy.
func (w *NamespacedWorkspace) DeepCopyObject() runtime.Object { return deepCopy(w) }

// DeepCopyObject returns a deep copy.
func (l *NamespacedWorkspaceList) DeepCopyObject() runtime.Object { return deepCopy(l) }

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

var (
	_ interface {
		resource.Managed
		resource.ConnectionSecretWriterTo
		resource.ProviderConfigReferencer
		resource.Orphanable
	} = &ClusterWorkspace{}
	_ resource.ModernManaged = &NamespacedWorkspace{}
)

// Parameters of the module.
func (w *ClusterWorkspace) Parameters() *Parameters { return &w.Spec.ForProvider }

// Observation is what the last look found.
func (w *ClusterWorkspace) Observation() *Observation { return &w.Status.AtProvider }

// GetCondition returns the condition of that type, with status Unknown if there is none.
func (w *ClusterWorkspace) GetCondition(t xpv1.ConditionType) xpv1.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions adds conditions, or replaces those of their types.
func (w *ClusterWorkspace) SetConditions(c ...xpv1.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies returns what the provider may do.
func (w *ClusterWorkspace) GetManagementPolicies() xpv1.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies sets what the provider may do.
func (w *ClusterWorkspace) SetManagementPolicies(p xpv1.ManagementPolicies) {
	w.Spec.ManagementPolicies = p
}

// GetProviderConfigReference returns the ProviderConfig.
func (w *ClusterWorkspace) GetProviderConfigReference() *xpv1.Reference {
	return w.Spec.ProviderConfigReference
}

// SetProviderConfigReference sets the ProviderConfig.
func (w *ClusterWorkspace) SetProviderConfigReference(r *xpv1.Reference) {
	w.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference returns the Secret that gets all outputs.
func (w *ClusterWorkspace) GetWriteConnectionSecretToReference() *xpv1.SecretReference {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference sets the Secret that gets all outputs.
func (w *ClusterWorkspace) SetWriteConnectionSecretToReference(r *xpv1.SecretReference) {
	w.Spec.WriteConnectionSecretToReference = r
}

// GetDeletionPolicy returns what becomes of the resources when the Workspace is deleted.
func (w *ClusterWorkspace) GetDeletionPolicy() xpv1.DeletionPolicy { return w.Spec.DeletionPolicy }

// SetDeletionPolicy sets what becomes of the resources when the Workspace is deleted.
func (w *ClusterWorkspace) SetDeletionPolicy(p xpv1.DeletionPolicy) { w.Spec.DeletionPolicy = p }

// Parameters of the module.
func (w *NamespacedWorkspace) Parameters() *Parameters { return &w.Spec.ForProvider }

// Observation is what the last look found.
func (w *NamespacedWorkspace) Observation() *Observation { return &w.Status.AtProvider }

// GetCondition returns the condition of that type, with status Unknown if there is none.
func (w *NamespacedWorkspace) GetCondition(t xpv1.ConditionType) xpv1.Condition {
	return w.Status.GetCondition(t)
}

// SetConditions adds conditions, or replaces those of their types.
func (w *NamespacedWorkspace) SetConditions(c ...xpv1.Condition) { w.Status.SetConditions(c...) }

// GetManagementPolicies returns what the provider may do.
func (w *NamespacedWorkspace) GetManagementPolicies() xpv1.ManagementPolicies {
	return w.Spec.ManagementPolicies
}

// SetManagementPolicies sets what the provider may do.
func (w *NamespacedWorkspace) SetManagementPolicies(p xpv1.ManagementPolicies) {
	w.Spec.ManagementPolicies = p
}

// GetProviderConfigReference returns the ProviderConfig.
func (w *NamespacedWorkspace) GetProviderConfigReference() *xpv1.ProviderConfigReference {
	return w.Spec.ProviderConfigReference
}

// SetProviderConfigReference sets the ProviderConfig.
func (w *NamespacedWorkspace) SetProviderConfigReference(r *xpv1.ProviderConfigReference) {
	w.Spec.ProviderConfigReference = r
}

// GetWriteConnectionSecretToReference returns the Secret that gets all outputs.
func (w *NamespacedWorkspace) GetWriteConnectionSecretToReference() *xpv1.LocalSecretReference {
	return w.Spec.WriteConnectionSecretToReference
}

// SetWriteConnectionSecretToReference sets the Secret that gets all outputs.
func (w *NamespacedWorkspace) SetWriteConnectionSecretToReference(r *xpv1.LocalSecretReference) {
	w.Spec.WriteConnectionSecretToReference = r
}
