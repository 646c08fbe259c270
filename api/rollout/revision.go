// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollout has the rules of staged rollouts of WorkspaceTemplates: what a revision is, where it is stored, and which user of a
// template may follow to which revision. Its functions are pure. docs/rollouts.md describes the rules.
package rollout

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// maxRevisions is how many revisions of a template are kept, in addition to those in use.
const maxRevisions = 10

// Content is the part of a template that a revision has: what Workspaces are rendered from.
type Content struct {
	Scope terraform.Scope         `json:"workspaceScope"`
	Spec  terraform.WorkspaceSpec `json:"spec"`
	// Substitution is spec.substitution if it makes a difference to Spec.
	Substitution infrav1.Substitution `json:"substitution,omitempty"`
	// PassVariables and Inputs are those of the template if variables are passed.
	PassVariables infrav1.PassVariables   `json:"passVariables,omitempty"`
	Inputs        []infrav1.TemplateInput `json:"inputs,omitempty"`
}

// Revision is a content that a template had.
type Revision struct {
	// Hash of Content: SHA-256, as 64 hexadecimal digits.
	Hash string
	// Name of the ControllerRevision that stores it; empty if it is not stored.
	Name string
	// Number is higher than the numbers of all earlier revisions of the template.
	Number  int64
	Content Content
	// RolledOut is true if a rollout of the revision was completed, so that new users get it.
	RolledOut bool
	// Approval is zero if the revision was not approved, or a user returned to it since.
	Approval Approval
	// Created is when it was first stored; zero if it is not stored.
	Created metav1.Time
	// Copied is true if it is stored without an owner: a user copied it from another management cluster, and the template gets it.
	Copied bool
}

// Approval is who approved a revision, and when, as the webhooks recorded it.
type Approval struct {
	By string `json:"by,omitempty"`
	At string `json:"at,omitempty"` // At is a time, RFC 3339.
}

// orNil returns nil for the zero value.
func (a Approval) orNil() *Approval {
	if a == (Approval{}) {
		return nil
	}
	return &a
}

func approvalIn(annotations map[string]string) Approval {
	return Approval{annotations[naming.ApprovedByAnnotation], annotations[naming.ApprovedAtAnnotation]}
}

// ApprovalOf returns the approval that the annotations of an object record.
func ApprovalOf(object metav1.Object) Approval { return approvalIn(object.GetAnnotations()) }

// HashOf returns the hash of the current content of a template.
func HashOf(template *infrav1.WorkspaceTemplate) string { return contentOf(template).hash() }

func contentOf(template *infrav1.WorkspaceTemplate) Content {
	c := Content{Scope: template.Spec.WorkspaceScope.OrDefault(), Spec: template.Spec.Template.Spec, Substitution: relevantSubstitution(&template.Spec)}
	if template.Spec.PassVariables == infrav1.PassDeclared {
		c.PassVariables, c.Inputs = infrav1.PassDeclared, template.Spec.Inputs
	}
	return c
}

// relevantSubstitution returns spec.substitution; empty if Workspaces are rendered as without it, so that the hash does not change when a template of
// an earlier version is converted. With Fields, a placeholder without a value is an error: without it, Terraform would get its text.
func relevantSubstitution(spec *infrav1.WorkspaceTemplateSpec) infrav1.Substitution {
	if spec.Substitution != "" && (spec.HasEscape() || spec.Substitution == infrav1.SubstitutionFields && spec.HasPlaceholder()) {
		return spec.Substitution
	}
	return ""
}

func (c Content) hash() string {
	content := []any{c.Scope, c.Spec}
	if c.Substitution != "" {
		content = append(content, c.Substitution)
	}
	if c.PassVariables != "" {
		content = append(content, c.PassVariables, c.Inputs)
	}
	hash, err := terraform.Revision(content)
	if err != nil {
		return "" // Cannot happen: it was decoded from JSON.
	}
	return hash
}

// At returns a template with the content of a revision.
func (r *Revision) At(template *infrav1.WorkspaceTemplate) *infrav1.WorkspaceTemplate {
	at := template.DeepCopy()
	r.Content.Spec.DeepCopyInto(&at.Spec.Template.Spec)
	if r.Content.PassVariables != "" {
		at.Spec.PassVariables, at.Spec.Inputs = r.Content.PassVariables, r.Content.Inputs
	} else if at.Spec.PassVariables != "" {
		at.Spec.PassVariables = infrav1.PassNone
	}
	if relevantSubstitution(&at.Spec) == r.Content.Substitution {
		return at
	}
	at.Spec.Substitution = r.Content.Substitution
	if at.Spec.Substitution == "" && !at.Spec.HasEscape() { // The same, and can be written.
		at.Spec.Substitution = infrav1.SubstitutionAll
	}
	return at
}

