// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkspaceTemplateReference names a WorkspaceTemplate.
type WorkspaceTemplateReference struct {
	// name of the WorkspaceTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace of the WorkspaceTemplate; the default is the namespace of the object that refers to it. A template of
	// another namespace must allow it in spec.allowedNamespaces.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// Key is the namespace and name of the template, as seen from an object of a namespace.
func (r WorkspaceTemplateReference) Key(namespace string) types.NamespacedName {
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: r.Name}
}

// WorkspaceTemplateApplyReference names a WorkspaceTemplateApply of the same namespace.
type WorkspaceTemplateApplyReference struct {
	// name of the WorkspaceTemplateApply.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IsDefined reports whether the reference names a WorkspaceTemplateApply.
func (r WorkspaceTemplateApplyReference) IsDefined() bool { return r.Name != "" }

// LocalSecretReference names a Secret of the same namespace.
type LocalSecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IsDefined reports whether the reference names a Secret.
func (r LocalSecretReference) IsDefined() bool { return r.Name != "" }

// DeletionPolicy says what becomes of cloud resources when the object that describes them is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

const (
	// DeletionPolicyDelete destroys the cloud resources.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain leaves the Workspace, its state and the cloud resources as they are.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// WorkspaceTemplateApplySummary is what an owner reports of its WorkspaceTemplateApply.
type WorkspaceTemplateApplySummary struct {
	// name of the WorkspaceTemplateApply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// workspaceName is the name of its Workspace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	WorkspaceName string `json:"workspaceName,omitempty"`

	// ready is True when the Workspace is up to date, False when it is not.
	// +optional
	// +kubebuilder:validation:Enum=True;False;Unknown
	Ready metav1.ConditionStatus `json:"ready,omitempty"`

	// startedTime is when Terraform began to apply what it applies now; absent while it has not begun, and when it is done.
	// +optional
	StartedTime *metav1.Time `json:"startedTime,omitempty"`

	// lastAppliedRevision is the hash of the rendered Workspace that was last applied by Terraform.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`

	// lastFailedRevision is the hash of the rendered Workspace on which Terraform last failed; it is empty once a later
	// apply succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastFailedRevision string `json:"lastFailedRevision,omitempty"`

	// lastFailureMessage is what Terraform said then, shortened and without secrets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	LastFailureMessage string `json:"lastFailureMessage,omitempty"`

	// lastAppliedTime is when the Workspace was last seen up to date with a new revision.
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`
}

// ConditionStatus is True or False.
func ConditionStatus(value bool) metav1.ConditionStatus {
	if value {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}
