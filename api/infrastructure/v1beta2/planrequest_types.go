// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// defaultPlanTTL is the default of PlanRequestSpec.TTLSecondsAfterFinished.
const defaultPlanTTL int32 = 3600

// PlanScope is whose current content is planned.
// +kubebuilder:validation:Enum=Namespace
type PlanScope string

// PlanScopeNamespace plans all WorkspaceTemplateApplies of the namespace.
const PlanScopeNamespace PlanScope = "Namespace"

// PlanRequestSpec is what Terraform is to plan. Exactly one of workspaceTemplateApplies, scope and template is set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a PlanRequest cannot be changed: it may have been planned already. Create another one",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="(has(self.workspaceTemplateApplies) ? 1 : 0) + (has(self.scope) ? 1 : 0) + (has(self.template) ? 1 : 0) == 1",message="exactly one of workspaceTemplateApplies, scope and template must be set",reason=FieldValueInvalid
type PlanRequestSpec struct {
	// workspaceTemplateApplies are names in the namespace of this object. Terraform plans the content that the Workspace of each has now: it shows what was
	// changed outside of Terraform.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	WorkspaceTemplateApplies []string `json:"workspaceTemplateApplies,omitempty"`

	// scope is Namespace if all WorkspaceTemplateApplies of the namespace are to be planned.
	// +optional
	Scope PlanScope `json:"scope,omitempty"`

	// template is another content of a WorkspaceTemplate, to be planned for each of its users. It is not stored in the template, and never applied.
	// +optional
	Template PlannedTemplate `json:"template,omitempty,omitzero"`

	// ttlSecondsAfterFinished is after how many seconds CAPT deletes this object when it is complete. The default is 3600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// PlannedTemplate is a content of a WorkspaceTemplate that is only planned.
type PlannedTemplate struct {
	// name of the WorkspaceTemplate in the namespace of this object. Its users are planned, those that it permits in other namespaces included.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// spec is the content. Without substitution or passVariables, those of the WorkspaceTemplate count; allowedNamespaces and rollout have no effect.
	// +required
	Spec WorkspaceTemplateSpec `json:"spec,omitempty,omitzero"`
}

// PlanRequestStatus is how far the plans have come. The plans are in status.plans of the WorkspaceTemplateApplies.
// +kubebuilder:validation:MinProperties=1
type PlanRequestStatus struct {
	// conditions are Complete.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// total is how many WorkspaceTemplateApplies are to be planned.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Total *int32 `json:"total,omitempty"`

	// planned is how many have a plan.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Planned *int32 `json:"planned,omitempty"`

	// changed is for how many of those that have a plan Terraform would change something.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Changed *int32 `json:"changed,omitempty"`

	// unknown is for how many of those for which Terraform would change something it is not known what.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unknown *int32 `json:"unknown,omitempty"`

	// failed is for how many the plan fails.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Failed *int32 `json:"failed,omitempty"`

	// unavailable is how many cannot be planned, for example because they are paused. Condition Complete has the reasons.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Unavailable *int32 `json:"unavailable,omitempty"`

	// completionTime is when each WorkspaceTemplateApply had a result.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// observedGeneration is the generation of spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// RequestedPlan is the plan of a WorkspaceTemplateApply that a PlanRequest requested.
type RequestedPlan struct {
	// requestUID is the UID of the PlanRequest.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	RequestUID types.UID `json:"requestUID,omitempty"`

	// requestName is the name of the PlanRequest, which is in the namespace of the WorkspaceTemplateApply or of its template.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RequestName string `json:"requestName,omitempty"`

	// plan is the result.
	// +required
	Plan RevisionPreview `json:"plan,omitempty,omitzero"`
}

// PlanRequest requests plans of Terraform, which are never applied: of the content that Workspaces have now, or of another content of a
// WorkspaceTemplate.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=planrequests,scope=Namespaced,categories=cluster-api;capt
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template.name`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Planned",type=integer,JSONPath=`.status.planned`
// +kubebuilder:printcolumn:name="Changed",type=integer,JSONPath=`.status.changed`
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].message`,priority=1
type PlanRequest struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what to plan. It cannot be changed.
	// +required
	Spec PlanRequestSpec `json:"spec,omitempty,omitzero"`

	// status is how far the plans have come.
	// +optional
	Status PlanRequestStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions of the object.
func (r *PlanRequest) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions of the object.
func (r *PlanRequest) SetConditions(conditions []metav1.Condition) { r.Status.Conditions = conditions }

// IsComplete reports whether no further plan is made.
func (r *PlanRequest) IsComplete() bool { return r.Status.CompletionTime != nil }

// TTL is how long the object exists after it is complete.
func (r *PlanRequest) TTL() time.Duration {
	seconds := defaultPlanTTL
	if ttl := r.Spec.TTLSecondsAfterFinished; ttl != nil {
		seconds = *ttl
	}
	return time.Duration(seconds) * time.Second
}

// TemplateKey returns the namespace and name of the template whose users are planned; empty without one.
func (r *PlanRequest) TemplateKey() (key types.NamespacedName) {
	if name := r.Spec.Template.Name; name != "" {
		key = types.NamespacedName{Namespace: r.Namespace, Name: name}
	}
	return key
}

// IsOlder orders PlanRequests: those that were created first are served first.
func (r *PlanRequest) IsOlder(other *PlanRequest) bool {
	return cmp.Or(r.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(r.Namespace+"/"+r.Name, other.Namespace+"/"+other.Name)) < 0
}

// PlanRequestList is a list of PlanRequests.
//
// +kubebuilder:object:root=true
type PlanRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlanRequest `json:"items"`
}
