// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package status reports the state of every unit of a migration. It writes nothing.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// Status is the state of a migration, from a new plan, the journals and the Lease.
type Status struct {
	metav1.TypeMeta `json:",inline"`
	Units           []UnitStatus      `json:"units"`              // Units are those of a plan made now, and those of applied plans that no longer exist.
	Plans           []AppliedPlan     `json:"plans,omitempty"`    // Plans that were applied in this cluster, the oldest first.
	Lock            *lock.Holder      `json:"lock,omitempty"`     // Lock is set while a run is in progress, or for a few seconds after it was killed.
	Checks          []check.Check     `json:"checks,omitempty"`   // Checks are whether CAPT v0.3 runs, and in which versions objects are stored.
	Findings        []migrate.Finding `json:"findings,omitempty"` // Findings are those of the new plan.
}

// UnitStatus is the status of one unit of the fleet.
type UnitStatus struct {
	Unit string `json:"unit"`
	// State is the state in which a run left the unit, or in which it is working on it; without one, the state that a plan with the decisions of the
	// plans that were applied would give to it.
	State  plan.UnitState `json:"state"`
	PlanID string         `json:"planID,omitempty"` // PlanID and Phase are those of the last plan that wrote the unit; empty if none did.
	Phase  apply.Phase    `json:"phase,omitempty"`
	// Message is the first reason why the unit is not adopted, or why the last run did not complete it.
	Message       string              `json:"message,omitempty"`
	PendingChange string              `json:"pendingChange,omitempty"` // PendingChange says what the manager would change in a Workspace of the unit.
	Skipped       []migrate.ObjectRef `json:"skipped,omitempty"`       // Skipped are the objects of the unit that a decision skips. They await adoption.
	Paused        bool                `json:"paused,omitempty"`        // Paused is true if the Cluster, or an object of the unit, is paused.
}

// AppliedPlan is a plan that was applied in this cluster.
type AppliedPlan struct {
	ID      string              `json:"id"`
	Started metav1.Time         `json:"started"`
	Updated metav1.Time         `json:"updated"`
	Run     string              `json:"run"`
	Backup  *apply.Backup       `json:"backup,omitempty"`
	Units   map[apply.Phase]int `json:"units"` // Units counts the units of the plan per phase.
}

// Options of Survey and Read.
type Options struct {
	Reader              client.Reader
	JournalNamespace    string   // JournalNamespace is the namespace of the journals and the Lease.
	Namespace           string   // Namespace is the only one to report; empty for all.
	Units               []string // Units are the names of the only ones to report; empty for all.
	Decisions           *migrate.Decisions
	UseEarlierDecisions bool // UseEarlierDecisions uses the decisions of the plans that were applied instead of Decisions.
	NoJournal           bool // NoJournal ignores a missing right to read the journals.
	Clock               clock.PassiveClock
	Progress            migrate.Progress
}

// Fleet is a plan created now, and the state of its units. check, plan, apply and status all report it.
type Fleet struct {
	*plan.Plan
	Snapshot *migrate.Snapshot
	Selected []string     // The names of the only units that were asked for; empty for all.
	Statuses []UnitStatus // Statuses are the states of the units of the plan, and of units of applied plans that no longer exist, sorted by name.
	// Journals are those of the plans that were applied, the latest last. Last is the latest of these plans; nil if there is none.
	Journals []apply.Journal
	Last     *plan.Plan
	Lock     *lock.Holder
}

// Survey reads the fleet, creates a plan for it, and finds the state of each unit.
func Survey(ctx context.Context, o Options) (*Fleet, error) {
	now, progress := o.Clock.Now(), cmp.Or[migrate.Progress](o.Progress, migrate.Silent{})
	progress.Phase("Reading objects", 0)
	snapshot, err := migrate.Read(ctx, o.Reader, o.Namespace, now)
	if err != nil {
		return nil, err
	}
	if o.Namespace != "" && !slices.ContainsFunc(snapshot.Namespaces, func(n corev1.Namespace) bool { return n.Name == o.Namespace }) {
		return nil, fmt.Errorf("namespace %s does not exist", o.Namespace)
	}
	f := &Fleet{Snapshot: snapshot}
	if err := f.readJournals(ctx, o, now); err != nil && (!o.NoJournal || !apierrors.IsForbidden(err)) {
		return nil, err
	}
	decisions := o.Decisions
	if o.UseEarlierDecisions {
		decisions = EarlierDecisions(f.Journals, snapshot)
	}
	progress.Phase("Planning", 0)
	if f.Plan, err = planner.New(snapshot, decisions); err != nil {
		return nil, err
	}
	if err := cmp.Or(f.Only(o.Units), f.Seal()); err != nil {
		return nil, err
	}
	f.Selected = o.Units
	f.setStatuses()
	return f, nil
}

