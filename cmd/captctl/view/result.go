// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/plan"
)

// wouldApply and wouldRollBack are the outcomes of a dry run, in tables.
const wouldApply, wouldRollBack apply.UnitOutcome = "would apply", "would roll back"

// outcome of a unit in a table.
func outcome(unit *apply.UnitResult, dryRun bool) string {
	switch {
	case dryRun && unit.Outcome == apply.Applied:
		return string(wouldApply)
	case dryRun && unit.Outcome == apply.RolledBack:
		return string(wouldRollBack)
	}
	return string(unit.Outcome)
}

func outcomeStyle(outcome string) output.Style {
	switch apply.UnitOutcome(outcome) {
	case apply.Applied, apply.RolledBack, wouldApply, wouldRollBack:
		return output.Good
	case apply.Failed:
		return output.Bad
	case apply.NotStarted, apply.LeftOut:
		return output.Attention
	case apply.Unchanged:
	}
	return output.Plain
}

// Result shows what a run did, unit by unit.
func Result(p *output.Printer, result *apply.Result) {
	p.Blank()
	if result.DryRun {
		p.Linef("Dry run: the API server accepted or refused each write, and kept none.")
	}
	rows := output.Rows{}
	for i := range result.Units {
		unit := &result.Units[i]
		rows = append(rows, []string{unit.Unit, outcome(unit, result.DryRun), strconv.Itoa(unit.Writes), oneLine(unit.Message)})
	}
	p.Table([]output.Column{{Name: "Unit"}, {Name: "Outcome", Style: outcomeStyle}, {Name: "Writes"}, {Name: "Message"}}, rows)
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
		case unit.Outcome == apply.Failed || unit.Outcome == apply.NotStarted:
			return ""
		case unit.Outcome == apply.LeftOut && (unit.State == plan.NeedsDecision || unit.State == plan.Blocked):
			n++
		}
	}
	switch n {
	case 0:
		return ""
	case 1:
		return "1 unit was left out because it needs a decision: captctl migrate check"
	}
	return fmt.Sprintf("%d units were left out because they need a decision: captctl migrate check", n)
}

// AfterApply says what to do after a run of apply, if it wrote something. The rest is the plan if units of it are left to apply; else empty.
func AfterApply(p *output.Printer, result *apply.Result, rest string) {
	wrote := slices.ContainsFunc(result.Units, func(unit apply.UnitResult) bool { return unit.Writes > 0 || unit.Outcome == apply.Applied })
	if result.DryRun || !wrote {
		return
	}
	p.Blank()
	p.Linef("Next steps:")
	p.Linef("  captctl migrate status")
	if rest != "" {
		p.Linef("  captctl migrate apply %s  # the rest", p.Paint(output.Plain, rest))
	}
	p.Linef("To revert everything that this plan wrote, at any time:")
	p.Linef("  captctl migrate rollback %s", result.PlanID)
}

// AfterRollback says what to do after a rollback that did not fail. The selected units are named; without any, the plan was rolled back as a
// whole. Still adopted are units by the ID of another plan that wrote them.
func AfterRollback(p *output.Printer, result *apply.Result, selected bool, stillAdopted map[string]string) {
	flags, failed := "", false
	for _, unit := range result.Units {
		failed = failed || unit.Outcome == apply.Failed || unit.Outcome == apply.NotStarted
		if id := stillAdopted[unit.Unit]; id != "" && !result.DryRun {
			p.Blank()
			p.Linef("%s is still adopted: plan %s wrote it; next:", p.Paint(output.Plain, unit.Unit), id)
			p.Linef("  captctl migrate rollback %s%s", id, selection(p, unit.Unit))
		} else if unit.Outcome == apply.RolledBack {
			flags += selection(p, unit.Unit)
		}
	}
	if result.DryRun || failed || flags == "" {
		return
	}
	if !selected && len(stillAdopted) == 0 {
		flags = ""
	}
	p.Blank()
	p.Linef("What is rolled back awaits adoption again. To adopt it:")
	p.Linef("  captctl migrate apply %s%s", result.PlanID, flags)
}

// selection is the flag that names a unit.
func selection(p *output.Printer, unit string) string {
	if strings.Count(unit, "/") == 1 {
		return " --cluster " + p.Paint(output.Plain, unit)
	}
	return " --unit " + p.Paint(output.Plain, unit)
}
