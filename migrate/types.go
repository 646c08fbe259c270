// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migrate contains the types that all parts of the migration from CAPT v0.3 share: snapshots of a fleet, decisions, findings and
// exit codes. Package planner creates a plan from a snapshot, package plan has its types, and package apply writes it.
package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
)

// APIVersion of the documents that captctl writes: plans, decisions, reports and journals. Fields are added within a version, never
// changed or removed; docs/captctl-output.md describes them.
const APIVersion = "migrate.capt.cluster.x-k8s.io/v1"

// OlderTemplateKind is the kind of CAPT v0.3 that this version spells CAPTControlPlaneTemplate. Both have the same CustomResourceDefinition.
const (
	OlderTemplateKind       = "CaptControlPlaneTemplate"
	OlderTemplateDefinition = "captcontrolplanetemplates.controlplane.cluster.x-k8s.io"
)

// FieldManager is the field manager of all writes of captctl. Admission permits it to revert what an adoption wrote.
const FieldManager = naming.MigrationFieldManager

// LegacyVersion is the API version that CAPT v0.3 wrote, and Version the one that this version writes.
const (
	LegacyVersion = "v1beta1"
	Version       = "v1beta2"
)

// Kind is one of CAPT's kinds.
type Kind struct {
	schema.GroupVersionKind
	Resource string // Its name in paths, in the plural.
}

// Definition is the name of its CustomResourceDefinition.
func (k Kind) Definition() string { return k.Resource + "." + k.Group }

// IsNew reports whether the kind is served in this version's API only.
func (k Kind) IsNew() bool { return k.Kind == "CAPTClusterTemplate" }

// InLegacy reports whether CAPT v0.3 had the kind. It spelled CAPTControlPlaneTemplate differently, which is another kind.
func (k Kind) InLegacy() bool { return !k.IsNew() && k.Kind != "CAPTControlPlaneTemplate" }

// Kinds of CAPT, in the order in which their objects are written: what others refer to comes first.
func Kinds() []Kind {
	return []Kind{
		{infrav1.GroupVersion.WithKind("WorkspaceTemplate"), "workspacetemplates"},
		{infrav1.GroupVersion.WithKind("CAPTClusterTemplate"), "captclustertemplates"},
		{controlplanev1.GroupVersion.WithKind("CAPTControlPlaneTemplate"), "captcontrolplanetemplates"},
		{infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"), "workspacetemplateapplies"},
		{infrav1.GroupVersion.WithKind("CAPTCluster"), "captclusters"},
		{controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), "captcontrolplanes"},
	}
}

// ReadOrWritten returns the kinds that a migration reads or writes: Clusters, the kinds of CAPT, and Workspaces.
func ReadOrWritten() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{clusterv1.GroupVersion.WithKind("Cluster")}
	for _, kind := range Kinds() {
		kinds = append(kinds, kind.GroupVersionKind)
	}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	return kinds
}

// Definitions returns the existing CustomResourceDefinitions of CAPT, and others, by name.
func Definitions(ctx context.Context, reader client.Reader, others ...string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, kind := range Kinds() {
		others = append(others, kind.Definition())
	}
	slices.Sort(others)
	for _, name := range slices.Compact(others) {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, definition)
		if err == nil {
			found[name] = definition
		} else if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
		}
	}
	return found, nil
}

