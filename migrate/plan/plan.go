// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan describes what a migration writes, one unit per Cluster: which field of which object, before and after. It has no client.
package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
)

const (
	kind = "Plan"
	// idLength is enough to distinguish plans, short enough to type, and part of object names.
	idLength = 12
)

// Plan is the migration of a fleet. Its units do not depend on each other.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	ID              string `json:"id"` // ID is the first 12 hexadecimal digits of Checksum.
	// Checksum is the SHA-256, in hexadecimal, of the compact JSON of the plan without id and checksum.
	Checksum string `json:"checksum"`
	// ClusterUID is the UID of the namespace kube-system, which identifies a management cluster.
	ClusterUID types.UID          `json:"clusterUID"`
	Created    metav1.Time        `json:"created"`
	Namespace  string             `json:"namespace,omitempty"` // Namespace is the only one that was planned; empty for all.
	Decisions  *migrate.Decisions `json:"decisions,omitempty"` // Decisions are those that the plan was made with.
	Units      []Unit             `json:"units,omitempty"`     // Units are sorted by namespace and name.
	// Findings are what the user should know, and what is not planned.
	Findings []migrate.Finding `json:"findings,omitempty"`
}

// Unit is a Cluster with everything that belongs to it, or a WorkspaceTemplateApply without an owner. It is applied as a whole.
type Unit struct {
	// Object is the Cluster, or the WorkspaceTemplateApply. Its UID is empty if the Cluster does not exist.
	Object migrate.ObjectRef `json:"object"`
	State  UnitState         `json:"state"`
	// Members are the CAPTCluster, the CAPTControlPlane and the WorkspaceTemplateApplies without an owner, such as helpers.
	Members []Member `json:"members"`
	// Steps are in order: an object is written before the objects that refer to it. A rollback reverts them in reverse order.
	Steps []Step `json:"steps,omitempty"`
	// Endpoint repairs spec.controlPlaneEndpoint of a Cluster that is Adopted or Adoptable; it is written only with --fix-cluster-endpoints.
	Endpoint   *Step                  `json:"endpoint,omitempty"`
	Workspaces []migrate.BaselineItem `json:"workspaces,omitempty"` // Workspaces must not be changed by the migration.
}

// UnitState is what becomes of a unit. A unit is never adopted in part: a blocked or ambiguous member decides for all of it. Members that
// stay as they are do not count.
type UnitState string

// States of units.
const (
	Adopted       UnitState = "Adopted"       // Everything is written already.
	Adoptable     UnitState = "Adoptable"     // The steps of the unit adopt it without a change of a Workspace.
	NeedsDecision UnitState = "NeedsDecision" // A member is ambiguous. The unit has no steps.
	Blocked       UnitState = "Blocked"       // The manager would change a Workspace of a member. The unit has no steps.
	Skipped       UnitState = "Skipped"       // It stays as it is, by decision or because it is of a kind that this version does not have.
	NeverBuilt    UnitState = "NeverBuilt"    // CAPT v0.3 created nothing for it, so there is nothing to adopt. The manager creates it.
	PartlyAdopted UnitState = "PartlyAdopted" // In reports only: it is adopted but for objects that a decision skips, which await adoption.
	Interrupted   UnitState = "Interrupted"   // In reports only: a run ended while it wrote or reverted the unit. Its objects may be paused.
	InProgress    UnitState = "InProgress"    // In reports only: a run writes or reverts the unit.
)

// Name is NAMESPACE/NAME of the Cluster, or KIND/NAMESPACE/NAME of another object. It is unique in a plan.
func (u *Unit) Name() string {
	name := u.Object.Namespace + "/" + u.Object.Name
	if u.Object.Kind != "Cluster" {
		name = u.Object.Kind + "/" + name
	}
	return name
}

// Objects are all that the unit is about, each once.
func (u *Unit) Objects() (objects []migrate.ObjectRef) {
	add := func(refs ...*migrate.ObjectRef) {
		for _, ref := range refs {
			if ref != nil && !slices.Contains(objects, *ref) {
				objects = append(objects, *ref)
			}
		}
	}
	add(&u.Object)
	for i := range u.Members {
		add(&u.Members[i].Object, u.Members[i].WorkspaceTemplateApply, u.Members[i].Workspace)
	}
	for i := range u.Steps {
		add(&u.Steps[i].Object)
	}
	return objects
}

