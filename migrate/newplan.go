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
	"time"
)

// PlanOptions say what to plan.
type PlanOptions struct {
	Scope     Scope
	Decisions *Decisions
	Now       time.Time
	// Lifetime is how long the plan may be carried out.
	Lifetime time.Duration
}

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
	UID string `json:"uid"`
	// Take is the UID of the WorkspaceTemplateApply that is its own.
	Take string `json:"take,omitempty"`
	// Skip leaves it as it is: the manager will say AdoptionRequired, and write nothing.
	Skip bool `json:"skip,omitempty"`
	// Reason is for those who read the decisions later.
	Reason string `json:"reason,omitempty"`
}

// WorkspaceDecision is about one Workspace that several WorkspaceTemplateApplies may mean.
type WorkspaceDecision struct {
	UID string `json:"uid"`
	// BelongsTo is the UID of the WorkspaceTemplateApply whose it is.
	BelongsTo string `json:"belongsTo"`
	Reason    string `json:"reason,omitempty"`
}
