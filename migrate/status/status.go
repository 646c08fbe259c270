// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package status reports where every unit of a migration stands. It writes nothing.
package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
)

// Status is where a migration stands: a new plan, the journals and the Lease, together.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	Units           []Unit `json:"units"`           // Units are those of a plan made now, and those of applied plans that no longer exist.
	Plans           []Plan `json:"plans,omitempty"` // Plans that were applied in this cluster, the oldest first.
	// Lock is set while a run is in progress, or for a few seconds after it was killed.
	Lock *lock.Holder `json:"lock,omitempty"`
	// Definitions are the CustomResourceDefinitions of CAPT with the versions in which objects are stored.
	Definitions []Definition      `json:"definitions,omitempty"`
	Legacy      *check.Check      `json:"legacy,omitempty"`   // Legacy is the check whether CAPT v0.3 runs; absent if it was not made.
	Findings    []migrate.Finding `json:"findings,omitempty"` // Findings are those of the new plan.
}

// Unit is one unit of the fleet.
type Unit struct {
	Unit string `json:"unit"`
	// State is what a run left or is doing, and otherwise what becomes of the unit with the decisions of the plans that were applied.
	State plan.UnitState `json:"state"`
	// PlanID and Phase are those of the last plan that wrote the unit; empty if none did.
	PlanID string      `json:"planID,omitempty"`
	Phase  apply.Phase `json:"phase,omitempty"`
	// Message is the first reason why the unit is not adopted, or why the last run did not complete it.
	Message string `json:"message,omitempty"`
	// PendingChange says what the manager would change in a Workspace of the unit.
	PendingChange string `json:"pendingChange,omitempty"`
	// Skipped are the objects of the unit that a decision skips. They await adoption.
	Skipped []migrate.ObjectRef `json:"skipped,omitempty"`
	Paused  bool                `json:"paused,omitempty"` // Paused is true if the Cluster, or an object of the unit, is paused.
}

// Plan is a plan that was applied in this cluster.
type Plan struct {
	ID      string              `json:"id"`
	Started metav1.Time         `json:"started"`
	Updated metav1.Time         `json:"updated"`
	Run     string              `json:"run"`
	Backup  *apply.Backup       `json:"backup,omitempty"`
	Units   map[apply.Phase]int `json:"units"` // Units counts the units of the plan per phase.
}

// Definition is a CustomResourceDefinition of CAPT.
type Definition struct {
	Name           string   `json:"name"`
	StoredVersions []string `json:"storedVersions"`
}

// Options say what to look at.
type Options struct {
	Reader           client.Reader
	JournalNamespace string   // Where the journals and the Lease are.
	Namespace        string   // The only one to look at; empty for all.
	Units            []string // The only ones to look at; empty for all.
	Decisions        *migrate.Decisions
	Decided          bool // The decisions of the plans that were applied are used instead.
	NoJournal        bool // It is not an error if the journals may not be read.
	Clock            clock.PassiveClock
	Progress         migrate.Progress
}
