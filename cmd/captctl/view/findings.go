// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
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

// Findings shows each finding that needs a decision, with everything that is needed to decide, and the others by reason.
func Findings(p *output.Printer, findings []migrate.Finding) {
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

// byReason shows the findings of a severity, one line each, below their reasons.
func byReason(p *output.Printer, severity migrate.Severity, findings []migrate.Finding) {
	var reasons []string
	lines := map[string][]string{}
	for _, finding := range findings {
		if finding.Severity != severity {
			continue
		}
		if lines[finding.Reason] == nil {
			reasons = append(reasons, finding.Reason)
		}
		lines[finding.Reason] = append(lines[finding.Reason], names(finding.Objects())+": "+strings.ReplaceAll(finding.Message, "\n", "\n    "))
	}
	for _, reason := range reasons {
		p.Blank()
		p.Linef("%s: %s", p.Paint(severityStyle(string(severity)), string(severity)), p.Paint(output.Strong, fmt.Sprintf("%s (%d)", reason, len(lines[reason]))))
		objects(p, "  ", output.Plain, lines[reason])
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
	if finding.Undecided() {
		decision(p, finding)
	}
}

func names(refs []migrate.ObjectRef) string {
	all := make([]string, len(refs))
	for i, ref := range refs {
		all[i] = ref.String()
	}
	return strings.Join(all, ", ")
}

// choice is a line of a decision, and what it means.
type choice struct{ line, meaning string }

// decision shows what to write into the file of --decisions, in YAML, once for a conflict. Several choices are comments.
func decision(p *output.Printer, finding migrate.Finding) {
	if finding.Reason == planner.ReasonWorkspaceShared && finding.Workspace != nil {
		var choices []choice
		for _, candidate := range finding.Candidates {
			choices = append(choices, choice{"belongsTo: " + string(candidate.Object.UID), candidate.Object.String()})
		}
		section(p, "workspaces", []migrate.ObjectRef{*finding.Workspace}, func(migrate.ObjectRef) []choice { return choices })
		return
	}
	if decidable(finding.Object.Kind) {
		section(p, "owners", finding.Objects(), func(owner migrate.ObjectRef) []choice { return choicesFor(finding, owner) })
	}
}

// choicesFor one owner. To leave it as it is, is the last of them.
func choicesFor(finding migrate.Finding, owner migrate.ObjectRef) (choices []choice) {
	if finding.Reason == planner.ReasonMultipleCandidates {
		for _, candidate := range finding.Candidates {
			if candidate.Owner == nil || candidate.Owner.UID == owner.UID {
				choices = append(choices, choice{"take: " + string(candidate.Object.UID), candidate.Object.String()})
			}
		}
	}
	if strings.Contains(finding.Message, "pin: true") {
		choices = append(choices, choice{"pin: true", "keep the Workspace as it is, with a WorkspaceTemplate of its own"})
	}
	return append(choices, choice{"skip: true", "leave it as it is; the manager reports AdoptionRequired and writes nothing"})
}

func section(p *output.Printer, list string, refs []migrate.ObjectRef, of func(migrate.ObjectRef) []choice) {
	lead, hint := "  ", ""
	if slices.ContainsFunc(refs, func(ref migrate.ObjectRef) bool { return len(of(ref)) > 1 }) {
		lead, hint = "  # ", ", and uncomment one line of each entry"
	}
	width := 0
	for _, ref := range refs {
		width = max(width, len("- uid: "+string(ref.UID)))
		for _, choice := range of(ref) {
			width = max(width, len(lead+choice.line))
		}
	}
	p.Linef("  To decide, write this into the file of --decisions%s:", hint)
	p.Linef("    %s:", list)
	for _, ref := range refs {
		p.Linef("    %s", p.Paint(output.Plain, fmt.Sprintf("%-*s  # %s", width, "- uid: "+string(ref.UID), ref)))
		for _, choice := range of(ref) {
			p.Linef("    %s", p.Paint(output.Plain, fmt.Sprintf("%s%-*s  # %s", lead, width-len(lead), choice.line, choice.meaning)))
		}
	}
}

// decidable are the kinds of owners. About a Workspace or a template the message says what to do.
func decidable(kind string) bool {
	return kind == "CAPTCluster" || kind == "CAPTControlPlane" || kind == "WorkspaceTemplateApply"
}

// Undecided is one line about findings that need a decision.
func Undecided(findings []migrate.Finding) string {
	ambiguous := slices.DeleteFunc(slices.Clone(findings), func(f migrate.Finding) bool { return f.Severity != migrate.Ambiguous })
	return fmt.Sprintf("%s to decide first: %d ambiguous, %d blocked; each says what to do", Count(len(findings), "conflict"),
		len(ambiguous), len(findings)-len(ambiguous))
}

// oneLine is a message without line breaks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// objects prints a line per object; all of them only in the wide format.
func objects(p *output.Printer, indent string, style output.Style, lines []string) {
	for i, line := range lines {
		if i == shown && !p.Wide() {
			p.Linef("  and %d more, which -o wide shows", len(lines)-shown)
			return
		}
		for part := range strings.SplitSeq(line, "\n") {
			p.Linef("%s%s", indent, p.Paint(style, part))
		}
	}
}

// shown is how many lines about objects are printed before the rest is counted.
const shown = 20
