// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// Read returns the status of the migration.
func Read(ctx context.Context, o Options) (*Status, error) {
	now := o.Clock.Now()
	snapshot, err := migrate.Read(ctx, o.Reader, o.Namespace, now)
	if err != nil {
		return nil, err
	}
	journals, err := apply.States(ctx, o.Reader, o.JournalNamespace)
	if err != nil {
		return nil, err
	}
	p, err := planner.New(snapshot, planner.Options{Decisions: Decided(journals, snapshot), Now: now})
	if err != nil {
		return nil, err
	}
	s := &Status{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Status"}, Findings: p.Findings}
	s.units(p, journals, snapshot)
	for i := range journals {
		s.Plans = append(s.Plans, summary(&journals[i]))
	}
	if s.Definitions, err = definitions(ctx, o.Reader); err != nil {
		return nil, err
	}
	s.Lock, err = lock.Held(ctx, o.Reader, o.JournalNamespace, now)
	return s, err
}

// Decided returns what the user decided for all plans that were applied, as far as it still fits the objects. Of two decisions about an object the
// one for the later plan counts.
func Decided(journals []apply.State, s *migrate.Snapshot) (decisions *migrate.Decisions) {
	for i := range journals {
		decisions = decisions.Merge(journals[i].Decisions)
	}
	return planner.Current(s, decisions)
}

// owned are CAPT's objects that the manager reconciles.
func owned(s *migrate.Snapshot) []client.Object {
	return slices.Concat(migrate.Objects(s.CAPTClusters), migrate.Objects(s.ControlPlanes), migrate.Objects(s.Applies))
}

// units of the new plan, and those of journals that no longer exist, sorted by name.
func (s *Status) units(p *plan.Plan, journals []apply.State, snapshot *migrate.Snapshot) {
	paused := pausedObjects(snapshot)
	for i := range p.Units {
		unit := &p.Units[i]
		known := Unit{Unit: unit.Name(), State: unit.State}
		known.Paused = slices.ContainsFunc(unit.Objects(), func(object migrate.ObjectRef) bool { return paused[object.UID] })
		for _, finding := range p.FindingsOf(unit) {
			switch {
			case finding.Reason == planner.ReasonPendingChange:
				known.PendingChange = cmp.Or(known.PendingChange, finding.Message)
			case finding.Undecided():
				known.Message = cmp.Or(known.Message, finding.Message)
			}
		}
		s.Units = append(s.Units, known)
	}
	s.record(p.Namespace, journals)
	slices.SortFunc(s.Units, func(a, b Unit) int { return cmp.Compare(a.Unit, b.Unit) })
}

// record adds what the plan that wrote a unit last recorded about it.
func (s *Status) record(namespace string, journals []apply.State) {
	type entry struct {
		apply.UnitState
		planID string
	}
	last := map[string]entry{}
	for i := range journals {
		for name, recorded := range journals[i].Units {
			if known := last[name]; !recorded.Begun.Before(&known.Begun) {
				last[name] = entry{recorded, journals[i].PlanID}
			}
		}
	}
	for i := range s.Units {
		unit := &s.Units[i]
		recorded := last[unit.Unit]
		unit.PlanID, unit.Phase, unit.Message = recorded.planID, recorded.Phase, cmp.Or(recorded.Message, unit.Message)
		delete(last, unit.Unit)
	}
	for name, recorded := range last {
		if parts := strings.Split(name, "/"); namespace == "" || parts[len(parts)-2] == namespace {
			s.Units = append(s.Units, Unit{Unit: name, PlanID: recorded.planID, Phase: recorded.Phase, Message: "the object no longer exists"})
		}
	}
}

// pausedObjects are the objects that Cluster API's pause annotation is on, and Clusters with spec.paused.
func pausedObjects(s *migrate.Snapshot) map[types.UID]bool {
	paused := map[types.UID]bool{}
	for i := range s.Clusters {
		paused[s.Clusters[i].UID] = ptr.Deref(s.Clusters[i].Spec.Paused, false)
	}
	for _, object := range owned(s) {
		paused[object.GetUID()] = annotations.HasPaused(object)
	}
	return paused
}

func summary(state *apply.State) Plan {
	p := Plan{ID: state.PlanID, Started: state.Started, Updated: state.Updated, Run: state.Run, Backup: state.Backup, Units: map[apply.Phase]int{}}
	for _, unit := range state.Units {
		p.Units[unit.Phase]++
	}
	return p
}

// definitions that are installed.
func definitions(ctx context.Context, reader client.Reader) (found []Definition, err error) {
	installed, err := migrate.Definitions(ctx, reader)
	for _, kind := range migrate.Kinds() {
		if definition := installed[kind.Definition()]; definition != nil {
			found = append(found, Definition{Name: definition.Name, StoredVersions: definition.Status.StoredVersions})
		}
	}
	return found, err
}
