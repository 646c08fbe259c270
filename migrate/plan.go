/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package migrate

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/controllers/workspace/render"
)

// APIVersion of everything that captctl writes for machines: plans, decisions, reports, journals and backups. Fields are added
// within a version, never changed or removed; docs/captctl-output.md describes them.
const APIVersion = "migrate.capt.cluster.x-k8s.io/v1"

// Scope says which phases a plan has.
type Scope string

const (
	// ScopeAdopt writes references, names, owner references and permissions.
	ScopeAdopt Scope = "adopt"
	// ScopeStorage rewrites every object in today's version.
	ScopeStorage Scope = "storage"
	// ScopeAll is both, adoption first.
	ScopeAll Scope = "all"
)

// Plan is what to write, and under which conditions. It is one-shot: carried out a second time, it writes nothing.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	// ID is the first 12 hexadecimal digits of Checksum.
	ID string `json:"id"`
	// Checksum is the SHA-256, in hexadecimal, of the canonical JSON of the plan without id and checksum.
	Checksum string `json:"checksum"`
	// ClusterUID is the UID of the namespace kube-system, by which a management cluster is known.
	ClusterUID types.UID   `json:"clusterUID"`
	Created    metav1.Time `json:"created"`
	Expires    metav1.Time `json:"expires"`
	Scope      Scope       `json:"scope"`
	// Namespace is the only one that was looked at; empty for all of them.
	Namespace string `json:"namespace,omitempty"`
	// Grants are permissions to use a WorkspaceTemplate from other namespaces. They come before every unit.
	Grants []Step `json:"grants,omitempty"`
	// Units are adopted one by one, sorted by namespace, kind and name of their owner.
	Units []Unit `json:"units,omitempty"`
	// Storage lists the objects to rewrite in today's version, in order.
	Storage []StorageItem `json:"storage,omitempty"`
	// Baseline is what must be the same after the migration.
	Baseline Baseline `json:"baseline"`
	// Findings are what a person should know. A plan with one that is Ambiguous or Blocked is not carried out before a
	// decision is made about its owner.
	Findings []Finding `json:"findings,omitempty"`
}

// Baseline is what a migration must not change.
type Baseline struct {
	// Workspaces of the plan's scope, each with a hash of all that must stay.
	Workspaces []BaselineItem `json:"workspaces,omitempty"`
	// WorkspaceTemplateApplies of the plan's scope. None may go, come, or get another UID.
	WorkspaceTemplateApplies []ObjectRef `json:"workspaceTemplateApplies,omitempty"`
	// Premises are what units rest on and no step writes: templates above all. If one was changed since, the plan is stale.
	Premises []Premise `json:"premises,omitempty"`
}

// Premise is an object as it was.
type Premise struct {
	ObjectRef `json:",inline"`
	// Hash is ContentHash.
	Hash string `json:"hash"`
}

// BaselineItem is a Workspace as it was.
type BaselineItem struct {
	ObjectRef  `json:",inline"`
	Generation int64 `json:"generation"`
	// Hash is WorkspaceHash.
	Hash string `json:"hash"`
}

// ObjectRef is an object.
type ObjectRef struct {
	// Group and Kind; the version is today's for CAPT's own kinds.
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

// String is Kind namespace/name.
func (r ObjectRef) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Unit is one owner with what is written for it. It is the unit of the canary, of failure, and of a rollback.
type Unit struct {
	// Owner is a CAPTCluster or a CAPTControlPlane; or a WorkspaceTemplateApply that stands for itself: a helper of the older CAPT,
	// or one that a person made for something else.
	Owner ObjectRef `json:"owner"`
	// Cluster is the name of the Cluster, as far as it is known.
	Cluster                string     `json:"cluster,omitempty"`
	WorkspaceTemplateApply *ObjectRef `json:"workspaceTemplateApply,omitempty"`
	Workspace              *ObjectRef `json:"workspace,omitempty"`
	// Evidence for the match, in words, the strongest first.
	Evidence []string `json:"evidence,omitempty"`
	// Steps in order: what is referred to is written before what refers to it.
	Steps []Step `json:"steps"`
}

// Step is one write: a JSON Patch (RFC 6902) of one object, or its creation.
type Step struct {
	Object ObjectRef `json:"object"`
	// Create is the object, as JSON, if the step creates it: a WorkspaceTemplate that reproduces a Workspace (decision pin). Then the
	// object has no UID yet, and there is no patch. A rollback leaves it in place, unused.
	Create json.RawMessage `json:"create,omitempty"`
	// Subresource is empty or "status".
	Subresource string `json:"subresource,omitempty"`
	// Why says in words what is written and to what end.
	Why          string       `json:"why"`
	Precondition Precondition `json:"precondition"`
	Patch        []Operation  `json:"patch"`
	// Inverse takes the step back. It tests that what it takes back is what the step wrote.
	Inverse []Operation `json:"inverse"`
}

// Precondition must hold at the moment of writing. Of a step on status there is only the UID.
type Precondition struct {
	UID        types.UID `json:"uid"`
	Generation int64     `json:"generation,omitempty"`
	// Hash is ContentHash of the object before the step.
	Hash string `json:"hash,omitempty"`
	// After is ContentHash of the object after the step; an object that has it needs no write.
	After string `json:"after,omitempty"`
}

// Operation of a JSON Patch. Op is add, replace, remove or test.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// StorageItem is an object to rewrite in today's version.
type StorageItem struct {
	ObjectRef `json:",inline"`
	// OwnerReferences are those of before, if one of them is of an older version of CAPT; a rollback puts them back.
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
}

// Severity of a finding.
type Severity string

const (
	// Ambiguous: a person has to decide whose something is.
	Ambiguous Severity = "Ambiguous"
	// Blocked: adopting would change something in the cloud, or take what is somebody else's.
	Blocked Severity = "Blocked"
	// Skipped: a person decided to leave it.
	Skipped Severity = "Skipped"
	// Warning: nothing stands in the way, but somebody should know.
	Warning Severity = "Warning"
)

// Finding is something that a user should know.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is one word in CamelCase, for machines.
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

// Candidate is an object that may be the right one.
type Candidate struct {
	Object ObjectRef `json:"object"`
	// Owner is for which object it is a candidate, where the finding is about several.
	Owner *ObjectRef `json:"owner,omitempty"`
	// For and Against are the evidence, in words.
	For     []string `json:"for,omitempty"`
	Against []string `json:"against,omitempty"`
}

// Undecided are the findings that keep a plan from being carried out.
func (p *Plan) Undecided() (found []Finding) {
	for _, finding := range p.Findings {
		if finding.Severity == Ambiguous || finding.Severity == Blocked {
			found = append(found, finding)
		}
	}
	return found
}

// Empty tells whether there is nothing to write.
func (p *Plan) Empty() bool { return len(p.Grants)+len(p.Units)+len(p.Storage) == 0 }

// Expired tells whether the plan is too old to be carried out.
func (p *Plan) Expired(now time.Time) bool { return now.After(p.Expires.Time) }
