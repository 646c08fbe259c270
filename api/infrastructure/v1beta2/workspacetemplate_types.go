// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/terraform"
)

const (
	// WorkspaceTemplateFinalizer keeps a WorkspaceTemplate until its last user is deleted.
	WorkspaceTemplateFinalizer = "infrastructure.cluster.x-k8s.io/workspacetemplate"
	// LegacyWorkspaceTemplateFinalizer is the finalizer of CAPT v0.3.
	LegacyWorkspaceTemplateFinalizer = "workspacetemplate.v2.infrastructure.cluster.x-k8s.io"
)

// Substitution is where a variable replaces a placeholder ${name}.
// +kubebuilder:validation:Enum=Fields;All
type Substitution string

const (
	// SubstitutionFields leaves an inline module as it is. In the other fields, each placeholder must have a value.
	SubstitutionFields Substitution = "Fields"
	// SubstitutionAll also replaces the placeholders of an inline module that have a value.
	SubstitutionAll Substitution = "All"
)

// Escaping is what $${name} means in an inline module.
func (s Substitution) Escaping() terraform.Escaping {
	if s == "" {
		return terraform.NoEscape
	}
	return terraform.EscapeKept
}

// PassVariables is which variables CAPT passes to a module.
// +kubebuilder:validation:Enum=Declared;None
type PassVariables string

const (
	// PassDeclared passes the variables that the module declares, or that spec.inputs has, and that the template does not set itself.
	PassDeclared PassVariables = "Declared"
	// PassNone passes only what the template sets.
	PassNone PassVariables = "None"
)

// TemplateInput is a variable of the module.
type TemplateInput struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name,omitempty"`

	// description for those who set the variable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description,omitempty"`

	// required is true if the variable must have a value.
	// +optional
	Required bool `json:"required,omitempty"`

	// default is the value that is passed without another value.
	// +optional
	Default *apiextensionsv1.JSON `json:"default,omitempty"`

	// schema of the value, as in a CustomResourceDefinition (OpenAPI v3), without rules in CEL.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	Schema *apiextensionsv1.JSON `json:"schema,omitempty"`
}

// WorkspaceTemplateSpec is a Terraform module and its settings.
// +kubebuilder:validation:XValidation:rule="(self.?workspaceScope.orValue('Namespaced') == 'Cluster') == (oldSelf.?workspaceScope.orValue('Namespaced') == 'Cluster')",message="workspaceScope is immutable: a Workspace cannot move to another scope. Create another WorkspaceTemplate",fieldPath=".workspaceScope",reason=FieldValueForbidden
type WorkspaceTemplateSpec struct {
	// workspaceScope is the scope of the Workspaces: Namespaced (the default) or Cluster.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	WorkspaceScope terraform.Scope `json:"workspaceScope,omitempty"`

	// template of the Workspaces.
	// +required
	Template WorkspaceTemplateResource `json:"template,omitempty,omitzero"`

	// substitution is where the values of variables replace placeholders (docs/templates.md): Fields, the default of new templates, leaves an inline
	// module as it is, and requires a value for each placeholder; All also replaces those of an inline module, and leaves one without a value.
	// +optional
	Substitution Substitution `json:"substitution,omitempty"`

	// passVariables is which variables CAPT passes to the module (docs/templates.md): Declared, the default of new templates, passes those that the module
	// declares, or that inputs has, and that the template does not set itself; None passes only what the template sets.
	// +optional
	PassVariables PassVariables `json:"passVariables,omitempty"`

	// inputs are variables of a Remote or Flux module, which CAPT cannot read, or narrow those that an inline module declares.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	Inputs []TemplateInput `json:"inputs,omitempty"`

	// allowedNamespaces are the other namespaces in which the template may be used; absent means only in its own.
	// +optional
	AllowedNamespaces AllowedNamespaces `json:"allowedNamespaces,omitempty,omitzero"`

	// publishOutputs are names of further outputs to publish in status. Sensitive outputs are never published.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	PublishOutputs []string `json:"publishOutputs,omitempty"`

	// rollout is how an edit of the template reaches its users. Absent means that all follow at once.
	// +optional
	Rollout WorkspaceTemplateRollout `json:"rollout,omitempty,omitzero"`
}

// HasLiteralModule reports whether the module is inline, and no variable changes it.
func (s *WorkspaceTemplateSpec) HasLiteralModule() bool {
	return s.Template.Spec.ForProvider.Source == terraform.SourceInline && s.Substitution == SubstitutionFields
}

// Input returns the input of a name; nil if there is none.
func (s *WorkspaceTemplateSpec) Input(name string) *TemplateInput {
	for i := range s.Inputs {
		if s.Inputs[i].Name == name {
			return &s.Inputs[i]
		}
	}
	return nil
}

