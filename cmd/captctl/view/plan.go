// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package view prints plans, checks, results and states as tables and text. It decides nothing.
package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/planner"
	"github.com/capt-provider/capt/migrate/status"
)

// unitStates in the order in which they are counted.
var unitStates = []plan.UnitState{plan.Adopted, plan.PartlyAdopted, plan.Adoptable, plan.InProgress, plan.Interrupted, plan.NeedsDecision, plan.Blocked, plan.Skipped, plan.NeverBuilt}

// style returns the style of a state, an outcome, a severity, or the status of a check.
func style(word string) output.Style {
	switch word {
	case string(plan.Adopted), string(plan.Adoptable), string(apply.Applied), string(apply.RolledBack), string(wouldApply), string(wouldRollBack), string(check.OK):
		return output.Good
	case string(plan.NeedsDecision), string(plan.PartlyAdopted), string(plan.InProgress), string(apply.NotStarted), string(apply.NotProven), string(apply.LeftOut), string(migrate.Ambiguous), string(check.Warning):
		return output.Attention
	case string(plan.Blocked), string(plan.Interrupted), string(check.Failed):
		return output.Bad
	case string(plan.Skipped), string(plan.NeverBuilt):
		return output.Faint
	}
	return output.Plain
}

// Plan shows a plan: its units, the decisions that it was made with, and its findings. The fleet is nil if no management cluster was read.
func Plan(p *output.Printer, of *plan.Plan, fleet *status.Fleet) {
	PlanSummary(p, of, nil, fleet, nil)
	showDecisions(p, of)
	Findings(p, of)
}

// row is a unit in a table.
type row struct {
	*plan.Unit
	state   plan.UnitState
	writes  int
	message string
}

// rowsOf returns a row with the current state for each of the units; for all units of the plan if units is nil. If writes is nil, the number of
// writes shown is that of the plan.
func rowsOf(of *plan.Plan, units []*plan.Unit, fleet *status.Fleet, writes map[string]int) (rows []row) {
	if units == nil {
		units, _ = of.Select(nil)
	}
	for _, unit := range units {
		r := row{Unit: unit, state: unit.State, writes: len(unit.Steps)}
		if writes != nil {
			r.writes = writes[unit.Name()]
		}
		if fleet != nil {
			stands := fleet.StatusOf(unit.Name())
			r.state, r.message = cmp.Or(stands.State, unit.State), runMessage(stands)
		}
		r.message = cmp.Or(r.message, unitMessage(of, unit, r.state))
		rows = append(rows, r)
	}
	return rows
}

// PlanSummary shows what a run writes: some units of a plan, as they are now.
func PlanSummary(p *output.Printer, of *plan.Plan, units []*plan.Unit, fleet *status.Fleet, writes map[string]int) {
	p.Item("Plan "+of.ID, "Plan "+p.Paint(output.Strong, of.ID), "  ", output.Plain,
		fmt.Sprintf("of %s, management cluster %s, %s", output.Moment(of.Created.Time), of.ClusterUID, namespaces(of.Namespace)))
	p.Blank()
	showUnits(p, of, rowsOf(of, units, fleet, writes))
}

// showUnits is a table of units, and their numbers.
func showUnits(p *output.Printer, of *plan.Plan, units []row) {
	if len(of.Units) == 0 {
		p.Linef("There are no objects of CAPT v0.3 in %s.", namespaces(of.Namespace))
	}
	if len(units) == 0 {
		return
	}
	rows := output.Rows{}
	for _, unit := range units {
		rows = append(rows, []string{unit.Name(), string(unit.state), workspaces(unit.Unit), strconv.Itoa(unit.writes), unit.message})
	}
	p.Table([]output.Column{
		{Name: "Unit"}, {Name: "State", Style: style}, {Name: "Workspaces"}, {Name: "Writes"}, {Name: "Message", Prose: 4},
	}, rows)
	if p.Wide() {
		showMembers(p, units)
	}
	p.Blank()
	p.Linef("%s: %s", output.Count(len(units), "unit"), counts(p, units))
}