// Object returns the ControllerRevision that stores a revision of a template.
func (r *Revision) Object(template *infrav1.WorkspaceTemplate) (*appsv1.ControllerRevision, error) {
	data, err := json.Marshal(r.Content)
	if err != nil {
		return nil, fmt.Errorf("encoding revision %s: %w", r.Hash, err)
	}
	object := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: template.Namespace, Name: cmp.Or(r.Name, naming.TemplateRevision(template.Name, r.Hash)),
			Labels: map[string]string{naming.TemplateRevisionLabel: terraform.ShortRevision(r.Hash)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: r.Number,
	}
	if !r.Copied {
		object.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(template, infrav1.GroupVersion.WithKind("WorkspaceTemplate"))}
	}
	if r.RolledOut {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, naming.RolledOutAnnotation, "true")
	}
	for annotation, value := range map[string]string{naming.ApprovedByAnnotation: r.Approval.By, naming.ApprovedAtAnnotation: r.Approval.At} {
		if value != "" {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, annotation, value)
		}
	}
	return object, nil
}

// Parse returns the revision in a ControllerRevision. It is an error if the name does not have the hash of the content: then it is not what CAPT
// stored. The API server lets no client change either of them.
func Parse(object *appsv1.ControllerRevision) (*Revision, error) {
	r := &Revision{
		Name: object.Name, Number: object.Revision, RolledOut: object.Annotations[naming.RolledOutAnnotation] == "true",
		Approval: approvalIn(object.Annotations), Created: object.CreationTimestamp, Copied: len(object.OwnerReferences) == 0,
	}
	if err := json.Unmarshal(object.Data.Raw, &r.Content); err != nil {
		return nil, fmt.Errorf("decoding ControllerRevision %s: %w", object.Name, err)
	}
	if r.Hash = r.Content.hash(); !strings.HasSuffix(r.Name, naming.TemplateRevision("", r.Hash)) && !r.hasShortName() {
		return nil, fmt.Errorf("ControllerRevision %s: the name is not that of its content, which has hash %s", object.Name, r.Hash)
	}
	return r, nil
}

// TemplateOf returns the key of the template that a ControllerRevision belongs to: of its controller or, without an owner, as its name says.
func TemplateOf(object metav1.Object) types.NamespacedName {
	name := object.GetName()
	name = name[:max(0, strings.LastIndex(name, naming.TemplateRevision("", "")))]
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		name = controller.Name
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
}

// History has the revisions of a template.
type History []Revision

// HistoryOf returns the valid revisions that are stored for a template, the newest first.
func HistoryOf(template *infrav1.WorkspaceTemplate, objects []appsv1.ControllerRevision) History {
	var history History
	for i := range objects {
		if revision, err := parseFor(template, &objects[i]); err == nil {
			history = append(history, *revision)
		}
	}
	slices.SortFunc(history, func(a, b Revision) int { return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Hash, b.Hash)) })
	return history
}

// parseFor is Parse for a ControllerRevision of a template. It is an error if it is not one.
func parseFor(template *infrav1.WorkspaceTemplate, object *appsv1.ControllerRevision) (*Revision, error) {
	key := types.NamespacedName{Namespace: template.Namespace, Name: template.Name}
	if TemplateOf(object) != key || len(object.OwnerReferences) > 0 && !metav1.IsControlledBy(object, template) {
		return nil, fmt.Errorf("ControllerRevision %s: WorkspaceTemplate %s is not its controller", object.Name, key)
	}
	return Parse(object)
}

// WhyNotInHistory returns why HistoryOf does not have a ControllerRevision with the name of a revision, and what to do; empty if it has.
func WhyNotInHistory(template *infrav1.WorkspaceTemplate, object *appsv1.ControllerRevision) string {
	if _, labeled := object.Labels[naming.TemplateRevisionLabel]; !labeled {
		return fmt.Sprintf("ControllerRevision %s does not have the label %s. Restore the label, with any value", object.Name, naming.TemplateRevisionLabel)
	}
	if _, err := parseFor(template, object); err != nil {
		return err.Error() + ". Delete the ControllerRevision, so that CAPT stores it again"
	}
	return ""
}

// Find returns the revision with a hash; nil when there is none.
func (h History) Find(hash string) *Revision {
	if i := slices.IndexFunc(h, func(r Revision) bool { return r.Hash == hash }); i >= 0 {
		return &h[i]
	}
	return nil
}

// Stable returns the hash of the newest revision that was rolled out, which new users get; empty when there is none.
func (h History) Stable() string {
	if i := slices.IndexFunc(h, func(r Revision) bool { return r.RolledOut }); i >= 0 {
		return h[i].Hash
	}
	return ""
}

// Record returns the revision of the current content as it has to be stored: with a new number, unless it is the newest one already. A
// revision that returns counts as rolled out only if no later one was: new users would get it before its rollout is complete.
func (h History) Record(template *infrav1.WorkspaceTemplate) Revision {
	content := contentOf(template)
	r := Revision{Hash: content.hash(), Number: 1, Content: content}
	switch {
	case len(h) == 0:
	case h[0].Hash == r.Hash:
		r = h[0]
		r.Copied = false
	default:
		r.Number, r.RolledOut = h[0].Number+1, h.Stable() == r.Hash
		if stored := h.Find(r.Hash); stored != nil {
			r.Name, r.Created = stored.Name, stored.Created
		}
	}
	if template.Annotations[naming.ApproveAnnotation] == r.Hash {
		r.Approval = approvalIn(template.Annotations)
	}
	return r
}

