// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"strconv"
	"time"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// Status shows the state of every unit.
func Status(p *output.Printer, s *status.Status, now time.Time) {
	rows := output.Rows{}
	for _, unit := range s.Units {
		rows = append(rows, statusRow(unit))
	}
	p.Table([]output.Column{
		{Name: "Unit"}, {Name: "State", Style: style}, {Name: "Phase", Optional: true}, {Name: "Plan", Optional: true}, {Name: "Would-Change"}, {Name: "Paused"}, {Name: "Message", Prose: 4},
	}, rows)
	if len(s.Plans) > 0 {
		plans(p, s.Plans, now)
	}
	p.Blank()
	if s.Lock != nil {
		p.Linef("A run is in progress: %s since %s, Lease until %s.", p.Paint(output.Strong, s.Lock.Identity), output.Moment(s.Lock.Since.Time), output.Moment(s.Lock.Until.Time))
	}
	for _, one := range s.Checks {
		switch {
		case one.Name == check.CheckStored:
			p.Text("", output.Plain, "Stored versions: "+one.Message+".")
		case one.Status != check.OK:
			p.Text("", output.Bad, output.OneLine(one.Message)+".")
			printLines(p, "  ", one.Objects)
			for _, command := range one.Commands {
				p.Linef("  %s", p.Paint(output.Plain, command))
			}
		}
	}
	switch undecided, left := Left(s); {
	case undecided+left > 0:
		p.Linef("%s left to do: captctl migrate check shows the findings and the next steps.", output.Count(undecided+left, "unit"))
	case len(s.Units) > 0 && s.Lock == nil:
		p.Linef("Nothing is left to adopt. Convert the manifests in Git next: captctl convert -f manifests/ -R --from-cluster --write")
	}
	resume(p, s.Units)
}

func statusRow(unit status.Unit) []string {
	change, phase := "", string(unit.Phase)
	switch {
	case unit.PendingChange != "":
		change = "yes"
	case unit.State == plan.Adopted || unit.State == plan.PartlyAdopted:
		change = "no"
	case unit.State == plan.Interrupted:
		phase = ""
	}
	paused := map[bool]string{true: "yes"}[unit.Paused]
	return []string{unit.Unit, string(unit.State), phase, unit.PlanID, change, paused, output.OneLine(cmp.Or(runMessage(unit), unit.PendingChange, unit.Message))}
}

// runMessage reports whether a run works on a unit or was interrupted, and what a decision skips; empty if neither applies.
func runMessage(unit status.Unit) string {
	switch unit.State {
	case plan.InProgress:
		return "a run of plan " + unit.PlanID + " is in progress for this unit"
	case plan.Interrupted:
		text := "a run of plan " + unit.PlanID + " was interrupted while it wrote this unit"
		if unit.Phase == apply.PhaseRollingBack {
			text = "a rollback of plan " + unit.PlanID + " was interrupted while it reverted this unit"
		}
		if unit.Paused {
			text += ", and its objects are paused"
		}
		if unit.Message != "" {
			text += ": " + unit.Message
		}
		return text
	case plan.PartlyAdopted:
		return names(unit.Skipped) + " skipped; awaits adoption"
	case plan.Adopted, plan.Adoptable, plan.NeedsDecision, plan.Blocked, plan.Skipped, plan.NeverBuilt:
	}
	return ""
}

// resume shows the commands that complete interrupted runs, and those that revert them.
func resume(p *output.Printer, units []status.Unit) {
	for _, command := range Resume(units) {
		p.Linef("%s", p.Paint(output.Plain, command))
	}
}

// Resume returns the commands that complete interrupted runs, and those that revert them, for each plan.
func Resume(units []status.Unit) (commands []string) {
	type run struct {
		plan  string
		phase apply.Phase
	}
	var runs []run
	flags := map[run]string{}
	for _, unit := range units {
		of := run{unit.PlanID, unit.Phase}
		if unit.State != plan.Interrupted {
			continue
		}
		if flags[of] == "" {
			runs = append(runs, of)
		}
		flags[of] += Selection(unit.Unit)
	}
	for _, of := range runs {
		rollback := "captctl migrate rollback " + of.plan + flags[of]
		if of.phase == apply.PhaseRollingBack {
			commands = append(commands, rollback+"  # resume")
			continue
		}
		commands = append(commands, "captctl migrate apply "+of.plan+flags[of]+"  # resume", rollback+"  # or revert")
	}
	return commands
}

func plans(p *output.Printer, applied []status.Plan, now time.Time) {
	rows := output.Rows{}
	for _, one := range applied {
		row := []string{one.ID, output.Ago(now, one.Started.Time), output.Ago(now, one.Updated.Time)}
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
		{Name: "Plan"}, {Name: "Started", Optional: true}, {Name: "Updated", Optional: true}, {Name: "Applied"}, {Name: "Applying"}, {Name: "Rolling-Back"}, {Name: "Rolled-Back"},
		{Name: "Last-Run", Wide: true}, {Name: "Backup", Wide: true},
	}, rows)
}

// Left counts the units that need a decision, and those with something else left to do.
func Left(s *status.Status) (undecided, left int) {
	for _, unit := range s.Units {
		switch {
		case unit.State == plan.NeedsDecision || unit.State == plan.Blocked:
			undecided++
		case unit.State == plan.Adoptable, unit.State == plan.Interrupted, unit.State == plan.InProgress, len(unit.Skipped) > 0, unit.PendingChange != "":
			left++
		}
	}
	return undecided, left
}
