// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import "github.com/capt-provider/capt/api/render"

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

// Severity of a finding.
type Severity string

// Severities of findings.
const (
	Ambiguous Severity = "Ambiguous" // The evidence does not decide, so the user has to.
	Blocked   Severity = "Blocked"   // Adopting would change something in the cloud, or take what belongs to another object.
	Skipped   Severity = "Skipped"   // The user decided to leave it.
	Warning   Severity = "Warning"   // Nothing prevents the adoption, but the user should know.
)

// Finding reports something about the fleet that the user should know or has to decide.
type Finding struct {
	Severity    Severity            `json:"severity"`
	Reason      string              `json:"reason"` // Reason is one word in CamelCase, for programs.
	Object      ObjectRef           `json:"object"`
	AlsoAbout   []ObjectRef         `json:"alsoAbout,omitempty"`   // AlsoAbout lists the other objects of the same conflict.
	Message     string              `json:"message"`               // Message states what is wrong, why, and what to do.
	Workspace   *ObjectRef          `json:"workspace,omitempty"`   // Workspace is the Workspace that the finding is about, if there is one.
	Candidates  []Candidate         `json:"candidates,omitempty"`  // Candidates are the objects to choose from, each with its evidence.
	Differences []render.Difference `json:"differences,omitempty"` // Differences are the fields of the Workspace that would change.
}

// Objects that the finding is about.
func (f Finding) Objects() []ObjectRef { return append([]ObjectRef{f.Object}, f.AlsoAbout...) }

// Undecided reports whether the finding keeps a unit from being adopted.
func (f Finding) Undecided() bool { return f.Severity == Ambiguous || f.Severity == Blocked }

// Candidate is an object that the user can choose.
type Candidate struct {
	Object  ObjectRef  `json:"object"`
	Owner   *ObjectRef `json:"owner,omitempty"` // Owner is the object that the candidate may belong to, if the finding is about several.
	For     []string   `json:"for,omitempty"`   // For and Against are the evidence.
	Against []string   `json:"against,omitempty"`
}
