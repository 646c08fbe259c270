/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
)

// order of findings: what a person has to do something about comes first.
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

// severities counts findings.
func severities(p *output.Printer, findings []migrate.Finding) string {
	var counts []string
	for _, severity := range order {
		n := 0
		for _, finding := range findings {
			if finding.Severity == severity {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, p.Paint(severityStyle(string(severity)), fmt.Sprintf("%d %s", n, severity)))
		}
	}
	if len(counts) == 0 {
		return "none"
	}
	return strings.Join(counts, ", ")
}

// Findings shows each finding that a person has to decide about, with all that is needed for that, and the others by their reasons.
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

// byReason shows the findings of a severity in a line each, below their reasons.
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
		lines[finding.Reason] = append(lines[finding.Reason], finding.Object.String()+": "+oneLine(finding.Message))
	}
	for _, reason := range reasons {
		p.Blank()
		p.Linef("%s: %s", p.Paint(severityStyle(string(severity)), string(severity)), p.Paint(output.Strong, fmt.Sprintf("%s (%d)", reason, len(lines[reason]))))
		objects(p, "  ", output.Plain, lines[reason])
	}
}

func showFinding(p *output.Printer, finding migrate.Finding) {
	p.Linef("%s: %s (%s)", p.Paint(severityStyle(string(finding.Severity)), string(finding.Severity)), p.Paint(output.Strong, finding.Object.String()), finding.Reason)
	for _, line := range strings.Split(finding.Message, "\n") {
		p.Linef("  %s", p.Paint(output.Plain, line))
	}
	for i, candidate := range finding.Candidates {
		if i == 0 {
			p.Linef("  Candidates:")
		}
		p.Linef("    %s (UID %s)", p.Paint(output.Plain, candidate.Object.String()), p.Paint(output.Plain, string(candidate.Object.UID)))
		for _, evidence := range candidate.For {
			p.Linef("      %s", p.Paint(output.Good, "for:     "+evidence))
		}
		for _, evidence := range candidate.Against {
			p.Linef("      %s", p.Paint(output.Bad, "against: "+evidence))
		}
	}
	if len(finding.Differences) > 0 {
		p.Linef("  What is in the live Workspace (-), and what would be written into it (+):")
	}
	for _, difference := range finding.Differences {
		change(p, "    ", difference.Field, value(difference.Live), value(difference.Rendered))
	}
	if finding.Severity == migrate.Ambiguous || finding.Severity == migrate.Blocked {
		decision(p, finding)
	}
}

// decision shows what could be written into the file of --decisions, in YAML, each choice as a comment if there are several.
func decision(p *output.Printer, finding migrate.Finding) {
	var choices [][2]string
	if finding.Reason == planner.ReasonSeveral {
		for _, candidate := range finding.Candidates {
			choices = append(choices, [2]string{"take: " + string(candidate.Object.UID), candidate.Object.String()})
		}
	}
	if !decidable(finding.Object.Kind) {
		return
	}
	choices = append(choices, [2]string{"skip: true", "leave it as it is; the manager will say AdoptionRequired and write nothing"})
	uid := "- uid: " + string(finding.Object.UID)
	width := len(uid)
	for _, choice := range choices {
		width = max(width, len(choice[0])+2)
	}
	belongs(p, finding)
	p.Linef("  To decide, write this into the file of --decisions%s:", oneOf(len(choices)))
	p.Linef("    owners:")
	p.Linef("    %s", p.Paint(output.Plain, fmt.Sprintf("%-*s  # %s", width, uid, finding.Object)))
	lead := "  "
	if len(choices) > 1 {
		lead = "# "
	}
	for _, choice := range choices {
		p.Linef("    %s", p.Paint(output.Plain, fmt.Sprintf("%s%-*s  # %s", lead, width-len(lead), choice[0], choice[1])))
	}
}

// belongs shows what could be written about a Workspace that several mean: it goes to one of them.
func belongs(p *output.Printer, finding migrate.Finding) {
	if finding.Workspace == nil || len(finding.Candidates) < 2 {
		return
	}
	p.Linef("  To give the Workspace to one of them, write this, once, with one # replaced by a space; its owner needs no decision then:")
	p.Linef("    workspaces:")
	p.Linef("    %s", p.Paint(output.Plain, fmt.Sprintf("- uid: %s  # %s", finding.Workspace.UID, finding.Workspace)))
	for _, candidate := range finding.Candidates {
		p.Linef("    %s", p.Paint(output.Plain, fmt.Sprintf("# belongsTo: %s  # %s", candidate.Object.UID, candidate.Object)))
	}
}

// decidable are the kinds of owners. About a Workspace or a template the message says what to do.
func decidable(kind string) bool {
	return kind == "CAPTCluster" || kind == "CAPTControlPlane" || kind == "WorkspaceTemplateApply"
}

func oneOf(choices int) string {
	if choices > 1 {
		return ", with one # replaced by a space"
	}
	return ""
}

// Undecided is one line about the findings that keep a plan from being carried out.
func Undecided(findings []migrate.Finding) string {
	ambiguous := slices.DeleteFunc(slices.Clone(findings), func(f migrate.Finding) bool { return f.Severity != migrate.Ambiguous })
	return fmt.Sprintf("%s kept from adoption: %d ambiguous, %d blocked; what to do is said beside each of them", count(len(findings), "object"),
		len(ambiguous), len(findings)-len(ambiguous))
}
