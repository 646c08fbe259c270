// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strconv"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
)

func outcomeStyle(outcome string) output.Style {
	switch apply.UnitOutcome(outcome) {
	case apply.Applied, apply.RolledBack:
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
	for _, unit := range result.Units {
		rows = append(rows, []string{unit.Unit, string(unit.Outcome), strconv.Itoa(unit.Writes), oneLine(unit.Message)})
	}
	p.Table([]output.Column{{Name: "Unit"}, {Name: "Outcome", Style: outcomeStyle}, {Name: "Writes"}, {Name: "Message"}}, rows)
	if result.Backup != nil && !result.DryRun {
		p.Blank()
		p.Linef("The backup is %s on host %s, SHA-256 %s.", p.Paint(output.Plain, result.Backup.File), p.Paint(output.Plain, result.Backup.Host), result.Backup.Checksum)
	}
}

// AfterApply says what to do after a run of apply.
func AfterApply(p *output.Printer, result *apply.Result) {
	if result.DryRun {
		return
	}
	p.Blank()
	p.Linef("Next steps:")
	p.Linef("  captctl migrate status")
	p.Linef("To revert everything that this plan wrote, at any time:")
	p.Linef("  captctl migrate rollback %s", result.PlanID)
}

// AfterRollback says what to do after a rollback.
func AfterRollback(p *output.Printer, result *apply.Result) {
	if result.DryRun {
		return
	}
	p.Blank()
	p.Linef("What is rolled back awaits adoption again. To adopt it:")
	p.Linef("  captctl migrate apply %s --cluster NAMESPACE/NAME", result.PlanID)
}