// workspaces is how many Workspaces the members of a unit have; empty if none is known.
func workspaces(unit *plan.Unit) string {
	known := map[migrate.ObjectRef]bool{}
	for _, item := range unit.Workspaces {
		known[item.ObjectRef] = true
	}
	for _, member := range unit.Members {
		if member.Workspace != nil {
			known[*member.Workspace] = true
		}
	}
	if len(known) == 0 {
		return ""
	}
	return strconv.Itoa(len(known))
}

// showMembers shows, with -o wide, what belongs together, and why.
func showMembers(p *output.Printer, units []row) {
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

// counts returns the numbers of units by state, as text.
func counts(p *output.Printer, units []row) string {
	var parts []string
	for _, state := range unitStates {
		n := 0
		for _, unit := range units {
			if unit.state == state {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, p.Paint(style(string(state)), fmt.Sprintf("%d %s", n, state)))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// unitMessage says in a few words what becomes of a unit in some state.
func unitMessage(of *plan.Plan, unit *plan.Unit, state plan.UnitState) string {
	switch state {
	case plan.Adopted:
		return "nothing to adopt" + endpointNote(unit)
	case plan.Adoptable:
		if skipped := skippedMembers(unit); len(skipped) > 0 {
			return "the manager adopts it, except for " + names(skipped) + " (skipped)" + endpointNote(unit)
		}
		return "the manager adopts it, no Workspace changes" + endpointNote(unit)
	case plan.Skipped:
		return "it stays as it is"
	case plan.NeverBuilt:
		return "the manager creates it: nothing was built"
	case plan.NeedsDecision, plan.Blocked, plan.PartlyAdopted, plan.Interrupted, plan.InProgress:
	}
	var reasons []string
	for _, finding := range of.FindingsOf(unit) {
		if finding.Undecided() && !slices.Contains(reasons, finding.Reason) {
			reasons = append(reasons, finding.Reason)
		}
	}
	return cmp.Or(strings.Join(reasons, ", "), "captctl migrate check shows why")
}

// endpointNote says which flag repairs the endpoint of a Cluster; empty if it needs no repair.
func endpointNote(unit *plan.Unit) string {
	if unit.Endpoint == nil {
		return ""
	}
	return "; its endpoint is a URL, see " + fixFlag
}

const fixFlag = "--fix-cluster-endpoints" // Of apply: it repairs endpoints.

// skippedMembers are the members that a decision leaves as they are.
func skippedMembers(unit *plan.Unit) (skipped []migrate.ObjectRef) {
	for i := range unit.Members {
		if member := &unit.Members[i]; member.State == migrate.OwnerSkipped {
			skipped = append(skipped, member.Object)
		}
	}
	return skipped
}

// InState returns the number of units of a plan that have one of the states.
func InState(of *plan.Plan, states ...plan.UnitState) (n int) {
	for i := range of.Units {
		if slices.Contains(states, of.Units[i].State) {
			n++
		}
	}
	return n
}

// Writes returns the number of objects that a plan writes.
func Writes(of *plan.Plan) (writes int) {
	for i := range of.Units {
		writes += len(of.Units[i].Steps)
	}
	return writes
}

// Repairs counts the Clusters whose endpoints are repaired if the user asks for it.
func Repairs(of *plan.Plan) (repairs int) {
	for i := range of.Units {
		if of.Units[i].Endpoint != nil {
			repairs++
		}
	}
	return repairs
}

// NotUpToDate shows which Workspaces of some units are not up to date. Terraform may run for them at any time, and their adoption is not a test for the
// others.
func NotUpToDate(p *output.Printer, fleet *status.Fleet, units []*plan.Unit) {
	var lines []string
	for _, unit := range units {
		if fleet != nil && unit.State == plan.Adoptable {
			lines = append(lines, fleet.NotUpToDate(unit)...)
		}
	}
	if len(lines) > 0 {
		p.Blank()
		p.Linef("Not up to date (%d): Terraform may run for these Workspaces, independently of the adoption.", len(lines))
		printLines(p, "  ", lines)
	}
}

// RollbackSummary shows which units of a plan are about to be rolled back.
func RollbackSummary(p *output.Printer, of *plan.Plan, units []*plan.Unit, writes map[string]int) {
	p.Linef("Plan %s of %s", p.Paint(output.Strong, of.ID), output.Moment(of.Created.Time))
	p.Blank()
	rows := output.Rows{}
	for _, unit := range units {
		if n := writes[unit.Name()]; n > 0 {
			rows = append(rows, []string{unit.Name(), workspaces(unit), strconv.Itoa(n)})
		}
	}
	p.Table([]output.Column{{Name: "Unit"}, {Name: "Workspaces"}, {Name: "Writes-To-Revert"}}, rows)
}

// AfterPlan says what to do with a new plan. Again is the command that makes it; installed is false while this version is not.
func AfterPlan(p *output.Printer, fleet *status.Fleet, file, again string, installed bool) {
	p.Blank()
	switch {
	case Writes(fleet.Plan) == 0 && Repairs(fleet.Plan) == 0:
		p.Linef("There is nothing to apply.")
	case file == "":
		p.Linef("The plan is not saved. To apply it, run: %s --out plan.json", p.Paint(output.Plain, again))
	default:
		p.Linef("Saved in %s. Next steps:", p.Paint(output.Plain, file))
		p.Linef("  captctl migrate show %s --diff  # optional: every field", p.Paint(output.Plain, file))
		if !installed {
			p.Linef("Apply it after CAPT v0.3 is stopped and this version is installed: captctl migrate check shows the commands.")
			break
		}
		for _, command := range ApplyCommands(fleet, file) {
			p.Linef("  %s", p.Paint(output.Plain, command))
		}
	}
	resume(p, fleet.Statuses)
}

// ApplyCommands apply a plan: to one Cluster first, then to the rest.
func ApplyCommands(fleet *status.Fleet, file string) []string {
	all, flag, first, clusters := "captctl migrate apply "+file, "", fleet.FirstCluster(), 0
	for i := range fleet.Units {
		if unit := &fleet.Units[i]; unit.State == plan.Adoptable && unit.Object.Kind == "Cluster" {
			clusters++
		}
	}
	if Repairs(fleet.Plan) > 0 {
		flag = "  # add " + fixFlag + " to repair endpoints, see InvalidClusterEndpoint"
	}
	switch {
	case Writes(fleet.Plan) == 0 && flag != "":
		return []string{all + " " + fixFlag + "  # see InvalidClusterEndpoint"}
	case clusters < 2:
		return []string{all + flag}
	case first == "":
		return []string{all + " --cluster NAMESPACE/NAME  # choose one that is not critical, and watch it", all + flag}
	}
	return []string{all + " --cluster " + first + flag, all + flag}
}

func namespaces(only string) string {
	if only == "" {
		return "all namespaces"
	}
	return "namespace " + only
}

func name(ref *migrate.ObjectRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// Diff shows every step of a plan: each field before and after.
func Diff(p *output.Printer, of *plan.Plan) {
	first := true
	for i := range of.Units {
		unit := &of.Units[i]
		steps := unit.Steps
		if len(steps) == 0 && unit.Endpoint == nil {
			continue
		}
		if !first {
			p.Blank()
		}
		first = false
		p.Linef("%s", p.Paint(output.Strong, unit.Name()))
		for j := range steps {
			showStep(p, &steps[j], "")
		}
		if unit.Endpoint != nil {
			showStep(p, unit.Endpoint, ", only with --fix-cluster-endpoints")
		}
	}
	if first {
		p.Linef("Plan %s writes nothing.", p.Paint(output.Strong, of.ID))
	}
}

func showStep(p *output.Printer, step *plan.Step, condition string) {
	const indent = "    "
	target := step.Object.String()
	if step.Subresource != "" {
		target += " (" + step.Subresource + ")"
	}
	p.Item("  "+target+":", "  "+p.Paint(output.Plain, target+":"), indent, output.Faint, step.Why+condition)
	if step.Create != nil {
		p.Change(indent, "new object", output.Value{}, output.ValueOf(step.Create))
	}
	for i := range step.Fields {
		field := &step.Fields[i]
		path := output.FieldPath(field.Path)
		if field.Element {
			path += "[]"
		}
		p.Change(indent, path, output.JSONValue(field.Before), output.JSONValue(field.After))
	}
}

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
