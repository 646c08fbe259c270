// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"fmt"
	"strings"

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

// order of findings: what the user has to do something about comes first.
var order = []migrate.Severity{migrate.Ambiguous, migrate.Blocked, migrate.Warning, migrate.Skipped}

// Findings shows each finding of a plan that needs a decision, with everything that is needed to decide, the others by reason, and the decisions
// to make.
func Findings(p *output.Printer, of *plan.Plan) {
	showFindings(p, of.Findings)
	if owners, workspaces := openDecisions(of.Findings); len(owners)+len(workspaces) > 0 {
		printDecisions(p, of, "Decisions", "uncomment one line of each entry, save it", owners, workspaces)
	}
}

func showFindings(p *output.Printer, findings []migrate.Finding) {
	for _, severity := range order {
		if severity == migrate.Warning || severity == migrate.Skipped {
			showByReason(p, severity, findings)
			continue
		}
		for _, equal := range withEqualDifferences(severity, findings) {
			p.Blank()
			showFinding(p, equal)
		}
	}
}

// withEqualDifferences groups the findings of a severity by reason and differences: an edited template causes the same finding for each user.
func withEqualDifferences(severity migrate.Severity, findings []migrate.Finding) (groups [][]migrate.Finding) {
	group := map[string]int{}
	for _, finding := range findings {
		differences, err := json.Marshal(finding.Differences)
		key := finding.Reason + string(differences)
		i, known := group[key]
		switch comparable := err == nil && len(finding.Differences) > 0 && len(finding.Candidates) == 0; {
		case finding.Severity != severity:
		case comparable && known:
			groups[i] = append(groups[i], finding)
		default:
			if comparable {
				group[key] = len(groups)
			}
			groups = append(groups, []migrate.Finding{finding})
		}
	}
	return groups
}

// showByReason shows the findings of a severity below their reasons. A text that several have is shown once, with their objects.
func showByReason(p *output.Printer, severity migrate.Severity, findings []migrate.Finding) {
	type text struct{ reason, message string }
	var reasons []string
	texts, about := map[string][]text{}, map[text][]string{}
	for _, finding := range findings {
		if finding.Severity != severity {
			continue
		}
		if texts[finding.Reason] == nil {
			reasons = append(reasons, finding.Reason)
		}
		of := text{finding.Reason, strings.ReplaceAll(finding.Message, "\n", "\n    ")}
		if about[of] == nil {
			texts[finding.Reason] = append(texts[finding.Reason], of)
		}
		about[of] = append(about[of], names(finding.Objects()))
	}
	for _, reason := range reasons {
		var lines []string // Of findings with a text of their own.
		count := 0
		for _, of := range texts[reason] {
			count += len(about[of])
			if len(about[of]) == 1 {
				lines = append(lines, about[of][0]+": "+of.message)
			}
		}
		p.Blank()
		title := p.Paint(output.Strong, fmt.Sprintf("%s (%d)", reason, count))
		if reason != string(severity) {
			title = p.Paint(style(string(severity)), string(severity)) + ": " + title
		}
		p.Linef("%s", title)
		printLines(p, "  ", lines)
		for _, of := range texts[reason] {
			if len(about[of]) > 1 {
				printLines(p, "  ", []string{of.message})
				printLines(p, "    ", about[of])
			}
		}
	}
}

// showFinding shows one finding, or several that differ in object and message only.
func showFinding(p *output.Printer, equal []migrate.Finding) {
	finding, lines := equal[0], []string{}
	severity := p.Paint(style(string(finding.Severity)), string(finding.Severity))
	if len(equal) == 1 {
		p.Item(string(finding.Severity)+":", severity+":", "  ", output.Strong, fmt.Sprintf("%s (%s)", names(finding.Objects()), finding.Reason))
		lines = append(lines, finding.Message)
	} else {
		p.Linef("%s: %s", severity, p.Paint(output.Strong, fmt.Sprintf("%s (%d), with the same differences", finding.Reason, len(equal))))
	}
	for i := range equal {
		if len(equal) > 1 {
			lines = append(lines, names(equal[i].Objects())+": "+equal[i].Message)
		}
	}
	printLines(p, "  ", lines)
	for i, candidate := range finding.Candidates {
		if i == 0 {
			p.Linef("  Candidates:")
		}
		whose := ""
		if candidate.Owner != nil {
			whose = " for " + candidate.Owner.String()
		}
		p.Text("    ", output.Plain, fmt.Sprintf("%s%s (UID %s)", candidate.Object, whose, candidate.Object.UID))
		for _, evidence := range candidate.For {
			p.Text("      ", output.Good, "for:     "+evidence)
		}
		for _, evidence := range candidate.Against {
			p.Text("      ", output.Bad, "against: "+evidence)
		}
	}
	if len(finding.Differences) > 0 {
		p.Linef("  What the live Workspace has (-), and what would be written into it (+):")
	}
	for _, difference := range finding.Differences {
		p.Change("    ", difference.Field, output.ValueOf(difference.Live), output.ValueOf(difference.Rendered))
	}
}

func names(refs []migrate.ObjectRef) string {
	all := make([]string, len(refs))
	for i, ref := range refs {
		all[i] = ref.String()
	}
	return strings.Join(all, ", ")
}

// Undecided is one line about the findings of a plan that need a decision. If the plan is saved, the rest of it can be applied.
func Undecided(of *plan.Plan, saved bool) string {
	text := output.Count(len(of.Undecided()), "conflict") + " to decide"
	if rest := InState(of, plan.Adoptable); saved && rest > 0 {
		text += fmt.Sprintf("; the other %s can be applied now", output.Count(rest, "unit"))
	}
	return text
}

// printLines prints a line per object; all of them only in the wide format.
func printLines(p *output.Printer, indent string, lines []string) {
	for i, line := range lines {
		if i == shown && !p.Wide() {
			p.Linef("  and %d more, which -o wide shows", len(lines)-shown)
			return
		}
		p.Text(indent, output.Plain, line)
	}
}

const shown = 20 // Lines about objects before the rest is counted.
