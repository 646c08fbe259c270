// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// Status shows where every unit stands.
func Status(p *output.Printer, s *status.Status, now time.Time) {
	rows := output.Rows{}
	for _, unit := range s.Units {
		change := "no"
		if unit.PendingChange != "" {
			change = "yes"
		}
		paused := ""
		if unit.Paused {
			paused = "yes"
		}
		message := unit.Message
		if unit.PendingChange != "" {
			message = unit.PendingChange
		}
		if message == "" && s.Lock == nil {
			message = interrupted(p, unit)
		}
		rows = append(rows, []string{unit.Unit, string(unit.State), string(unit.Phase), unit.PlanID, change, paused, oneLine(message)})
	}
	p.Table([]output.Column{
		{Name: "Unit"}, {Name: "State", Style: unitStyle}, {Name: "Phase"}, {Name: "Plan"}, {Name: "Would-Change"}, {Name: "Paused"}, {Name: "Message"},
	}, rows)
	if len(s.Plans) > 0 {
		plans(p, s.Plans, now)
	}
	p.Blank()
	if s.Lock != nil {
		p.Linef("A run is in progress: %s since %s, Lease until %s.", p.Paint(output.Strong, s.Lock.Identity), moment(s.Lock.Since.Time), moment(s.Lock.Until.Time))
	}
	p.Linef("%s", storedVersions(s.Definitions))
}

// interrupted says how to go on with a unit that a run has left in the middle; empty for another one.
func interrupted(p *output.Printer, unit status.Unit) string {
	switch unit.Phase {
	case apply.PhaseApplying:
		return fmt.Sprintf("interrupted; resume with captctl migrate apply %s%s, or revert with rollback", unit.PlanID, selection(p, unit.Unit))
	case apply.PhaseRollingBack:
		return fmt.Sprintf("interrupted; resume with captctl migrate rollback %s%s", unit.PlanID, selection(p, unit.Unit))
	case apply.PhaseApplied, apply.PhaseRolledBack:
	}
	return ""
}

func plans(p *output.Printer, applied []status.Plan, now time.Time) {
	rows := output.Rows{}
	for _, one := range applied {
		row := []string{one.ID, ago(now, one.Started.Time), ago(now, one.Updated.Time)}
		for _, phase := range []apply.Phase{apply.PhaseApplied, apply.PhaseApplying, apply.PhaseRollingBack, apply.PhaseRolledBack} {
			row = append(row, strconv.Itoa(one.Units[phase]))
		}
		backup := ""
		if one.Backup != nil {
			backup = one.Backup.Host + ":" + one.Backup.File
		}
		rows = append(rows, append(row, one.Run, backup))
	}
	p.Blank()
	p.Table([]output.Column{
		{Name: "Plan"}, {Name: "Started"}, {Name: "Updated"}, {Name: "Applied"}, {Name: "Applying"}, {Name: "Rolling-Back"}, {Name: "Rolled-Back"},
		{Name: "Last-Run", Wide: true}, {Name: "Backup", Wide: true},
	}, rows)
}

// storedVersions says whether the manager has migrated the stored versions of every kind of CAPT v0.3.
func storedVersions(definitions []status.Definition) string {
	stored := map[string][]string{}
	for _, definition := range definitions {
		stored[definition.Name] = definition.StoredVersions
	}
	for _, kind := range migrate.Kinds() {
		versions, installed := stored[kind.Definition()]
		switch {
		case !kind.InLegacy():
		case !installed:
			return "Stored versions: unknown, because " + kind.Definition() + " is not installed."
		case !slices.Contains(versions, migrate.LegacyVersion):
			return "Stored versions: " + migrate.Version + " only. They were migrated; Clusters can still be rolled back."
		}
	}
	return "Stored versions: " + migrate.LegacyVersion + " is among them. The manager migrates them once no object awaits adoption."
}

// Left counts the units that need a decision, and those with something else left to do.
func Left(s *status.Status) (undecided, left int) {
	for _, unit := range s.Units {
		switch {
		case unit.State == plan.NeedsDecision || unit.State == plan.Blocked:
			undecided++
		case unit.State == plan.Adoptable, unit.Phase == apply.PhaseApplying, unit.Phase == apply.PhaseRollingBack, unit.PendingChange != "":
			left++
		}
	}
	return undecided, left
}

func ago(now, at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at)) + " ago"
}
