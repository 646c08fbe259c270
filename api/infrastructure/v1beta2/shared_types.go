// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WorkspaceTemplateReference refers to a WorkspaceTemplate.
type WorkspaceTemplateReference struct {
	// name of the WorkspaceTemplate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// namespace of the WorkspaceTemplate; the default is the namespace of the referring object. A template in
	// another namespace must allow that namespace in spec.allowedNamespaces.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// Key returns the namespace and name of the template, for a referring object in a namespace.
func (r WorkspaceTemplateReference) Key(namespace string) types.NamespacedName {
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return types.NamespacedName{Namespace: namespace, Name: r.Name}
}

// WorkspaceTemplateApplyReference refers to a WorkspaceTemplateApply in the same namespace.
type WorkspaceTemplateApplyReference struct {
	// name of the WorkspaceTemplateApply.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IsDefined reports whether the reference names a WorkspaceTemplateApply.
func (r WorkspaceTemplateApplyReference) IsDefined() bool { return r.Name != "" }

// LocalSecretReference refers to a Secret in the same namespace.
type LocalSecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IsDefined reports whether the reference names a Secret.
func (r LocalSecretReference) IsDefined() bool { return r.Name != "" }

// DeletionPolicy is what happens to cloud resources when the object that describes them is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

const (
	// DeletionPolicyDelete destroys the cloud resources.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain leaves the Workspace, its state and the cloud resources as they are.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// DeletionProtection is whether an object is protected from deletion.
// +kubebuilder:validation:Enum=Enabled;Disabled
type DeletionProtection string

const (
	// DeletionProtectionEnabled rejects the deletion of the object. If it is accepted nevertheless, nothing is destroyed.
	DeletionProtectionEnabled DeletionProtection = "Enabled"
	// DeletionProtectionDisabled allows the deletion.
	DeletionProtectionDisabled DeletionProtection = "Disabled"
)

// WorkspaceTemplateApplySummary is the state of a WorkspaceTemplateApply in the status of its owner.
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

	// startedTime is when Terraform started the apply that is in progress; absent when none is in progress.
	// +optional
	StartedTime *metav1.Time `json:"startedTime,omitempty"`

	// lastAppliedRevision is the hash of the rendered Workspace that Terraform last applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`

	// lastFailedRevision is the hash of the rendered Workspace whose apply last failed; empty once a later apply has
	// succeeded.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	LastFailedRevision string `json:"lastFailedRevision,omitempty"`

	// lastFailureMessage is the error of Terraform, shortened and without secrets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	LastFailureMessage string `json:"lastFailureMessage,omitempty"`

	// lastFailureClass is the class of the failure: Auth, Quota, Throttle, Lock, Timeout, Config, Interrupted, Network, ProviderPod or Unknown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	LastFailureClass string `json:"lastFailureClass,omitempty"`

	// lastAppliedTime is when a new revision was first observed as applied.
	// +optional
	LastAppliedTime *metav1.Time `json:"lastAppliedTime,omitempty"`
}

// ConditionStatus returns the status True or False for a value.
func ConditionStatus(value bool) metav1.ConditionStatus {
	if value {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// Variables are JSON values by name.
type Variables map[string]apiextensionsv1.JSON

// TextVariables returns variables whose values are strings.
func TextVariables(texts map[string]string) Variables {
	if texts == nil {
		return nil
	}
	variables := make(Variables, len(texts))
	for name, text := range texts {
		variables[name] = TextValue(text)
	}
	return variables
}

// TextValue returns a string as JSON.
func TextValue(text string) apiextensionsv1.JSON {
	if isPlain(text) {
		return apiextensionsv1.JSON{Raw: []byte(`"` + text + `"`)}
	}
	raw, _ := json.Marshal(text) // A string can always be encoded.
	return apiextensionsv1.JSON{Raw: raw}
}

// isPlain reports whether JSON has a text as it is. Conversion of many objects would spend most of its time in the encoder.
func isPlain[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// Has reports whether there is a variable of a name.
func (v Variables) Has(name string) bool {
	_, ok := v[name]
	return ok
}

// Text returns a variable as CAPT inserts it for a placeholder: a string as it is, any other value as JSON; empty if there is none.
func (v Variables) Text(name string) string { return textOf(v[name]) }

// Texts returns all variables, as Text does.
func (v Variables) Texts() map[string]string {
	texts := make(map[string]string, len(v))
	for name, value := range v {
		texts[name] = textOf(value)
	}
	return texts
}

func textOf(value apiextensionsv1.JSON) (text string) {
	if n := len(value.Raw); n > 1 && value.Raw[0] == '"' && isPlain(value.Raw[1:n-1]) {
		return string(value.Raw[1 : n-1])
	}
	if json.Unmarshal(value.Raw, &text) != nil {
		return string(value.Raw)
	}
	return text
}
