// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package managed

import (
	"k8s.io/apimachinery/pkg/types"
)

// ManagementAction is something the provider may do with the external resource.
// +kubebuilder:validation:Enum=Observe;Create;Update;Delete;LateInitialize;*
type ManagementAction string

// The management actions.
const (
	ActionObserve        ManagementAction = "Observe"
	ActionCreate         ManagementAction = "Create"
	ActionUpdate         ManagementAction = "Update"
	ActionDelete         ManagementAction = "Delete"
	ActionLateInitialize ManagementAction = "LateInitialize"
	ActionAll            ManagementAction = "*"
)

// ManagementPolicies is the set of actions the provider may take; empty means paused.
type ManagementPolicies []ManagementAction

// DeletionPolicy says what becomes of the external resource when its object is deleted.
// +kubebuilder:validation:Enum=Orphan;Delete
type DeletionPolicy string

// The deletion policies.
const (
	DeletionOrphan DeletionPolicy = "Orphan"
	DeletionDelete DeletionPolicy = "Delete"
)

// ResolvePolicy says when a reference is resolved.
// +kubebuilder:validation:Enum=Always;IfNotPresent
type ResolvePolicy string

// ResolutionPolicy says whether a reference has to resolve.
// +kubebuilder:validation:Enum=Required;Optional
type ResolutionPolicy string

// Policy says how a reference is resolved. Workspaces have no references to resolve; the field exists because
// every reference of the cluster-scoped group has it.
type Policy struct {
	// Resolve says when the reference is resolved.
	// +optional
	Resolve *ResolvePolicy `json:"resolve,omitempty"`

	// Resolution says whether it is an error that the reference does not resolve.
	// +optional
	// +kubebuilder:default=Required
	Resolution *ResolutionPolicy `json:"resolution,omitempty"`
}

// Reference names a cluster-scoped object.
type Reference struct {
	// Name of the object.
	Name string `json:"name"`

	// Policy of the reference.
	// +optional
	Policy *Policy `json:"policy,omitempty"`
}

// ProviderConfigReference names a ProviderConfig or a ClusterProviderConfig.
type ProviderConfigReference struct {
	// Kind of the object.
	Kind string `json:"kind"`

	// Name of the object.
	Name string `json:"name"`
}

// TypedReference names an object of any kind.
type TypedReference struct {
	// APIVersion of the object.
	APIVersion string `json:"apiVersion"`

	// Kind of the object.
	Kind string `json:"kind"`

	// Name of the object.
	Name string `json:"name"`

	// UID of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`
}

// SecretReference names a Secret of any namespace.
type SecretReference struct {
	// Name of the Secret.
	Name string `json:"name"`

	// Namespace of the Secret.
	Namespace string `json:"namespace"`
}

// LocalSecretReference names a Secret of the referring object's namespace.
type LocalSecretReference struct {
	// Name of the Secret.
	Name string `json:"name"`
}
