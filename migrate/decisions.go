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
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// Decisions are what a person decided about findings, by UID.
type Decisions struct {
	APIVersion string              `json:"apiVersion"`
	Kind       string              `json:"kind"`
	Owners     []OwnerDecision     `json:"owners,omitempty"`
	Workspaces []WorkspaceDecision `json:"workspaces,omitempty"`
}

// OwnerDecision is about one owner.
type OwnerDecision struct {
	// UID of the CAPTCluster, CAPTControlPlane or, for one that stands for itself, WorkspaceTemplateApply.
	UID types.UID `json:"uid"`
	// Take is the UID of the WorkspaceTemplateApply that is its own.
	Take types.UID `json:"take,omitempty"`
	// Skip leaves it as it is: the manager will say AdoptionRequired, and write nothing.
	Skip bool `json:"skip,omitempty"`
	// Reason is for those who read the decisions later.
	Reason string `json:"reason,omitempty"`
}

// WorkspaceDecision is about one Workspace that several WorkspaceTemplateApplies may mean.
type WorkspaceDecision struct {
	UID types.UID `json:"uid"`
	// BelongsTo is the UID of the WorkspaceTemplateApply whose it is.
	BelongsTo types.UID `json:"belongsTo"`
	// Reason is for those who read the decisions later.
	Reason string `json:"reason,omitempty"`
}

// ParseDecisions reads decisions, in YAML or JSON. An unknown field is an error: a decision that is not understood would be none.
func ParseDecisions(data []byte) (*Decisions, error) {
	decisions := &Decisions{}
	if err := yaml.UnmarshalStrict(data, decisions); err != nil {
		return nil, fmt.Errorf("reading the decisions: %w", err)
	}
	if decisions.APIVersion != APIVersion || decisions.Kind != "Decisions" {
		return nil, fmt.Errorf("this is %q %q; decisions begin with apiVersion: %s and kind: Decisions", decisions.APIVersion, decisions.Kind, APIVersion)
	}
	seen := map[types.UID]bool{}
	if err := decisions.ownersOnce(seen); err != nil {
		return nil, err
	}
	for i, d := range decisions.Workspaces {
		switch {
		case d.UID == "" || d.BelongsTo == "":
			return nil, fmt.Errorf("workspaces[%d]: uid and belongsTo are required", i)
		case seen[d.UID]:
			return nil, fmt.Errorf("workspaces[%d]: %s is decided about twice", i, d.UID)
		}
		seen[d.UID] = true
	}
	return decisions, nil
}

// ownersOnce checks the decisions about owners, and notes whom they are about.
func (d *Decisions) ownersOnce(seen map[types.UID]bool) error {
	taken := map[types.UID]bool{}
	for i, d := range d.Owners {
		switch {
		case d.UID == "":
			return fmt.Errorf("owners[%d].uid is required", i)
		case seen[d.UID]:
			return fmt.Errorf("owners[%d]: %s is decided about twice", i, d.UID)
		case d.Skip == (d.Take != ""):
			return fmt.Errorf("owners[%d]: set either take or skip for %s", i, d.UID)
		case taken[d.Take] && d.Take != "":
			return fmt.Errorf("owners[%d]: %s is taken twice, and can be only one owner's", i, d.Take)
		}
		seen[d.UID], taken[d.Take] = true, true
	}
	return nil
}
