// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate has what all parts of a migration from CAPT v0.3 share: the Snapshot of a fleet, decisions, findings, and how a
// command ends. Package plan describes what is written, planner decides that from a snapshot, and apply writes it.
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

	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// APIVersion of the documents that captctl writes: plans, decisions, reports and journals. Fields are added within a version, never
// changed or removed; docs/captctl-output.md describes them.
const APIVersion = "migrate.capt.cluster.x-k8s.io/v1"

// ObjectRef is an object.
type ObjectRef struct {
	Group     string    `json:"group"` // Group and Kind; the version is v1beta2 for CAPT's own kinds.
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// Ref refers to a Cluster, or to an object of one of CAPT's kinds.
func Ref(kind string, object metav1.Object) ObjectRef {
	ref := ObjectRef{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()}
	for _, known := range ReadOrWritten() {
		if known.Kind == kind {
			ref.Group = known.Group
		}
	}
	return ref
}

// RefOf refers to an object that has its kind.
func RefOf(object *unstructured.Unstructured) ObjectRef {
	return ObjectRef{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName(), object.GetUID()}
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

// States of owners.
const (
	Adopted        OwnerState = "Adopted"        // There is nothing to write.
	Adoptable      OwnerState = "Adoptable"      // A plan adopts it.
	OwnerAmbiguous OwnerState = "Ambiguous"      // The user has to decide.
	OwnerBlocked   OwnerState = "Blocked"        // Adopting it would change something in the cloud.
	OwnerSkipped   OwnerState = "Skipped"        // It stays as it is, by decision or because it is of a kind that this version does not have.
	NothingToAdopt OwnerState = "NothingToAdopt" // It needs no WorkspaceTemplateApply, or none was ever created for it.
)

// BaselineItem is a Workspace as it was when the plan was made.
type BaselineItem struct {
	ObjectRef  `json:",inline"`
	Generation int64  `json:"generation"`
	Hash       string `json:"hash"` // Hash of spec, labels, annotations and finalizers, 16 hexadecimal digits.
}

// Baseline is a Workspace as it is, with a hash of what a migration must not change: spec, labels, annotations and finalizers.
func Baseline(workspace *unstructured.Unstructured) (BaselineItem, error) {
	data, err := json.Marshal(struct {
		Spec                any
		Labels, Annotations map[string]string
		Finalizers          []string
	}{workspace.Object["spec"], workspace.GetLabels(), workspace.GetAnnotations(), workspace.GetFinalizers()})
	if err != nil {
		return BaselineItem{}, fmt.Errorf("encoding Workspace %s: %w", workspace.GetName(), err)
	}
	sum := sha256.Sum256(data)
	return BaselineItem{ObjectRef: RefOf(workspace), Generation: workspace.GetGeneration(), Hash: hex.EncodeToString(sum[:])[:16]}, nil
}

// WhyNotUpToDate is why a Workspace is not up to date; empty if it is. It has reasons only: messages of Terraform may hold secrets.
func WhyNotUpToDate(workspace *unstructured.Unstructured) string {
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

// Severities of findings.
const (
	Ambiguous Severity = "Ambiguous" // The evidence does not decide, so the user has to.
	Blocked   Severity = "Blocked"   // Adopting would change something in the cloud, or take what belongs to another object.
	Skipped   Severity = "Skipped"   // The user decided to leave it.
	Warning   Severity = "Warning"   // Nothing prevents the adoption, but the user should know.
)

// Finding is something that a user should know.
type Finding struct {
	Severity  Severity    `json:"severity"`
	Reason    string      `json:"reason"` // Reason is one word in CamelCase, for programs.
	Object    ObjectRef   `json:"object"`
	AlsoAbout []ObjectRef `json:"alsoAbout,omitempty"` // AlsoAbout are the other objects of the same conflict.
	Message   string      `json:"message"`             // Message says what is wrong, why, and what to do.
	// Workspace is what several WorkspaceTemplateApplies refer to, if it is about one.
	Workspace   *ObjectRef          `json:"workspace,omitempty"`
	Candidates  []Candidate         `json:"candidates,omitempty"`  // Candidates are what it is about, each with its evidence.
	Differences []render.Difference `json:"differences,omitempty"` // Differences are what a Workspace would become.
}

// Objects that the finding is about.
func (f Finding) Objects() []ObjectRef { return append([]ObjectRef{f.Object}, f.AlsoAbout...) }

// Undecided reports whether the finding keeps a unit from being adopted.
func (f Finding) Undecided() bool { return f.Severity == Ambiguous || f.Severity == Blocked }

// Candidate is an object that may be the right one.
type Candidate struct {
	Object  ObjectRef  `json:"object"`
	Owner   *ObjectRef `json:"owner,omitempty"` // Owner is for which object it is a candidate, where the finding is about several.
	For     []string   `json:"for,omitempty"`   // For and Against are the evidence.
	Against []string   `json:"against,omitempty"`
}
