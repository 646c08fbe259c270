// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
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

// Findings shows each finding that needs a decision, with everything that is needed to decide, the others by reason, and the decisions to make.
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
	decisions(p, findings)
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

// choice is a line of a decision, and what it means.
type choice struct{ line, meaning string }

// entry is what can be decided about an object.
type entry struct {
	object  migrate.ObjectRef
	choices []choice
}

// decisions shows one document for --decisions, in which one line of each entry has to be uncommented.
func decisions(p *output.Printer, findings []migrate.Finding) {
	var owners, workspaces []entry
	for _, finding := range findings {
		switch {
		case !finding.Undecided():
		case finding.Reason == planner.ReasonWorkspaceShared && finding.Workspace != nil:
			var choices []choice
			for _, candidate := range finding.Candidates {
				choices = append(choices, choice{"belongsTo: " + string(candidate.Object.UID), candidate.Object.String()})
			}
			workspaces = with(workspaces, *finding.Workspace, choices)
		case decidable(finding.Object.Kind):
			for _, owner := range finding.Objects() {
				owners = with(owners, owner, choicesFor(finding, owner))
			}
		}
	}
	if len(owners)+len(workspaces) == 0 {
		return
	}
	p.Blank()
	p.Linef("%s: uncomment one line of each entry, save it as decisions.yaml, and run: captctl migrate plan --decisions decisions.yaml --out plan.json", p.Paint(output.Strong, "Decisions"))
	p.Blank()
	p.Linef("apiVersion: %s", migrate.APIVersion)
	p.Linef("kind: Decisions")
	section(p, "owners", owners)
	section(p, "workspaces", workspaces)
}

// with adds choices to the entry of an object: a UID may be decided about only once, and several findings may be about it.
func with(entries []entry, object migrate.ObjectRef, choices []choice) []entry {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.object.UID == object.UID })
	if i < 0 {
		i, entries = len(entries), append(entries, entry{object: object})
	}
	for _, one := range choices {
		if !slices.Contains(entries[i].choices, one) {
			entries[i].choices = append(entries[i].choices, one)
		}
	}
	return entries
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

// section is a list of a document of decisions. Each choice is a comment: the user uncomments one of them.
func section(p *output.Printer, list string, entries []entry) {
	const lead = "  # "
	width := 0
	for _, e := range entries {
		width = max(width, len("- uid: "+string(e.object.UID)))
		for _, choice := range e.choices {
			width = max(width, len(lead+choice.line))
		}
	}
	if len(entries) > 0 {
		p.Linef("%s:", list)
	}
	for _, e := range entries {
		p.Linef("%s", p.Paint(output.Plain, fmt.Sprintf("%-*s  # %s", width, "- uid: "+string(e.object.UID), e.object)))
		for _, choice := range e.choices {
			p.Linef("%s", p.Paint(output.Plain, fmt.Sprintf("%s%-*s  # %s", lead, width-len(lead), choice.line, choice.meaning)))
		}
	}
}

// decidable are the kinds of owners. About a Workspace or a template the message says what to do.
func decidable(kind string) bool {
	return kind == "CAPTCluster" || kind == "CAPTControlPlane" || kind == "WorkspaceTemplateApply"
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
