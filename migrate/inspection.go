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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Inspection is what is there, what is claimed by whom, and why.
type Inspection struct {
	metav1.TypeMeta `json:",inline"`
	ClusterUID      types.UID   `json:"clusterUID"`
	Taken           metav1.Time `json:"taken"`
	Namespace       string      `json:"namespace,omitempty"`
	// Counts are how many owners there are of each state.
	Counts map[OwnerState]int `json:"counts"`
	// PendingChanges are how many adopted Workspaces the manager would change when it runs. Each has a finding.
	PendingChanges int `json:"pendingChanges"`
	// Owners are sorted by namespace, Cluster, kind and name.
	Owners []OwnerReport `json:"owners"`
	// Findings are the same as those of a plan without decisions.
	Findings []Finding `json:"findings,omitempty"`
}

// OwnerState is what a migration has to do with an owner.
type OwnerState string

const (
	// Adopted: there is nothing to write.
	Adopted OwnerState = "Adopted"
	// Adoptable: a plan would adopt it.
	Adoptable OwnerState = "Adoptable"
	// OwnerAmbiguous: a person has to decide.
	OwnerAmbiguous OwnerState = "Ambiguous"
	// OwnerBlocked: adopting it would change something in the cloud.
	OwnerBlocked OwnerState = "Blocked"
	// OwnerSkipped: a person decided to leave it.
	OwnerSkipped OwnerState = "Skipped"
	// NothingToAdopt: it needs no WorkspaceTemplateApply, or none was ever made for it.
	NothingToAdopt OwnerState = "NothingToAdopt"
)

// OwnerReport is one owner: a CAPTCluster, a CAPTControlPlane, or a WorkspaceTemplateApply that stands for itself.
type OwnerReport struct {
	Owner   ObjectRef  `json:"owner"`
	Cluster string     `json:"cluster,omitempty"`
	State   OwnerState `json:"state"`
	// Role of a WorkspaceTemplateApply that stands for itself, for example "kubeconfig helper of CAPTControlPlane demo".
	Role                   string     `json:"role,omitempty"`
	WorkspaceTemplateApply *ObjectRef `json:"workspaceTemplateApply,omitempty"`
	Workspace              *ObjectRef `json:"workspace,omitempty"`
	// Evidence for the match, in words, the strongest first.
	Evidence []string `json:"evidence,omitempty"`
	// Paused is true when the Cluster or the owner is paused.
	Paused bool `json:"paused,omitempty"`
}
