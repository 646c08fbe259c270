// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspace/render"
)

// APIVersion of the documents that captctl writes: plans, decisions, reports and journals. Fields are added within a version, never
// changed or removed; docs/captctl-output.md describes them.
const APIVersion = "migrate.capt.cluster.x-k8s.io/v1"

// ObjectRef is an object.
type ObjectRef struct {
	// Group and Kind; the version is v1beta2 for CAPT's own kinds.
	Group     string    `json:"group"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// Ref refers to an object of one of CAPT's kinds.
func Ref(kind string, object metav1.Object) ObjectRef {
	ref := ObjectRef{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	for _, known := range Kinds() {
		if known.Kind == kind {
			ref.Group = known.Group
		}
	}
	return ref
}

// RefOf refers to an object that has its kind.
func RefOf(object *unstructured.Unstructured) ObjectRef {
	return ObjectRef{
		Group: object.GroupVersionKind().Group, Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// String is Kind namespace/name.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// OwnerState is what a migration has to do with an owner: a CAPTCluster, a CAPTControlPlane, or a WorkspaceTemplateApply without one.
type OwnerState string

const (
	// Adopted: there is nothing to write.
	Adopted OwnerState = "Adopted"
	// Adoptable: a plan adopts it.
	Adoptable OwnerState = "Adoptable"
	// OwnerAmbiguous: the user has to decide.
	OwnerAmbiguous OwnerState = "Ambiguous"
	// OwnerBlocked: adopting it would change something in the cloud.
	OwnerBlocked OwnerState = "Blocked"
	// OwnerSkipped: it stays as it is, by decision or because it is of a kind that this version does not have.
	OwnerSkipped OwnerState = "Skipped"
	// NothingToAdopt: it needs no WorkspaceTemplateApply, or none was ever created for it.
	NothingToAdopt OwnerState = "NothingToAdopt"
)

// BaselineItem is a Workspace as it was when the plan was made.
type BaselineItem struct {
	ObjectRef  `json:",inline"`
	Generation int64 `json:"generation"`
	// Hash is WorkspaceHash.
	Hash string `json:"hash"`
}

// WorkspaceHash is a hash of what a migration must not change in a Workspace: spec, labels, annotations and finalizers.
func WorkspaceHash(workspace *unstructured.Unstructured) (string, error) {
	data, err := json.Marshal(struct {
		Spec                any
		Labels, Annotations map[string]string
		Finalizers          []string
	}{workspace.Object["spec"], workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers()})
	if err != nil {
		return "", fmt.Errorf("encoding Workspace %s: %w", workspace.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])[:16], nil
}

// Unsettled is why a Workspace is not up to date; empty if it is. It has reasons only: messages of Terraform may hold secrets.
func Unsettled(workspace *unstructured.Unstructured) string {
	if workspace.GetDeletionTimestamp() != nil {
		return "it is being deleted"
	}
	var typed terraform.WorkspaceStatus
	status, _ := workspace.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(status, &typed); err != nil {
		return "its status cannot be read"
	}
	for _, kind := range []string{"Synced", "Ready"} {
		switch c := meta.FindStatusCondition(typed.Conditions, kind); {
		case c == nil:
			return kind + " is unknown"
		case c.Status != metav1.ConditionTrue:
			return fmt.Sprintf("%s is %s (%s)", kind, c.Status, c.Reason)
		case c.ObservedGeneration != 0 && c.ObservedGeneration != workspace.GetGeneration(): // Before v1 the provider reports no generation.
			return "its last change is not applied yet"
		}
	}
	return ""
}

// Severity of a finding.
type Severity string

const (
	// Ambiguous: the evidence does not decide, so the user has to.
	Ambiguous Severity = "Ambiguous"
	// Blocked: adopting would change something in the cloud, or take what belongs to another object.
	Blocked Severity = "Blocked"
	// Skipped: the user decided to leave it.
	Skipped Severity = "Skipped"
	// Warning: nothing prevents the adoption, but the user should know.
	Warning Severity = "Warning"
)

// Finding is something that a user should know.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is one word in CamelCase, for programs.
	Reason string    `json:"reason"`
	Object ObjectRef `json:"object"`
	// AlsoAbout are the other objects of the same conflict.
	AlsoAbout []ObjectRef `json:"alsoAbout,omitempty"`
	// Message says what is wrong, why, and what to do.
	Message string `json:"message"`
	// Workspace is what several WorkspaceTemplateApplies refer to, if it is about one.
	Workspace *ObjectRef `json:"workspace,omitempty"`
	// Candidates are what it is about, each with its evidence.
	Candidates []Candidate `json:"candidates,omitempty"`
	// Differences are what a Workspace would become.
	Differences []render.Difference `json:"differences,omitempty"`
}

// Objects that the finding is about.
func (f Finding) Objects() []ObjectRef { return append([]ObjectRef{f.Object}, f.AlsoAbout...) }

// Undecided reports whether the finding keeps a unit from being adopted.
func (f Finding) Undecided() bool { return f.Severity == Ambiguous || f.Severity == Blocked }

// Candidate is an object that may be the right one.
type Candidate struct {
	Object ObjectRef `json:"object"`
	// Owner is for which object it is a candidate, where the finding is about several.
	Owner *ObjectRef `json:"owner,omitempty"`
	// For and Against are the evidence.
	For     []string `json:"for,omitempty"`
	Against []string `json:"against,omitempty"`
}
