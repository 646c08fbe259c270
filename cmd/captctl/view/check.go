// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// Check is what is there, what it will become, and what to do next.
type Check struct {
	metav1.TypeMeta `json:",inline"`
	// Stage of the migration that the checks are for.
	Stage check.Stage `json:"stage"`
	// Checks of the management cluster.
	Checks []check.Check `json:"checks"`
	// Counts are the numbers of units per state.
	Counts map[plan.UnitState]int `json:"counts"`
	// Units are the Clusters, and the WorkspaceTemplateApplies without an owner.
	Units []CheckUnit `json:"units"`
	// Decisions are those of the plans that were applied, as far as they still fit the objects.
	Decisions *migrate.Decisions `json:"decisions,omitempty"`
	// Findings are those of a plan with these decisions.
	Findings []migrate.Finding `json:"findings,omitempty"`
	// Next are the next steps, in order.
	Next []Next `json:"next"`

	fleet *status.Fleet
}

// CheckUnit is what will become of a unit.
type CheckUnit struct {
	Unit    string         `json:"unit"`
	State   plan.UnitState `json:"state"`
	Members []plan.Member  `json:"members,omitempty"`
	// Workspaces is how many Workspaces must not change.
	Workspaces int    `json:"workspaces"`
	Message    string `json:"message"`
}

// Next is a step to do next.
type Next struct {
	// Step says what to do, and Commands how: exact shell commands, in order.
	Step     string   `json:"step"`
	Commands []string `json:"commands,omitempty"`
}

// NewCheck puts checks and a fleet together. The fleet is nil if it could not be read.
func NewCheck(report *check.Report, fleet *status.Fleet, next []Next) *Check {
	c := &Check{
		TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Check"}, Stage: report.Stage, Checks: report.Checks,
		Counts: map[plan.UnitState]int{}, Units: []CheckUnit{}, Next: next, fleet: fleet,
	}
	if fleet == nil {
		return c
	}
	c.Decisions, c.Findings = fleet.Decisions, fleet.Findings
	for _, unit := range rowsOf(fleet.Plan, nil, fleet, nil) {
		c.Counts[unit.state]++
		c.Units = append(c.Units, CheckUnit{
			Unit: unit.Name(), State: unit.state, Members: unit.Members, Workspaces: len(unit.Workspaces), Message: unit.message,
		})
	}
	return c
}

// ShowCheck shows a check: units, findings, what is not OK, and the next steps.
func ShowCheck(p *output.Printer, c *Check) {
	if c.fleet != nil {
		showUnits(p, c.fleet.Plan, rowsOf(c.fleet.Plan, nil, c.fleet, nil))
		Findings(p, c.fleet.Plan)
		if len(c.fleet.Undecided()) == 0 && NeedsDecisionsAgain(c.fleet.Plan) {
			printDecisions(p, c.fleet.Plan, "Decisions of the plans that were applied", "save them", nil, nil)
		}
		p.Blank()
	}
	showChecks(p, c.Checks)
	p.Blank()
	p.Linef("%s", p.Paint(output.Strong, "Next steps:"))
	for i, next := range c.Next {
		p.Title(fmt.Sprintf("%d.", i+1), output.Plain, next.Step)
		for _, command := range next.Commands {
			p.Linef("     %s", p.Paint(output.Plain, command))
		}
	}
}

func showChecks(p *output.Printer, checks []check.Check) {
	passed := 0
	for _, one := range checks {
		if one.Status == check.OK {
			passed++
		}
	}
	p.Linef("%s: %d of %d are OK", p.Paint(output.Strong, "Checks"), passed, len(checks))
	for _, one := range checks {
		if one.Status == check.OK && !p.Wide() {
			continue
		}
		status, indent := fmt.Sprintf("  %-7s", one.Status), "           "
		p.Item(status+"  "+one.Name+":", p.Paint(style(string(one.Status)), status)+"  "+p.Paint(output.Strong, one.Name)+":", indent, output.Plain, output.OneLine(one.Message))
		if one.Name == check.CheckPermissions && !p.Wide() && len(one.Objects) > 0 {
			p.Linef("%s  -o wide lists them", indent)
			continue
		}
		printLines(p, indent+"  ", one.Objects)
	}
}
