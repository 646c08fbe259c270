// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capt-provider/capt/api/overview"
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

// showPlan shows a plan: its units, the decisions that it was made with, and its findings. The fleet is nil if no management cluster was read.
func showPlan(p *output.Printer, of *plan.Plan, fleet *status.Fleet) {
	showPlanSummary(p, of, nil, fleet, nil)
	showDecisions(p, of)
	showFindings(p, of)
}

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

// showPlanSummary shows what a run writes: some units of a plan, as they are now.
func showPlanSummary(p *output.Printer, of *plan.Plan, units []*plan.Unit, fleet *status.Fleet, writes map[string]int) {
	p.Item("Plan "+of.ID, "Plan "+p.Paint(output.Strong, of.ID), "  ", output.Plain,
		fmt.Sprintf("of %s, management cluster %s, %s", output.Moment(of.Created.Time), of.ClusterUID, namespaces(of.Namespace)))
	p.Blank()
	showUnits(p, of, rowsOf(of, units, fleet, writes))
}

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

func skippedMembers(unit *plan.Unit) (skipped []migrate.ObjectRef) {
	for i := range unit.Members {
		if member := &unit.Members[i]; member.State == migrate.OwnerSkipped {
			skipped = append(skipped, member.Object)
		}
	}
	return skipped
}

func countUnits(of *plan.Plan, holds func(*plan.Unit) bool) (n int) {
	for i := range of.Units {
		if holds(&of.Units[i]) {
			n++
		}
	}
	return n
}

func inState(of *plan.Plan, states ...plan.UnitState) int {
	return countUnits(of, func(unit *plan.Unit) bool { return slices.Contains(states, unit.State) })
}

func hasWrites(of *plan.Plan) bool {
	return countUnits(of, func(unit *plan.Unit) bool { return len(unit.Steps) > 0 }) > 0
}

// repairsOf counts the Clusters whose endpoints are repaired if the user asks for it.
func repairsOf(of *plan.Plan) int {
	return countUnits(of, func(unit *plan.Unit) bool { return unit.Endpoint != nil })
}

