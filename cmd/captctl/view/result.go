// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
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