// Serves reports whether the API server serves a kind in a version.
func Serves(c client.Client, kind schema.GroupVersionKind) (bool, error) {
	_, err := c.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

const revisionKind = "ControllerRevision"

// ObjectRef identifies an object.
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

// GroupVersionKind returns the kind of an object in the version that captctl reads and writes.
func (r ObjectRef) GroupVersionKind() (schema.GroupVersionKind, error) {
	for _, kind := range append(ReadOrWritten(), corev1.SchemeGroupVersion.WithKind("Namespace"), appsv1.SchemeGroupVersion.WithKind(revisionKind)) {
		if kind.Group == r.Group && kind.Kind == r.Kind {
			return kind, nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("%s of group %q is not a kind that a migration reads or writes", r, r.Group)
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

const decisionsKind = "Decisions"

// Decisions are the answers of the user to findings. They name objects by UID.
type Decisions struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Owners     []OwnerDecision     `json:"owners,omitempty"`
	Workspaces []WorkspaceDecision `json:"workspaces,omitempty"`
}

// OwnerDecision is about one owner.
type OwnerDecision struct {
	UID  types.UID `json:"uid"`            // UID of the CAPTCluster, the CAPTControlPlane or, if it has no such owner, the WorkspaceTemplateApply.
	Take types.UID `json:"take,omitempty"` // Take is the UID of the WorkspaceTemplateApply that belongs to the owner.
	Skip bool      `json:"skip,omitempty"` // Skip leaves the owner as it is: the manager reports AdoptionRequired, and writes nothing.
	// Pin keeps a Workspace that differs from what is rendered: the plan creates a WorkspaceTemplate that reproduces it, for this owner alone.
	Pin bool `json:"pin,omitempty"`
	// Permit adds the namespace of the owner to spec.allowedNamespaces of its template, although CAPT recorded no use of the template there.
	Permit bool   `json:"permit,omitempty"`
	Reason string `json:"reason,omitempty"` // Reason documents the decision.
}

// WorkspaceDecision is about one Workspace that several WorkspaceTemplateApplies refer to.
type WorkspaceDecision struct {
	UID       types.UID `json:"uid"`
	BelongsTo types.UID `json:"belongsTo"`        // BelongsTo is the UID of the WorkspaceTemplateApply that the Workspace belongs to.
	Reason    string    `json:"reason,omitempty"` // Reason documents the decision.
}

// ParseDecisions reads decisions, in YAML or JSON. Unknown fields are errors; an entry with nothing but a UID is decided later.
func ParseDecisions(data []byte) (*Decisions, error) {
	decisions := &Decisions{}
	if err := yaml.UnmarshalStrict(data, decisions); err != nil {
		_, why, _ := strings.Cut(": "+err.Error(), "decoding JSON: json: ")
		return nil, fmt.Errorf("%s. owners have uid, take, pin, permit and skip (true or false) and reason; workspaces have uid, belongsTo and reason", cmp.Or(why, err.Error()))
	}
	if decisions.APIVersion != APIVersion || decisions.Kind != decisionsKind {
		return nil, fmt.Errorf("apiVersion is %q and kind is %q, but must be %s and %s", decisions.APIVersion, decisions.Kind, APIVersion, decisionsKind)
	}
	// Entries with nothing but a UID have no decision yet: the user has uncommented none of their lines.
	decisions.Owners = slices.DeleteFunc(decisions.Owners, func(d OwnerDecision) bool { return d.UID != "" && d.Take == "" && !d.Pin && !d.Permit && !d.Skip })
	decisions.Workspaces = slices.DeleteFunc(decisions.Workspaces, func(d WorkspaceDecision) bool { return d.UID != "" && d.BelongsTo == "" })
	return decisions, decisions.validate()
}

func (d *Decisions) validate() error {
	seen, taken := sets.New[types.UID](), sets.New[types.UID]()
	once := func(list string, i int, uid types.UID) error {
		if uid == "" {
			return fmt.Errorf("%s[%d].uid is required", list, i)
		}
		if seen.Has(uid) {
			return fmt.Errorf("%s[%d]: uid %s has two entries", list, i, uid)
		}
		seen.Insert(uid)
		return nil
	}
	for i, d := range d.Owners {
		if err := once("owners", i, d.UID); err != nil {
			return err
		}
		switch {
		case d.Skip && d != (OwnerDecision{UID: d.UID, Skip: true, Reason: d.Reason}):
			return fmt.Errorf("owners[%d]: set either skip, or any of take, pin and permit for %s", i, d.UID)
		case taken.Has(d.Take) && d.Take != "":
			return fmt.Errorf("owners[%d]: take %s has two entries, and a WorkspaceTemplateApply can belong to one owner only", i, d.Take)
		}
		taken.Insert(d.Take)
	}
	for i, d := range d.Workspaces {
		if err := once("workspaces", i, d.UID); err != nil {
			return err
		}
	}
	return nil
}

// Merge returns the decisions with later ones, which replace those about the same objects. Either may be nil.
func (d *Decisions) Merge(later *Decisions) *Decisions {
	if d == nil || later == nil {
		return cmp.Or(d, later)
	}
	merged := &Decisions{APIVersion: APIVersion, Kind: decisionsKind}
	merged.Owners = append(slices.DeleteFunc(slices.Clone(d.Owners), func(old OwnerDecision) bool {
		return slices.ContainsFunc(later.Owners, func(d OwnerDecision) bool { return d.UID == old.UID || d.Take != "" && d.Take == old.Take })
	}), later.Owners...)
	merged.Workspaces = append(slices.DeleteFunc(slices.Clone(d.Workspaces), func(old WorkspaceDecision) bool {
		return slices.ContainsFunc(later.Workspaces, func(d WorkspaceDecision) bool { return d.UID == old.UID })
	}), later.Workspaces...)
	return merged
}

// Outcome is the exit code of a command of captctl.
type Outcome int

// Exit codes.
const (
	Done          Outcome = 0 // Done, or nothing to do.
	Failed        Outcome = 1 // An error. Nothing was written, unless the message says so.
	Pending       Outcome = 2 // There are changes to make. Only with --detailed-exitcode.
	NeedsDecision Outcome = 3 // Something is ambiguous or blocked, and the user has to decide.
	Partly        Outcome = 4 // Partly done: running the same command again resumes.

	// TimedOut is the exit code of captctl run and wait after --timeout; timeout(1) has the same.
	TimedOut Outcome = 124
)

// OutcomeError is an error with an exit code of its own.
type OutcomeError struct {
	Outcome Outcome
	Err     error
}

func (e *OutcomeError) Error() string { return e.Err.Error() }
func (e *OutcomeError) Unwrap() error { return e.Err }

// Errorf returns an OutcomeError.
func (o Outcome) Errorf(format string, args ...any) error {
	return &OutcomeError{Outcome: o, Err: fmt.Errorf(format, args...)}
}

// OutcomeOf is the exit code for an error; Failed for one without a code of its own.
func OutcomeOf(err error) Outcome {
	var known *OutcomeError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &known):
		return known.Outcome
	}
	return Failed
}

// Progress reports the progress of a long operation. Implementations are safe for concurrent use.
type Progress interface {
	// Phase begins a phase of a number of objects; 0 if the number is not known.
	Phase(name string, total int)
	// Add reports that count more objects of the phase are done.
	Add(count int)
}

// Silent reports nothing.
type Silent struct{}

// Phase implements Progress.
func (Silent) Phase(string, int) {}

// Add implements Progress.
func (Silent) Add(int) {}
