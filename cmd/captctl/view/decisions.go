// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
)

// choice is a line of a decision, and what it means.
type choice struct{ line, meaning string }

var (
	pinIt    = choice{"pin: true", "keep the Workspace as it is, with a WorkspaceTemplate of its own"}
	permitIt = choice{"permit: true", "add its namespace to spec.allowedNamespaces of the WorkspaceTemplate"}
	skipIt   = choice{"skip: true", "leave it as it is; the manager reports AdoptionRequired and writes nothing"}
)

// entry has the decision about an object, as lines, and the choices that the user has.
type entry struct {
	object  migrate.ObjectRef
	decided []string
	choices []choice
}

// openDecisions returns the decisions that the user has to make.
func openDecisions(findings []migrate.Finding) (owners, workspaces []entry) {
	for _, finding := range findings {
		switch {
		case !finding.Undecided():
		case (finding.Reason == planner.ReasonWorkspaceShared || finding.Reason == planner.ReasonWorkspaceNotRecorded) && finding.Workspace != nil:
			var choices []choice
			for _, candidate := range finding.Candidates {
				choices = append(choices, choice{"belongsTo: " + string(candidate.Object.UID), candidate.Object.String()})
			}
			workspaces = addChoices(workspaces, *finding.Workspace, choices)
			if finding.Reason == planner.ReasonWorkspaceNotRecorded { // The candidate may be another object than the one that it was built for.
				owners = addChoices(owners, finding.Object, []choice{{skipIt.line, "instead of belongsTo below: " + skipIt.meaning}})
			}
		case isOwnerKind(finding.Object.Kind):
			for _, owner := range finding.Objects() {
				owners = addChoices(owners, owner, choicesFor(finding, owner))
			}
		}
	}
	return owners, workspaces
}

// printDecisions shows one file for --decisions: the decisions that are open, of which one line each has to be uncommented, and those that the plan was
// made with, as far as they still matter.
func printDecisions(p *output.Printer, of *plan.Plan, title, do string, owners, workspaces []entry) {
	owners, workspaces = withDecided(of, owners, workspaces)
	p.Blank()
	p.Linef("%s: %s as decisions.yaml, and run: captctl migrate plan --decisions decisions.yaml --out plan.json", p.Paint(output.Strong, title), do)
	p.Blank()
	p.Linef("apiVersion: %s", migrate.APIVersion)
	p.Linef("kind: Decisions")
	printEntries(p, "owners", owners)
	printEntries(p, "workspaces", workspaces)
}

// NeedsDecisionsAgain reports whether the decisions that a plan was made with are needed for the next one too.
func NeedsDecisionsAgain(of *plan.Plan) bool {
	owners, workspaces := withDecided(of, nil, nil)
	return len(owners)+len(workspaces) > 0 && InState(of, plan.Adoptable) > 0
}

// withDecided adds the decisions that a plan was made with to those that are open.
func withDecided(of *plan.Plan, owners, workspaces []entry) (allOwners, allWorkspaces []entry) {
	if of.Decisions == nil {
		return owners, workspaces
	}
	needed := map[types.UID]migrate.ObjectRef{}
	for i := range of.Units {
		for _, member := range of.Units[i].Members {
			if of.Units[i].State == plan.Adopted && member.State != migrate.OwnerSkipped { // What is skipped is planned without its decision.
				continue
			}
			needed[member.Object.UID] = member.Object
			if member.Workspace != nil {
				needed[member.Workspace.UID] = *member.Workspace
			}
		}
	}
	for _, d := range of.Decisions.Owners {
		if object, found := needed[d.UID]; found {
			owners = addDecision(owners, object, fieldLine("take", string(d.Take)), fieldLine("pin", d.Pin), fieldLine("permit", d.Permit), fieldLine("skip", d.Skip), fieldLine("reason", d.Reason))
		}
	}
	for _, d := range of.Decisions.Workspaces {
		if object, found := needed[d.UID]; found {
			workspaces = addDecision(workspaces, object, fieldLine("belongsTo", string(d.BelongsTo)), fieldLine("reason", d.Reason))
		}
	}
	return owners, workspaces
}