// showNotUpToDate shows which Workspaces of some units are not up to date. Terraform may run for them at any time, and their adoption is not a test for the
// others.
func showNotUpToDate(p *output.Printer, fleet *status.Fleet, units []*plan.Unit) {
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

func showRollbackSummary(p *output.Printer, of *plan.Plan, units []*plan.Unit, writes map[string]int) {
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

// afterPlan says what to do with a new plan. Again is the command that makes it; installed is false while this version is not.
func afterPlan(p *output.Printer, fleet *status.Fleet, file, again string, installed bool) {
	p.Blank()
	switch {
	case !hasWrites(fleet.Plan) && repairsOf(fleet.Plan) == 0:
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
		p.Commands("  ", applyCommands(fleet, file))
	}
	p.Commands("", resumeCommands(fleet.Statuses))
}

// applyCommands apply a plan: to one Cluster first, then to the rest.
func applyCommands(fleet *status.Fleet, file string) []string {
	all, flag, first, clusters := "captctl migrate apply "+file, "", fleet.FirstCluster(), 0
	for i := range fleet.Units {
		if unit := &fleet.Units[i]; unit.State == plan.Adoptable && unit.Object.Kind == "Cluster" {
			clusters++
		}
	}
	if repairsOf(fleet.Plan) > 0 {
		flag = "  # add " + fixFlag + " to repair endpoints, see InvalidClusterEndpoint"
	}
	switch {
	case !hasWrites(fleet.Plan) && flag != "":
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

func showDiff(p *output.Printer, of *plan.Plan) {
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
		case slices.Contains([]string{"CAPTCluster", "CAPTControlPlane", "WorkspaceTemplateApply"}, finding.Object.Kind): // For others, the message says what to do.
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

// needsDecisionsAgain reports whether the decisions that a plan was made with are needed for the next one too.
func needsDecisionsAgain(of *plan.Plan) bool {
	owners, workspaces := withDecided(of, nil, nil)
	return len(owners)+len(workspaces) > 0 && inState(of, plan.Adoptable) > 0
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
		p.Commands("  ", e.decided)
		for _, choice := range e.choices {
			p.Linef("%s", p.Paint(output.Plain, fmt.Sprintf("%s%-*s  # %s", lead, width-len(lead), choice.line, choice.meaning)))
		}
	}
}

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
	Next []overview.Next `json:"next"`

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

// newCheckDocument puts checks and a fleet together. The fleet is nil if it could not be read.
func newCheckDocument(report *check.Report, fleet *status.Fleet, next []overview.Next) *Check {
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

// showCheck shows a check: units, findings, what is not OK, and the next steps.
func showCheck(p *output.Printer, c *Check) {
	if c.fleet != nil {
		showUnits(p, c.fleet.Plan, rowsOf(c.fleet.Plan, nil, c.fleet, nil))
		showFindings(p, c.fleet.Plan)
		if len(c.fleet.Undecided()) == 0 && needsDecisionsAgain(c.fleet.Plan) {
			printDecisions(p, c.fleet.Plan, "Decisions of the plans that were applied", "save them", nil, nil)
		}
		p.Blank()
	}
	showChecks(p, c.Checks)
	p.Blank()
	p.Linef("%s", p.Paint(output.Strong, "Next steps:"))
	for i, next := range c.Next {
		p.Title(fmt.Sprintf("%d.", i+1), output.Plain, next.Step)
		p.Commands("     ", next.Commands)
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

// showFindings shows each finding of a plan that needs a decision, with everything that is needed to decide, the others by reason, and the decisions
// to make.
func showFindings(p *output.Printer, of *plan.Plan) {
	for _, severity := range order {
		if severity == migrate.Warning || severity == migrate.Skipped {
			showByReason(p, severity, of.Findings)
			continue
		}
		for _, equal := range withEqualDifferences(severity, of.Findings) {
			p.Blank()
			showFinding(p, equal)
		}
	}
	if owners, workspaces := openDecisions(of.Findings); len(owners)+len(workspaces) > 0 {
		printDecisions(p, of, "Decisions", "uncomment one line of each entry, save it", owners, workspaces)
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
		for _, one := range equal {
			lines = append(lines, names(one.Objects())+": "+one.Message)
		}
	}
	printLines(p, "  ", lines)
	if len(finding.Candidates) > 0 {
		p.Linef("  Candidates:")
	}
	for _, candidate := range finding.Candidates {
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

// undecidedText is one line about the findings of a plan that need a decision. If the plan is saved, the rest of it can be applied.
func undecidedText(of *plan.Plan, saved bool) string {
	text := output.Count(len(of.Undecided()), "conflict") + " to decide"
	if rest := inState(of, plan.Adoptable); saved && rest > 0 {
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

// wouldApply and wouldRollBack are the outcomes of a dry run, in tables.
const wouldApply, wouldRollBack apply.UnitOutcome = "would apply", "would roll back"

// outcome returns the text for the outcome of a unit; for a dry run, what would be done.
func outcome(unit *apply.UnitResult, dryRun bool) string {
	would := map[apply.UnitOutcome]apply.UnitOutcome{apply.Applied: wouldApply, apply.RolledBack: wouldRollBack}
	if dryRun {
		return string(cmp.Or(would[unit.Outcome], unit.Outcome))
	}
	return string(unit.Outcome)
}

func showResult(p *output.Printer, result *apply.Result) {
	p.Blank()
	if result.DryRun {
		p.Linef("Dry run: the API server validated each write, and persisted none.")
	}
	rows := output.Rows{}
	for i := range result.Units {
		unit := &result.Units[i]
		rows = append(rows, []string{unit.Unit, outcome(unit, result.DryRun), strconv.Itoa(unit.Writes), output.OneLine(unit.Message)})
	}
	p.Table([]output.Column{{Name: "Unit"}, {Name: "Outcome", Style: style}, {Name: "Writes"}, {Name: "Message", Prose: 4}}, rows)
	if result.Backup != nil && !result.DryRun {
		p.Blank()
		p.Linef("The backup is %s on host %s, SHA-256 %s.", p.Paint(output.Plain, result.Backup.File), p.Paint(output.Plain, result.Backup.Host), result.Backup.Checksum)
	}
}

// leftOut is one line about the units that a run of apply left out because they need a decision; empty if nothing else is to be reported.
func leftOut(result *apply.Result) string {
	n := 0
	for _, unit := range result.Units {
		switch {
		case unfinished(unit.Outcome), unit.Outcome == apply.NotProven:
			return ""
		case unit.Outcome == apply.LeftOut && (unit.State == plan.NeedsDecision || unit.State == plan.Blocked):
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return output.Count(n, "unit") + " left out until you decide: captctl migrate check"
}

// unfinished reports whether a run did not finish a unit.
func unfinished(outcome apply.UnitOutcome) bool {
	return outcome == apply.Failed || outcome == apply.Interrupted || outcome == apply.NotStarted
}

// unfinishedUnits are the units that a run did not finish.
type unfinishedUnits struct {
	begun     string   // begun are the flags that name the units of which some fields may be written.
	unproven  string   // unproven are the flags that name the units that were not adopted for want of a proof.
	unwritten []string // unwritten are the names of the units that failed before their first write.
	failed    bool     // A unit failed.
	wrote     bool     // The run wrote something.

	unfinished bool // A unit failed, was interrupted or was not started.
}

func unfinishedOf(result *apply.Result) (found unfinishedUnits) {
	for _, unit := range result.Units {
		found.wrote, found.failed = found.wrote || unit.Writes > 0 || unit.Outcome == apply.Applied, found.failed || unit.Outcome == apply.Failed
		found.unfinished = found.unfinished || unfinished(unit.Outcome)
		switch {
		case unit.Outcome == apply.NotProven:
			found.unproven += selection(unit.Unit)
		case !unfinished(unit.Outcome) || unit.Outcome == apply.NotStarted:
		case unit.Begun || unit.Writes > 0:
			found.begun += selection(unit.Unit)
		case unit.Outcome == apply.Failed:
			found.unwritten = append(found.unwritten, unit.Unit)
		}
	}
	return found
}

// afterApply says what to do after a run of apply. The plan is named as the user did, with --prove if that was given; selected are the flags that named
// units, and rest is true if units of the plan that were not named are left to adopt.
func afterApply(p *output.Printer, result *apply.Result, name, selected string, rest bool) {
	found := unfinishedOf(result)
	if result.DryRun || !found.wrote && found.begun == "" && len(found.unwritten) == 0 {
		return
	}
	p.Blank()
	p.Linef("Next steps:")
	again := p.Paint(output.Plain, "captctl migrate apply "+name)
	if found.unproven != "" {
		p.Linef("  %s%s  # after the cause is removed", again, p.Paint(output.Plain, found.unproven))
		p.Linef("  captctl migrate apply %s%s  # or adopt them without a proof", result.PlanID, p.Paint(output.Plain, found.unproven))
	}
	if rest && !found.unfinished {
		p.Linef("  %s  # the rest", again)
	}
	p.Linef("  captctl migrate status")
	if !found.unfinished {
		p.Linef("To revert everything that this plan wrote, at any time:")
		p.Linef("  captctl migrate rollback %s", result.PlanID)
		return
	}
	resume := "resume, after the cause is fixed"
	if !found.failed {
		resume = "resume"
	}
	p.Linef("  %s%s  # %s", again, p.Paint(output.Plain, selected), resume)
	if found.begun != "" {
		p.Linef("  captctl migrate rollback %s%s  # or revert", result.PlanID, p.Paint(output.Plain, found.begun))
	}
	if len(found.unwritten) > 0 {
		p.Linef("Nothing was written for %s. If something changed since the plan was created, revert that change and run the same command again, or create a new plan.",
			p.Paint(output.Plain, strings.Join(found.unwritten, ", ")))
	}
}

// afterRollback says what to do after a rollback that did not fail. The selected units are named; without any, the plan was rolled back as a
// whole. Others are the IDs of other plans whose fields are still there, by unit.
func afterRollback(p *output.Printer, result *apply.Result, selected bool, others map[string]string) {
	flags, failed := "", false
	for _, unit := range result.Units {
		failed = failed || unfinished(unit.Outcome)
		if id := others[unit.Unit]; id != "" && !result.DryRun {
			p.Blank()
			p.Linef("Plan %s wrote %s too, and its fields are still there. To revert them as well:", id, p.Paint(output.Plain, unit.Unit))
			p.Linef("  captctl migrate rollback %s%s", id, p.Paint(output.Plain, selection(unit.Unit)))
		} else if unit.Outcome == apply.RolledBack {
			flags += selection(unit.Unit)
		}
	}
	if result.DryRun || failed || flags == "" {
		return
	}
	if !selected && len(others) == 0 {
		flags = ""
	}
	p.Blank()
	p.Linef("Units that are rolled back await adoption again. To adopt them:")
	p.Linef("  captctl migrate apply %s%s", result.PlanID, p.Paint(output.Plain, flags))
}

// selection is the flag that names a unit.
func selection(unit string) string {
	if strings.Count(unit, "/") == 1 {
		return " --cluster " + unit
	}
	return " --unit " + unit
}

// showStatus shows the state of every unit.
func showStatus(p *output.Printer, s *status.Status, now time.Time) {
	rows := output.Rows{}
	for _, unit := range s.Units {
		rows = append(rows, statusRow(unit))
	}
	p.Table([]output.Column{
		{Name: "Unit"}, {Name: "State", Style: style}, {Name: "Phase", Optional: true}, {Name: "Plan", Optional: true}, {Name: "Would-Change"}, {Name: "Paused"}, {Name: "Message", Prose: 4},
	}, rows)
	if len(s.Plans) > 0 {
		plans(p, s.Plans, now)
	}
	p.Blank()
	if s.Lock != nil {
		p.Linef("A run is in progress: %s since %s, Lease until %s.", p.Paint(output.Strong, s.Lock.Identity), output.Moment(s.Lock.Since.Time), output.Moment(s.Lock.Until.Time))
	}
	for _, one := range s.Checks {
		switch {
		case one.Name == check.CheckStored:
			p.Text("", output.Plain, "Stored versions: "+one.Message+".")
		case one.Status != check.OK:
			p.Text("", output.Bad, output.OneLine(one.Message)+".")
			printLines(p, "  ", one.Objects)
			p.Commands("  ", one.Commands)
		}
	}
	switch undecided, left := countLeft(s); {
	case undecided+left > 0:
		p.Linef("%s left to do: captctl migrate check shows the findings and the next steps.", output.Count(undecided+left, "unit"))
	case len(s.Units) > 0 && s.Lock == nil:
		p.Linef("Nothing is left to adopt. Convert the manifests in Git next: captctl convert -f manifests/ -R --from-cluster --write")
	}
	p.Commands("", resumeCommands(s.Units))
}

func statusRow(unit status.UnitStatus) []string {
	change, phase := "", string(unit.Phase)
	switch {
	case unit.PendingChange != "":
		change = "yes"
	case unit.State == plan.Adopted || unit.State == plan.PartlyAdopted:
		change = "no"
	case unit.State == plan.Interrupted:
		phase = ""
	}
	paused := map[bool]string{true: "yes"}[unit.Paused]
	return []string{unit.Unit, string(unit.State), phase, unit.PlanID, change, paused, output.OneLine(cmp.Or(runMessage(unit), unit.PendingChange, unit.Message))}
}

// runMessage reports whether a run works on a unit, was interrupted or reverted it, and what a decision skips; empty if none applies.
func runMessage(unit status.UnitStatus) string {
	switch unit.State {
	case plan.InProgress:
		return "a run of plan " + unit.PlanID + " is in progress for this unit"
	case plan.Interrupted:
		text := "a run of plan " + unit.PlanID + " was interrupted while it wrote this unit"
		if unit.Phase == apply.PhaseRollingBack {
			text = "a rollback of plan " + unit.PlanID + " was interrupted while it reverted this unit"
		}
		if unit.Paused {
			text += ", and its objects are paused"
		}
		if unit.Message != "" {
			text += ": " + unit.Message
		}
		return text
	case plan.PartlyAdopted:
		return names(unit.Skipped) + " skipped; awaits adoption"
	case plan.Adoptable:
		if unit.Phase == apply.PhaseRolledBack {
			return unit.Message // Of a proof that failed, or of a rollback.
		}
	case plan.Adopted, plan.NeedsDecision, plan.Blocked, plan.Skipped, plan.NeverBuilt:
	}
	return ""
}

// resumeCommands returns the commands that complete interrupted runs, and those that revert them, for each plan.
func resumeCommands(units []status.UnitStatus) (commands []string) {
	type run struct {
		plan  string
		phase apply.Phase
	}
	var runs []run
	flags := map[run]string{}
	for _, unit := range units {
		of := run{unit.PlanID, unit.Phase}
		if unit.State != plan.Interrupted {
			continue
		}
		if flags[of] == "" {
			runs = append(runs, of)
		}
		flags[of] += selection(unit.Unit)
	}
	for _, of := range runs {
		rollback := "captctl migrate rollback " + of.plan + flags[of]
		if of.phase == apply.PhaseRollingBack {
			commands = append(commands, rollback+"  # resume")
			continue
		}
		commands = append(commands, "captctl migrate apply "+of.plan+flags[of]+"  # resume", rollback+"  # or revert")
	}
	return commands
}

func plans(p *output.Printer, applied []status.AppliedPlan, now time.Time) {
	rows := output.Rows{}
	for _, one := range applied {
		row := []string{one.ID, output.Ago(now, one.Started.Time), output.Ago(now, one.Updated.Time)}
		for _, phase := range []apply.Phase{apply.PhaseApplied, apply.PhaseApplying, apply.PhaseRollingBack, apply.PhaseRolledBack} {
			row = append(row, strconv.Itoa(one.Units[phase]))
		}
		backup := ""
		if one.Backup != nil {
			backup = one.Backup.Host + ":" + one.Backup.File
		}
		rows = append(rows, append(row, one.Run, backup))
	}
	p.Blank()
	p.Table([]output.Column{
		{Name: "Plan"}, {Name: "Started", Optional: true}, {Name: "Updated", Optional: true}, {Name: "Applied"}, {Name: "Applying"}, {Name: "Rolling-Back"}, {Name: "Rolled-Back"},
		{Name: "Last-Run", Wide: true}, {Name: "Backup", Wide: true},
	}, rows)
}

// leftToDo counts the units that need a decision, and those with something else left to do.
func countLeft(s *status.Status) (undecided, left int) {
	for _, unit := range s.Units {
		switch {
		case unit.State == plan.NeedsDecision || unit.State == plan.Blocked:
			undecided++
		case unit.State == plan.Adoptable, unit.State == plan.Interrupted, unit.State == plan.InProgress, len(unit.Skipped) > 0, unit.PendingChange != "":
			left++
		}
	}
	return undecided, left
}