// Member is an object that is adopted, with what belongs to it.
type Member struct {
	Object migrate.ObjectRef  `json:"object"`
	State  migrate.OwnerState `json:"state"`
	// Role of a WorkspaceTemplateApply without an owner, for example "kubeconfig helper of CAPTControlPlane demo".
	Role                   string             `json:"role,omitempty"`
	WorkspaceTemplateApply *migrate.ObjectRef `json:"workspaceTemplateApply,omitempty"`
	Workspace              *migrate.ObjectRef `json:"workspace,omitempty"`
	Evidence               []string           `json:"evidence,omitempty"` // Evidence for the match, the strongest first.
	Paused                 bool               `json:"paused,omitempty"`   // Paused is true if the Cluster or the object is paused.
}

// Step is one write of one object: some of its fields, or all of a new object.
type Step struct {
	Object      migrate.ObjectRef `json:"object"`
	Subresource string            `json:"subresource,omitempty"` // Subresource is empty or "status".
	Why         string            `json:"why"`                   // Why says what each field is for, or the new object.
	Fields      []Field           `json:"fields,omitempty"`
	// Create is the object to create, if it does not exist. A rollback does not delete it.
	Create map[string]any `json:"create,omitempty"`
}

// Select returns the units with some names, in the order of the plan; all if no name is given.
func (p *Plan) Select(names []string) (units []*Unit, missing []string) {
	missing = slices.Clone(names)
	for i := range p.Units {
		name := p.Units[i].Name()
		if len(names) == 0 || slices.Contains(names, name) {
			units = append(units, &p.Units[i])
		}
		missing = slices.DeleteFunc(missing, func(other string) bool { return other == name })
	}
	return units, missing
}

// Only keeps the units with some names and what was found about them; all if no name is given. Seal the plan then.
func (p *Plan) Only(names []string) error {
	units, missing := p.Select(names)
	switch {
	case len(missing) > 0:
		return fmt.Errorf("there is no Cluster %s of CAPT. Name Clusters as NAMESPACE/NAME; captctl migrate check lists them", missing[0])
	case len(names) == 0:
		return nil
	}
	var kept []Unit
	var about []migrate.ObjectRef
	for _, unit := range units {
		kept, about = append(kept, *unit), append(about, unit.Objects()...)
	}
	p.Units = kept
	p.Findings = p.findingsAbout(about)
	return nil
}

// Undecided are the findings that keep units from being adopted.
func (p *Plan) Undecided() (found []migrate.Finding) {
	for _, finding := range p.Findings {
		if finding.Undecided() {
			found = append(found, finding)
		}
	}
	return found
}

// FindingsOf returns the findings about the objects of a unit.
func (p *Plan) FindingsOf(unit *Unit) []migrate.Finding { return p.findingsAbout(unit.Objects()) }

func (p *Plan) findingsAbout(objects []migrate.ObjectRef) (found []migrate.Finding) {
	for _, finding := range p.Findings {
		if slices.ContainsFunc(finding.Objects(), func(object migrate.ObjectRef) bool { return slices.Contains(objects, object) }) {
			found = append(found, finding)
		}
	}
	return found
}

// Read reads a plan and checks that it was not edited.
func Read(from io.Reader) (*Plan, error) {
	indented, err := io.ReadAll(from)
	if err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	// The values of fields stay raw, and are compared as bytes with those of a new plan.
	p, compact := &Plan{}, bytes.Buffer{}
	if err := json.Compact(&compact, indented); err != nil {
		return nil, fmt.Errorf("it is not a plan in JSON: %w", err)
	}
	decoder := json.NewDecoder(&compact)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(p); err != nil {
		return nil, fmt.Errorf("reading the plan: %w", err)
	}
	if p.APIVersion != migrate.APIVersion || p.Kind != kind {
		return nil, fmt.Errorf("apiVersion %q and kind %q are not those of a plan (%s, %s)", p.APIVersion, p.Kind, migrate.APIVersion, kind)
	}
	sum, err := p.sum()
	if err != nil {
		return nil, err
	}
	if sum != p.Checksum || p.ID != sum[:idLength] {
		return nil, errors.New("the plan was edited: its checksum is wrong. Create a new plan; use --decisions to change what it does")
	}
	return p, nil
}

// Write writes the plan as indented JSON.
func (p *Plan) Write(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(p)
}

// Seal sets the checksum and the ID.
func (p *Plan) Seal() error {
	p.APIVersion, p.Kind = migrate.APIVersion, kind
	sum, err := p.sum()
	if err != nil {
		return err
	}
	p.Checksum, p.ID = sum, sum[:idLength]
	return nil
}

func (p *Plan) sum() (string, error) {
	content := *p
	content.ID, content.Checksum = "", ""
	data, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encoding the plan: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