// fieldLine is a line of a decision; empty if the field is not set.
func fieldLine[T comparable](field string, value T) string {
	if value == *new(T) {
		return ""
	}
	data, err := json.Marshal(value) // JSON is YAML.
	if err != nil {
		panic(err) // It is a string or a bool.
	}
	return field + ": " + string(data)
}

// addDecision adds an earlier decision, unless the user has to decide about the object again. Some cases need both: if the WorkspaceTemplateApply
// that was chosen must be pinned now, or needs a permission, take: is kept, and pin: or permit: is the new choice.
func addDecision(entries []entry, object migrate.ObjectRef, lines ...string) []entry {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	i := slices.IndexFunc(entries, func(e entry) bool { return e.object.UID == object.UID })
	if i < 0 {
		return append(entries, entry{object: object, decided: lines})
	}
	for _, added := range []choice{pinIt, permitIt} {
		if strings.HasPrefix(lines[0], "take: ") && slices.Contains(entries[i].choices, added) {
			entries[i].decided = lines[:1]
			entries[i].choices = []choice{added, {skipIt.line, "instead of take: " + skipIt.meaning}}
		}
	}
	return entries
}

// addChoices adds choices to the entry of an object: a UID may be decided about only once, and several findings may be about it.
func addChoices(entries []entry, object migrate.ObjectRef, choices []choice) []entry {
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

// choicesFor returns the choices for one owner. The last one is always to leave it as it is.
func choicesFor(finding migrate.Finding, owner migrate.ObjectRef) (choices []choice) {
	if finding.Reason == planner.ReasonMultipleCandidates {
		for _, candidate := range finding.Candidates {
			if candidate.Owner == nil || candidate.Owner.UID == owner.UID {
				choices = append(choices, choice{"take: " + string(candidate.Object.UID), candidate.Object.String()})
			}
		}
	}
	for _, one := range []choice{pinIt, permitIt} {
		if strings.Contains(finding.Message, one.line) {
			choices = append(choices, one)
		}
	}
	return append(choices, skipIt)
}

// printEntries prints a list of a document of decisions. Each choice is a comment: the user uncomments one of them.
func printEntries(p *output.Printer, list string, entries []entry) {
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
		for _, line := range e.decided {
			p.Linef("  %s", p.Paint(output.Plain, line))
		}
		for _, choice := range e.choices {
			p.Linef("%s", p.Paint(output.Plain, fmt.Sprintf("%s%-*s  # %s", lead, width-len(lead), choice.line, choice.meaning)))
		}
	}
}

// isOwnerKind reports whether a decision can be about objects of a kind. For a Workspace or a template, the message says what to do.
func isOwnerKind(kind string) bool {
	return kind == "CAPTCluster" || kind == "CAPTControlPlane" || kind == "WorkspaceTemplateApply"
}

// showDecisions shows the decisions that a plan was made with.
func showDecisions(p *output.Printer, of *plan.Plan) {
	made, name, rows := ptr.Deref(of.Decisions, migrate.Decisions{}), namesIn(of), output.Rows{}
	for _, d := range made.Owners {
		for _, one := range []struct {
			made bool
			text string
		}{{d.Take != "", "take " + name(d.Take)}, {d.Pin, "pin"}, {d.Permit, "permit"}, {d.Skip, "skip"}} {
			if one.made {
				rows = append(rows, []string{name(d.UID), one.text, d.Reason})
			}
		}
	}
	for _, d := range made.Workspaces {
		rows = append(rows, []string{name(d.UID), "belongsTo " + name(d.BelongsTo), d.Reason})
	}
	if len(rows) > 0 {
		p.Blank()
		p.Linef("%s:", p.Paint(output.Strong, "Planned with these decisions"))
		p.Table([]output.Column{{Name: "Object"}, {Name: "Decision"}, {Name: "Reason"}}, rows)
	}
}

// namesIn returns a function that names the objects of a plan by their UIDs.
func namesIn(of *plan.Plan) func(types.UID) string {
	names := map[types.UID]string{}
	for i := range of.Units {
		for _, object := range of.Units[i].Objects() {
			names[object.UID] = object.String()
		}
	}
	for _, finding := range of.Findings {
		for _, object := range finding.Objects() {
			names[object.UID] = object.String()
		}
	}
	return func(uid types.UID) string { return cmp.Or(names[uid], string(uid)) }
}