func (f *Fleet) readJournals(ctx context.Context, o Options, now time.Time) (err error) {
	if f.Journals, err = apply.Journals(ctx, o.Reader, o.JournalNamespace); err != nil {
		return err
	}
	if f.Lock, err = lock.Held(ctx, o.Reader, o.JournalNamespace, now); err != nil || len(f.Journals) == 0 {
		return err
	}
	f.Last, err = apply.LoadPlan(ctx, o.Reader, o.JournalNamespace, f.Journals[len(f.Journals)-1].PlanID)
	return client.IgnoreNotFound(err)
}

// EarlierDecisions returns the decisions of all plans that were applied, as far as they still fit the objects. A later plan replaces the
// decisions of an earlier one about the same object.
func EarlierDecisions(journals []apply.Journal, s *migrate.Snapshot) (decisions *migrate.Decisions) {
	for i := range journals {
		decisions = decisions.Merge(journals[i].Decisions)
	}
	return planner.Current(s, decisions)
}

// recorded is the state of a unit in the journal of the plan that wrote it last.
type recorded struct {
	apply.UnitRecord
	planID  string
	running bool // running is true while the run that wrote it last holds the Lease.
}

func (f *Fleet) setStatuses() {
	last := map[string]recorded{}
	for _, journal := range f.Journals {
		for name, unit := range journal.Units {
			if known := last[name]; !unit.Begun.Before(&known.Begun) {
				last[name] = recorded{unit, journal.PlanID, f.Lock != nil && f.Lock.Identity == journal.Run}
			}
		}
	}
	paused := pausedObjects(f.Snapshot)
	for i := range f.Units {
		unit := f.statusOf(&f.Units[i], last[f.Units[i].Name()])
		unit.Paused = slices.ContainsFunc(f.Units[i].Objects(), func(object migrate.ObjectRef) bool { return paused[object.UID] })
		f.Statuses = append(f.Statuses, unit)
		delete(last, unit.Unit)
	}
	for name, unit := range last {
		if parts := strings.Split(name, "/"); len(f.Selected) == 0 && (f.Namespace == "" || parts[len(parts)-2] == f.Namespace) {
			f.Statuses = append(f.Statuses, UnitStatus{Unit: name, PlanID: unit.planID, Phase: unit.Phase, Message: "the object no longer exists"})
		}
	}
	slices.SortFunc(f.Statuses, func(a, b UnitStatus) int { return cmp.Compare(a.Unit, b.Unit) })
}

func (f *Fleet) statusOf(planned *plan.Unit, last recorded) UnitStatus {
	unit := UnitStatus{Unit: planned.Name(), PlanID: last.planID, Phase: last.Phase, Message: last.Message}
	for _, finding := range f.FindingsOf(planned) {
		switch {
		case finding.Reason == planner.ReasonPendingChange:
			unit.PendingChange = cmp.Or(unit.PendingChange, finding.Message)
		case finding.Severity == migrate.Skipped:
			unit.Skipped = append(unit.Skipped, finding.Object)
		case finding.Undecided():
			unit.Message = cmp.Or(unit.Message, finding.Reason)
		}
	}
	unit.State = stateOf(planned.State, last, len(unit.Skipped) > 0)
	return unit
}

// stateOf returns the state of a unit. A run that is working on the unit, or was interrupted, takes precedence over the state in a new plan.
func stateOf(planned plan.UnitState, last recorded, skipped bool) plan.UnitState {
	unfinished := last.Phase == apply.PhaseApplying || last.Phase == apply.PhaseRollingBack
	switch {
	case unfinished && last.running:
		return plan.InProgress
	case unfinished:
		return plan.Interrupted
	case planned == plan.Adopted && skipped:
		return plan.PartlyAdopted
	}
	return planned
}

// StatusOf returns the state of a unit.
func (f *Fleet) StatusOf(name string) UnitStatus {
	if i := slices.IndexFunc(f.Statuses, func(unit UnitStatus) bool { return unit.Unit == name }); i >= 0 {
		return f.Statuses[i]
	}
	return UnitStatus{Unit: name}
}

// NotYetApplied returns the units that the plan that was applied last still has to adopt.
func (f *Fleet) NotYetApplied() (names []string) {
	if f.Last == nil {
		return nil
	}
	for i := range f.Last.Units {
		unit := f.StatusOf(f.Last.Units[i].Name())
		if f.Last.Units[i].State == plan.Adoptable && unit.State == plan.Adoptable && unit.PlanID != f.Last.ID {
			names = append(names, unit.Unit)
		}
	}
	return names
}

