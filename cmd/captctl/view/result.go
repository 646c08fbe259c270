// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// wouldApply and wouldRollBack are the outcomes of a dry run, in tables.
const wouldApply, wouldRollBack apply.UnitOutcome = "would apply", "would roll back"

// outcome returns the text for the outcome of a unit; for a dry run, what would be done.
func outcome(unit *apply.UnitResult, dryRun bool) string {
	would := map[apply.UnitOutcome]apply.UnitOutcome{apply.Applied: wouldApply, apply.RolledBack: wouldRollBack}
	if dryRun {
		return string(cmp.Or(would[unit.Outcome], unit.Outcome))
	}
	return string(unit.Outcome)
}

// Result shows what a run did, unit by unit.
func Result(p *output.Printer, result *apply.Result) {
	p.Blank()
	if result.DryRun {
		p.Linef("Dry run: the API server validated each write, and persisted none.")
	}
	rows := output.Rows{}
	for i := range result.Units {
		unit := &result.Units[i]
		rows = append(rows, []string{unit.Unit, outcome(unit, result.DryRun), strconv.Itoa(unit.Writes), output.OneLine(unit.Message)})
	}
	p.Table([]output.Column{{Name: "Unit"}, {Name: "Outcome", Style: style}, {Name: "Writes"}, {Name: "Message", Prose: 4}}, rows)
	if result.Backup != nil && !result.DryRun {
		p.Blank()
		p.Linef("The backup is %s on host %s, SHA-256 %s.", p.Paint(output.Plain, result.Backup.File), p.Paint(output.Plain, result.Backup.Host), result.Backup.Checksum)
	}
}

// LeftOut is one line about the units that a run of apply left out because they need a decision; empty if nothing else is to be reported.
func LeftOut(result *apply.Result) string {
	n := 0
	for _, unit := range result.Units {
		switch {
		case unfinished(unit.Outcome), unit.Outcome == apply.NotProven:
			return ""
		case unit.Outcome == apply.LeftOut && (unit.State == plan.NeedsDecision || unit.State == plan.Blocked):
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return output.Count(n, "unit") + " left out until you decide: captctl migrate check"
}

// unfinished reports whether a run did not finish a unit.
func unfinished(outcome apply.UnitOutcome) bool {
	return outcome == apply.Failed || outcome == apply.Interrupted || outcome == apply.NotStarted
}

// unfinishedUnits are the units that a run did not finish.
type unfinishedUnits struct {
	begun     string   // begun are the flags that name the units of which some fields may be written.
	unproven  string   // unproven are the flags that name the units that were not adopted for want of a proof.
	unwritten []string // unwritten are the names of the units that failed before their first write.
	failed    bool     // A unit failed.
	wrote     bool     // The run wrote something.

	unfinished bool // A unit failed, was interrupted or was not started.
}

func unfinishedOf(result *apply.Result) (found unfinishedUnits) {
	for _, unit := range result.Units {
		found.wrote, found.failed = found.wrote || unit.Writes > 0 || unit.Outcome == apply.Applied, found.failed || unit.Outcome == apply.Failed
		found.unfinished = found.unfinished || unfinished(unit.Outcome)
		switch {
		case unit.Outcome == apply.NotProven:
			found.unproven += Selection(unit.Unit)
		case !unfinished(unit.Outcome) || unit.Outcome == apply.NotStarted:
		case unit.Begun || unit.Writes > 0:
			found.begun += Selection(unit.Unit)
		case unit.Outcome == apply.Failed:
			found.unwritten = append(found.unwritten, unit.Unit)
		}
	}
	return found
}

// AfterApply says what to do after a run of apply. The plan is named as the user did, with --prove if that was given; selected are the flags that named
// units, and rest is true if units of the plan that were not named are left to adopt.
func AfterApply(p *output.Printer, result *apply.Result, name, selected string, rest bool) {
	found := unfinishedOf(result)
	if result.DryRun || !found.wrote && found.begun == "" && len(found.unwritten) == 0 {
		return
	}
	p.Blank()
	p.Linef("Next steps:")
	again := p.Paint(output.Plain, "captctl migrate apply "+name)
	if found.unproven != "" {
		p.Linef("  %s%s  # after the cause is removed", again, p.Paint(output.Plain, found.unproven))
		p.Linef("  captctl migrate apply %s%s  # or adopt them without a proof", result.PlanID, p.Paint(output.Plain, found.unproven))
	}
	if rest && !found.unfinished {
		p.Linef("  %s  # the rest", again)
	}
	p.Linef("  captctl migrate status")
	if !found.unfinished {
		p.Linef("To revert everything that this plan wrote, at any time:")
		p.Linef("  captctl migrate rollback %s", result.PlanID)
		return
	}
	resume := "resume, after the cause is fixed"
	if !found.failed {
		resume = "resume"
	}
	p.Linef("  %s%s  # %s", again, p.Paint(output.Plain, selected), resume)
	if found.begun != "" {
		p.Linef("  captctl migrate rollback %s%s  # or revert", result.PlanID, p.Paint(output.Plain, found.begun))
	}
	if len(found.unwritten) > 0 {
		p.Linef("Nothing was written for %s. If something changed since the plan was created, revert that change and run the same command again, or create a new plan.",
			p.Paint(output.Plain, strings.Join(found.unwritten, ", ")))
	}
}

// AfterRollback says what to do after a rollback that did not fail. The selected units are named; without any, the plan was rolled back as a
// whole. Others are the IDs of other plans whose fields are still there, by unit.
func AfterRollback(p *output.Printer, result *apply.Result, selected bool, others map[string]string) {
	flags, failed := "", false
	for _, unit := range result.Units {
		failed = failed || unfinished(unit.Outcome)
		if id := others[unit.Unit]; id != "" && !result.DryRun {
			p.Blank()
			p.Linef("Plan %s wrote %s too, and its fields are still there. To revert them as well:", id, p.Paint(output.Plain, unit.Unit))
			p.Linef("  captctl migrate rollback %s%s", id, p.Paint(output.Plain, Selection(unit.Unit)))
		} else if unit.Outcome == apply.RolledBack {
			flags += Selection(unit.Unit)
		}
	}
	if result.DryRun || failed || flags == "" {
		return
	}
	if !selected && len(others) == 0 {
		flags = ""
	}
	p.Blank()
	p.Linef("Units that are rolled back await adoption again. To adopt them:")
	p.Linef("  captctl migrate apply %s%s", result.PlanID, p.Paint(output.Plain, flags))
}

// Selection is the flag that names a unit.
func Selection(unit string) string {
	if strings.Count(unit, "/") == 1 {
		return " --cluster " + unit
	}
	return " --unit " + unit
}

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

func statusRow(unit status.UnitStatus) []string {
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
func runMessage(unit status.UnitStatus) string {
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
func resume(p *output.Printer, units []status.UnitStatus) {
	for _, command := range Resume(units) {
		p.Linef("%s", p.Paint(output.Plain, command))
	}
}

// Resume returns the commands that complete interrupted runs, and those that revert them, for each plan.
func Resume(units []status.UnitStatus) (commands []string) {
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

func plans(p *output.Printer, applied []status.AppliedPlan, now time.Time) {
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
