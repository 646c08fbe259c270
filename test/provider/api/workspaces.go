// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	xpv1 "github.com/crossplane/crossplane-runtime/v2/apis/common/v1"
	xpv2 "github.com/crossplane/crossplane-runtime/v2/apis/common/v2"
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