// RemainingWrites counts the steps of a unit that a run of a plan still has to write or to revert.
func (f *Fleet) RemainingWrites(p *plan.Plan, unit *plan.Unit, run Run) int {
	var last apply.UnitRecord
	if i := slices.IndexFunc(f.Journals, func(journal apply.Journal) bool { return journal.PlanID == p.ID }); i >= 0 {
		last = f.Journals[i].Units[unit.Name()]
	}
	reverted, endpoint := last.Phase == apply.PhaseRolledBack, run.Endpoints
	steps := slices.Clone(unit.Steps)
	if run.Revert {
		reverted, endpoint = reverted || last.Phase == "", endpoint || last.Endpoint
	} else {
		reverted = !run.Named && (reverted || last.Phase == apply.PhaseRollingBack)
		if last.Phase == apply.PhaseApplied { // What is no longer as it was applied is reported, and not written again.
			steps = nil
		}
	}
	if reverted {
		return 0
	}
	if endpoint && unit.Endpoint != nil {
		steps = append(steps, *unit.Endpoint)
	}
	written := planner.Written(f.Snapshot, steps)
	if run.Revert {
		return written
	}
	return len(steps) - written
}

// Run describes a run of a plan, for RemainingWrites.
type Run struct {
	Revert           bool
	Named, Endpoints bool // Named is true if the run names units, or tries those again that were not proven. Endpoints is true if it repairs those of Clusters.
}

// NotUpToDate are the Workspaces of a unit that are not up to date, and why.
func (f *Fleet) NotUpToDate(unit *plan.Unit) (workspaces []string) {
	for _, member := range unit.Members {
		for i := range f.Snapshot.Workspaces {
			live := &f.Snapshot.Workspaces[i]
			if member.Workspace == nil || live.GetUID() != member.Workspace.UID {
				continue
			}
			if why := migrate.WhyNotUpToDate(live); why != "" {
				workspaces = append(workspaces, fmt.Sprintf("%s: %s", member.Workspace, why))
			}
		}
	}
	return workspaces
}

// FirstCluster returns the name of a Cluster to adopt first, as a test for the others; empty if none is representative.
func (f *Fleet) FirstCluster() string {
	for i := range f.Units {
		if unit := &f.Units[i]; f.StatusOf(unit.Name()).State == plan.Adoptable && f.representative(unit) {
			return unit.Name()
		}
	}
	return ""
}

// representative reports whether a Cluster is like most others: its control plane is initialized, its Workspaces are up to date, and it has no
// findings other than those that most Clusters have.
func (f *Fleet) representative(unit *plan.Unit) bool {
	works := slices.ContainsFunc(unit.Members, func(member plan.Member) bool {
		for i := range f.Snapshot.ControlPlanes {
			if plane := &f.Snapshot.ControlPlanes[i]; plane.UID == member.Object.UID {
				return ptr.Deref(plane.Status.Initialization.ControlPlaneInitialized, false)
			}
		}
		return false
	})
	noteworthy := slices.ContainsFunc(f.FindingsOf(unit), func(finding migrate.Finding) bool {
		return finding.Reason != planner.ReasonInvalidClusterEndpoint && finding.Reason != planner.ReasonPermissionGranted
	})
	return unit.Object.Kind == "Cluster" && works && !noteworthy && len(f.NotUpToDate(unit)) == 0
}

func pausedObjects(s *migrate.Snapshot) map[types.UID]bool {
	paused := map[types.UID]bool{}
	for i := range s.Clusters {
		paused[s.Clusters[i].UID] = ptr.Deref(s.Clusters[i].Spec.Paused, false)
	}
	for _, object := range slices.Concat(migrate.Objects(s.CAPTClusters), migrate.Objects(s.ControlPlanes), migrate.Objects(s.Applies)) {
		paused[object.GetUID()] = annotations.HasPaused(object)
	}
	return paused
}

// Read returns the status of the migration, without checks.
func Read(ctx context.Context, o Options) (*Status, error) {
	o.UseEarlierDecisions = true
	fleet, err := Survey(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &Status{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Status"}, Units: fleet.Statuses, Lock: fleet.Lock, Findings: fleet.Findings,
	}
	for i := range fleet.Journals {
		state, units := &fleet.Journals[i], map[apply.Phase]int{}
		for _, unit := range state.Units {
			units[unit.Phase]++
		}
		s.Plans = append(s.Plans, AppliedPlan{state.PlanID, state.Started, state.Updated, state.Run, state.Backup, units})
	}
	return s, nil
}
