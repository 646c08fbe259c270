// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// order of findings: what the user has to do something about comes first.
var order = []migrate.Severity{migrate.Ambiguous, migrate.Blocked, migrate.Warning, migrate.Skipped}

func severityStyle(severity string) output.Style {
	switch migrate.Severity(severity) {
	case migrate.Ambiguous, migrate.Warning:
		return output.Attention
	case migrate.Blocked:
		return output.Bad
	case migrate.Skipped:
		return output.Faint
	default:
		return output.Plain
	}
}

// Findings shows each finding of a plan that needs a decision, with everything that is needed to decide, the others by reason, and the decisions
// to make.
func Findings(p *output.Printer, of *plan.Plan) {
	showFindings(p, of.Findings)
	if owners, workspaces := undecided(of.Findings); len(owners)+len(workspaces) > 0 {
		document(p, of, "Decisions", "uncomment one line of each entry, save it", owners, workspaces)
	}
}

func showFindings(p *output.Printer, findings []migrate.Finding) {
	for _, severity := range order {
		if severity == migrate.Warning || severity == migrate.Skipped {
			byReason(p, severity, findings)
			continue
		}
		for _, finding := range findings {
			if finding.Severity == severity {
				p.Blank()
				showFinding(p, finding)
			}
		}
	}
}

// byReason shows the findings of a severity below their reasons. A text that several have is shown once, with their objects.
func byReason(p *output.Printer, severity migrate.Severity, findings []migrate.Finding) {
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
			title = p.Paint(severityStyle(string(severity)), string(severity)) + ": " + title
		}
		p.Linef("%s", title)
		objects(p, "  ", lines)
		for _, of := range texts[reason] {
			if len(about[of]) > 1 {
				objects(p, "  ", []string{of.message})
				objects(p, "    ", about[of])
			}
		}
	}
}

func showFinding(p *output.Printer, finding migrate.Finding) {
	p.Linef("%s: %s (%s)", p.Paint(severityStyle(string(finding.Severity)), string(finding.Severity)), p.Paint(output.Strong, names(finding.Objects())), finding.Reason)
	for _, line := range strings.Split(finding.Message, "\n") {
		p.Linef("  %s", p.Paint(output.Plain, line))
	}
	for i, candidate := range finding.Candidates {
		if i == 0 {
			p.Linef("  Candidates:")
		}
		whose := ""
		if candidate.Owner != nil {
			whose = " for " + candidate.Owner.String()
		}
		p.Linef("    %s%s (UID %s)", p.Paint(output.Plain, candidate.Object.String()), whose, p.Paint(output.Plain, string(candidate.Object.UID)))
		for _, evidence := range candidate.For {
			p.Linef("      %s", p.Paint(output.Good, "for:     "+evidence))
		}
		for _, evidence := range candidate.Against {
			p.Linef("      %s", p.Paint(output.Bad, "against: "+evidence))
		}
	}
	if len(finding.Differences) > 0 {
		p.Linef("  What the live Workspace has (-), and what would be written into it (+):")
	}
	for _, difference := range finding.Differences {
		change(p, "    ", difference.Field, value(difference.Live), value(difference.Rendered))
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
	findings := of.Undecided()
	var parts []string
	for _, severity := range []migrate.Severity{migrate.Ambiguous, migrate.Blocked} {
		n := 0
		for _, finding := range findings {
			if finding.Severity == severity {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(severity))))
		}
	}
	text := fmt.Sprintf("%s to decide (%s)", Count(len(findings), "conflict"), strings.Join(parts, ", "))
	rest := 0
	for i := range of.Units {
		if of.Units[i].State == plan.Adoptable {
			rest++
		}
	}
	if saved && rest > 0 {
		text += fmt.Sprintf("; the other %s can be applied now", Count(rest, "unit"))
	}
	return text
}

// oneLine is a message without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// objects prints a line per object; all of them only in the wide format.
func objects(p *output.Printer, indent string, lines []string) {
	for i, line := range lines {
		if i == shown && !p.Wide() {
			p.Linef("  and %d more, which -o wide shows", len(lines)-shown)
			return
		}
		for part := range strings.SplitSeq(line, "\n") {
			p.Linef("%s%s", indent, p.Paint(output.Plain, part))
		}
	}
}

// shown is how many lines about objects are printed before the rest is counted.
const shown = 20