// HasEscape reports whether a field has $${name}, which is rendered to what substitution says.
func (s *WorkspaceTemplateSpec) HasEscape() bool {
	return s.has("$${", terraform.HasEscape)
}

// HasPlaceholder reports whether a field has ${name}.
func (s *WorkspaceTemplateSpec) HasPlaceholder() bool {
	return s.has("${", terraform.HasPlaceholder)
}

// has reports whether a field has what begins with a text, which needs no escape in JSON. The module, which is large, is not encoded.
func (s *WorkspaceTemplateSpec) has(begin string, what func(text string) bool) bool {
	module, others := s.Template.Spec.ForProvider.Module, s.Template.Spec
	others.ForProvider.Module = ""
	if strings.Contains(module, begin) && what(module) {
		return true
	}
	text, err := others.MarshalJSON()
	return err != nil || what(string(text))
}

// WorkspaceTemplateResource is the Workspace that is created from the template.
type WorkspaceTemplateResource struct {
	// metadata describes the template. It is not copied to the Workspace.
	// +optional
	Metadata WorkspaceTemplateMetadata `json:"metadata,omitempty,omitzero"`

	// spec of the Workspace, with placeholders in its strings (docs/templates.md).
	// +required
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MinProperties=1
	Spec terraform.WorkspaceSpec `json:"spec,omitempty,omitzero"`
}

// WorkspaceTemplateMetadata describes a template.
// +kubebuilder:validation:MinProperties=1
type WorkspaceTemplateMetadata struct {
	// description of the template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1572864
	Description string `json:"description,omitempty"`

	// version of the template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1572864
	Version string `json:"version,omitempty"`

	// tags of the template.
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
}

// AllowedNamespaces is a set of namespaces: those listed, and those whose labels match.
// +kubebuilder:validation:MinProperties=1
type AllowedNamespaces struct {
	// names of namespaces; "*" means all namespaces.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	Names []string `json:"names,omitempty"`

	// selector selects namespaces by their labels.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// IsDefined reports whether the template may be used from other namespaces.
func (a AllowedNamespaces) IsDefined() bool { return len(a.Names) > 0 || a.Selector != nil }

// WorkspaceTemplateStatus is the observed state of a template.
// +kubebuilder:validation:MinProperties=1
type WorkspaceTemplateStatus struct {
	// conditions are Valid, InUse, RollingOut and Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// revision is the SHA-256 of the scope and spec of the Workspaces.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Revision string `json:"revision,omitempty"`

	// users is the number of WorkspaceTemplateApplies that use the template.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Users *int32 `json:"users,omitempty"`

	// outdatedUsers is the number of users for which Terraform last applied another revision than the current one. It follows within
	// seconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OutdatedUsers *int32 `json:"outdatedUsers,omitempty"`

	// rollout is the state of the rollout of the current revision; absent unless spec.rollout.strategy is Staged.
	// +optional
	Rollout WorkspaceTemplateRolloutStatus `json:"rollout,omitempty,omitzero"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conversionData is the part of status that only v1beta1 has, for the conversion between the versions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	ConversionData string `json:"conversionData,omitempty"`
}

// WorkspaceTemplate is a Terraform module and its settings, for Workspaces of provider-terraform.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=workspacetemplates,scope=Namespaced,shortName=wt,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Valid",type=string,JSONPath=`.status.conditions[?(@.type=="Valid")].status`
// +kubebuilder:printcolumn:name="Users",type=integer,JSONPath=`.status.users`
// +kubebuilder:printcolumn:name="Outdated",type=integer,JSONPath=`.status.outdatedUsers`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.rollout.stage`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.template.metadata.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.workspaceScope`,priority=1
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.rollout.number`,priority=1
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.template.metadata.description`,priority=1
type WorkspaceTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the Terraform module and its settings.
	// +required
	Spec WorkspaceTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state of the template.
	// +optional
	Status WorkspaceTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (t *WorkspaceTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (t *WorkspaceTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// RolloutPolicy returns spec.rollout or, without it, the default of the manager as status reports it. The manager itself does not read status to
// decide.
func (t *WorkspaceTemplate) RolloutPolicy() WorkspaceTemplateRollout {
	return t.RolloutPolicyOr(t.Status.Rollout.DefaultPolicy)
}

// RolloutPolicyOr returns spec.rollout or, without it, a default.
func (t *WorkspaceTemplate) RolloutPolicyOr(byDefault WorkspaceTemplateRollout) WorkspaceTemplateRollout {
	if t.Spec.Rollout.Strategy == "" {
		return byDefault
	}
	return t.Spec.Rollout
}

// WorkspaceTemplateList is a list of WorkspaceTemplates.
//
// +kubebuilder:object:root=true
type WorkspaceTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkspaceTemplate `json:"items"`
}
