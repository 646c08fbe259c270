// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package plan contains the types of a plan: the fields that a migration writes, with their values before and after, one unit per Cluster.
package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"

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
	ID              string `json:"id"`       // ID is the first 12 hexadecimal digits of Checksum.
	Checksum        string `json:"checksum"` // Checksum is the SHA-256, in hexadecimal, of the compact JSON of the plan without id and checksum.
	// ClusterUID is the UID of the namespace kube-system, which identifies a management cluster.
	ClusterUID types.UID          `json:"clusterUID"`
	Created    metav1.Time        `json:"created"`
	Namespace  string             `json:"namespace,omitempty"` // Namespace is the only one that was planned; empty for all.
	Decisions  *migrate.Decisions `json:"decisions,omitempty"` // Decisions are those that the plan was made with.
	Units      []Unit             `json:"units,omitempty"`     // Units are sorted by namespace and name.
	Findings   []migrate.Finding  `json:"findings,omitempty"`  // Findings are what the user should know, and what is not planned.
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
	Endpoint   *Step                     `json:"endpoint,omitempty"`
	Workspaces []migrate.WorkspaceRecord `json:"workspaces,omitempty"` // Workspaces must not be changed by the migration.
}

// UnitState is the state of a unit. A unit is never adopted in part: if one member is blocked or ambiguous, so is the unit. Members that
// are skipped or were never built do not count.
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

// Objects lists all objects of the unit, each once.
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
	Create      map[string]any    `json:"create,omitempty"` // Create is the object to create, if it does not exist. A rollback does not delete it.
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

// ErrUnknownUnit is the error for a name that no unit has.
var ErrUnknownUnit = errors.New("CAPT has no such Cluster")

// Only keeps the units with some names and what was found about them; all if no name is given. Seal the plan then.
func (p *Plan) Only(names []string) error {
	units, missing := p.Select(names)
	switch {
	case len(missing) > 0:
		return fmt.Errorf("%w: %s. Name Clusters as NAMESPACE/NAME; captctl migrate check lists them", ErrUnknownUnit, missing[0])
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

// Undecided returns the findings that keep units from being adopted.
func (p *Plan) Undecided() []migrate.Finding {
	return slices.DeleteFunc(slices.Clone(p.Findings), func(finding migrate.Finding) bool { return !finding.Undecided() })
}

// FindingsOf returns the findings about the objects of a unit.
func (p *Plan) FindingsOf(unit *Unit) []migrate.Finding { return p.findingsAbout(unit.Objects()) }

func (p *Plan) findingsAbout(objects []migrate.ObjectRef) (findings []migrate.Finding) {
	about := sets.New(objects...)
	for _, finding := range p.Findings {
		if slices.ContainsFunc(finding.Objects(), about.Has) {
			findings = append(findings, finding)
		}
	}
	return findings
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

// Field is one field of an object before and after a step. A list to which the step adds one element is described by that element.
type Field struct {
	Path string `json:"path"` // Path is a JSON pointer (RFC 6901) through objects, for example /spec/workspaceName.
	// Element says that before and after are an element of the list at the path. Key identifies it; empty for a list of strings.
	Element bool            `json:"element,omitempty"`
	Key     string          `json:"key,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"` // Before is empty if the field or element did not exist.
	After   json.RawMessage `json:"after"`
}

// FieldState compares a field of a live object with the step.
type FieldState string

// States of fields.
const (
	Pending FieldState = "Pending" // The field has the value of before the step.
	Applied FieldState = "Applied" // The field has what the step writes. Fields that were added to it do not count.
	Changed FieldState = "Changed" // The field has another value.
)

// State compares a live object with the field.
func (f *Field) State(object map[string]any) (FieldState, error) {
	before, after, err := f.values()
	if err != nil {
		return "", err
	}
	live, found, _ := unstructured.NestedFieldNoCopy(object, f.path()...)
	if f.Element {
		elements, _ := live.([]any)
		i := f.index(elements, after)
		if found = i >= 0; found {
			live = elements[i]
		}
	}
	switch {
	case found && covers(after, live):
		return Applied, nil
	case found == (f.Before != nil) && (!found || reflect.DeepEqual(before, live)):
		return Pending, nil
	}
	return Changed, nil
}

// Set gives the field of an object the value of after.
func (f *Field) Set(object map[string]any) error { return f.put(object, true) }

// Revert gives the field of an object the value of before. A parent that becomes empty by that is removed.
func (f *Field) Revert(object map[string]any) error { return f.put(object, false) }

func (f *Field) put(object map[string]any, forward bool) error {
	before, after, err := f.values()
	if err != nil {
		return err
	}
	path, value, exists := f.path(), before, f.Before != nil
	if forward {
		value, exists = after, true
	}
	if f.Element {
		elements, _, _ := unstructured.NestedSlice(object, path...)
		i := f.index(elements, after)
		switch {
		case exists && i >= 0:
			elements[i] = value
		case exists:
			elements = append(elements, value)
		case i >= 0:
			elements = slices.Delete(elements, i, i+1)
		}
		value, exists = elements, len(elements) > 0
	}
	if !exists {
		remove(object, path)
		return nil
	}
	return unstructured.SetNestedField(object, value, path...)
}

func (f *Field) index(elements []any, like any) int {
	return slices.IndexFunc(elements, func(element any) bool {
		one, isObject := element.(map[string]any)
		other, isToo := like.(map[string]any)
		if f.Key == "" {
			return reflect.DeepEqual(element, like)
		}
		return isObject && isToo && reflect.DeepEqual(one[f.Key], other[f.Key])
	})
}

func (f *Field) values() (before, after any, err error) {
	if f.Before != nil {
		err = utiljson.Unmarshal(f.Before, &before)
	}
	if err := errors.Join(err, utiljson.Unmarshal(f.After, &after)); err != nil {
		return nil, nil, fmt.Errorf("field %s: reading before and after: %w", f.Path, err)
	}
	return before, after, nil
}

func (f *Field) path() []string {
	parts := strings.Split(f.Path, "/")[1:]
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

// remove removes a field, and the parents that become empty by that, but for spec.
func remove(object map[string]any, path []string) {
	unstructured.RemoveNestedField(object, path...)
	for parents := path[:len(path)-1]; len(parents) > 0 && !slices.Equal(parents, []string{"spec"}); parents = parents[:len(parents)-1] {
		parent, found, err := unstructured.NestedMap(object, parents...)
		if !found || err != nil || len(parent) > 0 {
			return
		}
		unstructured.RemoveNestedField(object, parents...)
	}
}

// covers reports whether everything that is wanted exists; there may be more.
func covers(want, live any) bool {
	fields, isObject := want.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(want, live)
	}
	object, isObject := live.(map[string]any)
	for name, value := range fields {
		if !isObject || !covers(value, object[name]) {
			return false
		}
	}
	return isObject
}