// With returns the history after a revision, which Record returned, was stored.
func (h History) With(revision Revision) History {
	others := slices.DeleteFunc(slices.Clone(h), func(r Revision) bool { return r.Hash == revision.Hash })
	return slices.Insert(others, 0, revision)
}

// Named returns the revision with a number, or with a hash of which a user gave at least the digits that are shown; nil when there is none, or more
// than one.
func (h History) Named(name string) (named *Revision) {
	for i := range h {
		byHash := len(name) >= len(terraform.ShortRevision(h[i].Hash)) && strings.HasPrefix(h[i].Hash, name)
		switch {
		case name == strconv.FormatInt(h[i].Number, 10):
			return &h[i]
		case byHash && named != nil:
			return nil
		case byHash:
			named = &h[i]
		}
	}
	return named
}

// Previous returns the revision that a rollback from the target returns to: the newest other one that was rolled out, or else the newest other
// one; nil when there is none.
func (h History) Previous(target string) *Revision {
	others := slices.DeleteFunc(slices.Clone(h), func(r Revision) bool { return r.Hash == target })
	if stable := others.Find(others.Stable()); stable != nil {
		return stable
	}
	if len(others) == 0 {
		return nil
	}
	return &others[0]
}

// Obsolete lists the ControllerRevisions to delete: of revisions that no user has, except for the newest ones and for the one that new users get.
func (h History) Obsolete(users []User) (names []string) {
	stable := h.Stable()
	for i := range h {
		inUse := slices.ContainsFunc(users, func(u User) bool { return u.mayHave(h[i].Hash) })
		if i >= maxRevisions && h[i].Hash != stable && !inUse {
			names = append(names, h[i].Name)
		}
	}
	return names
}

// Earlier versions recorded the first twelve digits of hashes, in names of ControllerRevisions, and in spec and status of WorkspaceTemplateApplies. What
// they stored remains valid. A recorded value counts only if it can mean one content, and approves nothing (docs/decisions/0038).

// Store reads the ControllerRevisions of templates.
type Store struct {
	// First returns the first of some that exists; nil if none does.
	First func(keys ...types.NamespacedName) (*appsv1.ControllerRevision, error)
	// All returns those of a namespace.
	All func(namespace string) ([]appsv1.ControllerRevision, error)
}

// StoredAs returns the ControllerRevisions that a revision of a template may be stored in.
func StoredAs(template types.NamespacedName, revision string) []types.NamespacedName {
	if revision == "" {
		return nil
	}
	named := func(revision string) types.NamespacedName {
		return types.NamespacedName{Namespace: template.Namespace, Name: naming.TemplateRevision(template.Name, revision)}
	}
	return slices.Compact([]types.NamespacedName{named(revision), named(terraform.ShortRevision(revision))})
}

// hasShortName reports whether an earlier version stored a revision.
func (r *Revision) hasShortName() bool {
	return strings.HasSuffix(r.Name, naming.TemplateRevision("", terraform.ShortRevision(r.Hash)))
}

// resolve returns the revision that a recorded value means. The first digits mean the only revision that has them, if an earlier version stored it: a later
// one may have been searched for. Otherwise the result is the value, which is then no revision of the template. The history must have the current content.
func (h History) resolve(recorded string) string {
	if !terraform.IsShortRevision(recorded) {
		return recorded
	}
	found, storedEarlier := recorded, false
	for i := range h {
		switch {
		case terraform.ShortRevision(h[i].Hash) != recorded:
		case found != recorded && found != h[i].Hash:
			return recorded
		default:
			found, storedEarlier = h[i].Hash, storedEarlier || h[i].hasShortName()
		}
	}
	if !storedEarlier {
		return recorded
	}
	return found
}

// resolved returns a copy of a WorkspaceTemplateApply with the revisions that its fields mean.
func (h History) resolved(apply *infrav1.WorkspaceTemplateApply) *infrav1.WorkspaceTemplateApply {
	of := *apply
	for _, revision := range []*string{
		&of.Spec.TemplateRevision, &of.Status.WrittenTemplateRevision, &of.Status.TemplateRevision, &of.Status.FailedTemplateRevision,
	} {
		*revision = h.resolve(*revision)
	}
	return &of
}

// mayHave reports whether a user has a revision, also if only its first digits are recorded, and may mean another one.
func (u *User) mayHave(revision string) bool {
	for _, recorded := range []string{u.Assigned, u.Written, u.Applied} {
		if terraform.IsRecordedAs(revision, recorded) {
			return true
		}
	}
	return false
}
