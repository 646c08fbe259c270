// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

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
