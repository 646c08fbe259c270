// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package view prints plans, checks, results and states as tables and text. It decides nothing.
package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// unitStates in the order in which they are counted.
var unitStates = []plan.UnitState{plan.Adopted, plan.Adoptable, plan.NeedsDecision, plan.Blocked, plan.Skipped, plan.NeverBuilt}

func unitStyle(state string) output.Style {
	switch plan.UnitState(state) {
	case plan.Adopted, plan.Adoptable:
		return output.Good
	case plan.NeedsDecision:
		return output.Attention
	case plan.Blocked:
		return output.Bad
	case plan.Skipped, plan.NeverBuilt:
		return output.Faint
	}
	return output.Plain
}

// Plan shows a plan: its units, the decisions that it was made with, and its findings.
func Plan(p *output.Printer, of *plan.Plan) {
	PlanSummary(p, of, all(of))
	decided(p, of)
	Findings(p, of)
}

// all units of a plan.
func all(of *plan.Plan) []*plan.Unit {
	units := make([]*plan.Unit, len(of.Units))
	for i := range of.Units {
		units[i] = &of.Units[i]
	}
	return units
}

// PlanSummary shows some units of a plan, and how much it writes for them.
func PlanSummary(p *output.Printer, of *plan.Plan, units []*plan.Unit) {
	p.Linef("Plan %s of %s, management cluster %s, %s", p.Paint(output.Strong, of.ID), moment(of.Created.Time),
		p.Paint(output.Plain, string(of.ClusterUID)), namespaces(of.Namespace))
	p.Blank()
	showUnits(p, of, units)
}

// showUnits is a table of units, and their numbers.
func showUnits(p *output.Printer, of *plan.Plan, units []*plan.Unit) {
	if len(of.Units) == 0 {
		p.Linef("There is nothing of CAPT v0.3 in %s.", namespaces(of.Namespace))
	}
	if len(units) == 0 {
		return
	}
	rows := output.Rows{}
	for _, unit := range units {
		rows = append(rows, []string{
			unit.Name(), string(unit.State), strconv.Itoa(len(unit.Workspaces)), strconv.Itoa(len(unit.Steps)), becomes(of, unit),
		})
	}
	p.Table([]output.Column{
		{Name: "Unit"}, {Name: "State", Style: unitStyle}, {Name: "Workspaces"}, {Name: "Writes"}, {Name: "Message"},
	}, rows)
	if p.Wide() {
		members(p, units)
	}
	p.Blank()
	p.Linef("%s: %s", Count(len(units), "unit"), counts(p, units))
}

// members are shown with -o wide: what belongs together, and why.
func members(p *output.Printer, units []*plan.Unit) {
	rows := output.Rows{}
	for _, unit := range units {
		for i := range unit.Members {
			member := &unit.Members[i]
			what := member.Object.Kind + "/" + member.Object.Name
			rows = append(rows, []string{
				unit.Name(), what, member.Role, name(member.WorkspaceTemplateApply), name(member.Workspace), strings.Join(member.Evidence, "; "),
			})
		}
	}
	p.Blank()
	p.Table([]output.Column{
		{Name: "Unit"}, {Name: "Member"}, {Name: "Role"}, {Name: "WorkspaceTemplateApply"}, {Name: "Workspace"}, {Name: "Evidence"},
	}, rows)
}

// counts units by state.
func counts(p *output.Printer, units []*plan.Unit) string {
	var parts []string
	for _, state := range unitStates {
		n := 0
		for _, unit := range units {
			if unit.State == state {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, p.Paint(unitStyle(string(state)), fmt.Sprintf("%d %s", n, state)))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// becomes says in a few words what becomes of a unit.
func becomes(of *plan.Plan, unit *plan.Unit) string {
	var reasons []string
	for _, finding := range of.FindingsOf(unit) {
		if finding.Undecided() && !slices.Contains(reasons, finding.Reason) {
			reasons = append(reasons, finding.Reason)
		}
	}
	switch unit.State {
	case plan.Adopted:
		return "adopted already"
	case plan.Adoptable:
		if skipped := skippedMembers(unit); len(skipped) > 0 {
			return "adopted, except for " + strings.Join(skipped, ", ") + " (skipped)"
		}
		return "the manager adopts it, no Workspace changes"
	case plan.Skipped:
		return "stays as it is, as decided"
	case plan.NeverBuilt:
		return "the manager creates it: nothing was built"
	case plan.NeedsDecision, plan.Blocked:
	}
	return cmp.Or(strings.Join(reasons, ", "), "see the findings")
}

// skippedMembers are the members that a decision leaves as they are.
func skippedMembers(unit *plan.Unit) (names []string) {
	for i := range unit.Members {
		if member := &unit.Members[i]; member.State == migrate.OwnerSkipped {
			names = append(names, member.Object.Kind+" "+member.Object.Name)
		}
	}
	return names
}

// Writes counts what a plan writes.
func Writes(of *plan.Plan) (writes int) {
	for i := range of.Units {
		writes += len(of.Units[i].Steps)
	}
	return writes
}

// RollbackSummary shows which units of a plan are about to be rolled back.
func RollbackSummary(p *output.Printer, of *plan.Plan, units []*plan.Unit) {
	p.Linef("Plan %s of %s", p.Paint(output.Strong, of.ID), moment(of.Created.Time))
	p.Blank()
	rows := output.Rows{}
	for _, unit := range units {
		if len(unit.Steps) > 0 {
			rows = append(rows, []string{unit.Name(), strconv.Itoa(len(unit.Workspaces)), strconv.Itoa(len(unit.Steps))})
		}
	}
	p.Table([]output.Column{{Name: "Unit"}, {Name: "Workspaces"}, {Name: "Writes-To-Revert"}}, rows)
}

// AfterPlan says what to do with a new plan.
func AfterPlan(p *output.Printer, of *plan.Plan, file string) {
	p.Blank()
	switch {
	case Writes(of) == 0:
		p.Linef("There is nothing to apply.")
	case file == "":
		p.Linef("The plan is not saved. To apply it, run: captctl migrate plan --out plan.json")
	default:
		p.Linef("Saved in %s. Next steps:", p.Paint(output.Plain, file))
		p.Linef("  captctl migrate show %s --diff", p.Paint(output.Plain, file))
		if first := firstCluster(of); first != "" {
			p.Linef("  captctl migrate apply %s --cluster %s", p.Paint(output.Plain, file), p.Paint(output.Plain, first))
		}
		p.Linef("  captctl migrate apply %s", p.Paint(output.Plain, file))
	}
}

// firstCluster to adopt.
func firstCluster(of *plan.Plan) string {
	for i := range of.Units {
		if unit := &of.Units[i]; unit.Object.Kind == "Cluster" && len(unit.Steps) > 0 {
			return unit.Name()
		}
	}
	return ""
}

func namespaces(only string) string {
	if only == "" {
		return "all namespaces"
	}
	return "namespace " + only
}

// moment is in UTC: the reader may be in another time zone.
func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// Count is "1 object" or "2 objects".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func name(ref *migrate.ObjectRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
