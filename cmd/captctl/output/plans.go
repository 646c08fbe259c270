// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/rollout"
)

// Markdown is for a comment on a pull request.
const Markdown Format = "markdown"

const (
	// MostResources is how many resources of a plan are listed without -o wide, and in a cell.
	MostResources = 10
	// AllResources are all that status has.
	AllResources = 50
)

// Plans are what Terraform would change for WorkspaceTemplateApplies.
type Plans struct {
	All []overview.Plan
	// Noun is what the total counts, and Pending how many have no plan yet.
	Noun    string
	Pending int
}

// NameOfPlan is NAMESPACE/NAME of the object of a plan.
func NameOfPlan(plan *overview.Plan) string { return plan.Namespace + "/" + plan.Name }

// SortPlans puts those first that would replace or delete resources.
func SortPlans(plans []overview.Plan) {
	slices.SortStableFunc(plans, func(a, b overview.Plan) int {
		return cmp.Compare(map[bool]int{true: -1}[a.Destroys], map[bool]int{true: -1}[b.Destroys])
	})
}

// Destroy reports whether any plan would replace or delete resources, or may do so.
func (p Plans) Destroy() bool {
	return slices.ContainsFunc(p.All, func(plan overview.Plan) bool { return plan.Destroys })
}

// Counts are the resources of all plans by action.
func (p Plans) Counts() (counts []infrav1.PlannedCount) {
	for i := range p.All {
		if p.All[i].Preview.Changes == nil {
			continue
		}
		for _, of := range p.All[i].Preview.Changes.Counts {
			at := slices.IndexFunc(counts, func(known infrav1.PlannedCount) bool { return known.Action == of.Action })
			if at < 0 {
				counts = append(counts, of)
				continue
			}
			counts[at].Count += of.Count
		}
	}
	return counts
}

// Total has the resources of all plans by action, and for how many objects nothing changes, or the plan is missing; empty without plans.
func (p Plans) Total() string {
	counts := map[string]int{}
	for i := range p.All {
		by := string(p.All[i].Preview.Result)
		if p.All[i].Summary == overview.UnknownPlan {
			by = overview.UnknownPlan
		}
		counts[by]++
	}
	var parts []string
	resources := cmp.Or(overview.CountsText(&infrav1.PlannedChanges{Counts: p.Counts()}), "changes")
	if counts[string(infrav1.PreviewChanges)] > 1 && resources != "changes" {
		resources += " in total"
	}
	for _, of := range []struct {
		text string
		n    int
	}{
		{resources, counts[string(infrav1.PreviewChanges)]}, {"not known", counts[overview.UnknownPlan]}, {"no changes", counts[string(infrav1.PreviewEmpty)]},
		{"the plan fails", counts[string(infrav1.PreviewFailed)]}, {"the plan is unavailable", counts[string(infrav1.PreviewUnavailable)]}, {"no plan yet", p.Pending},
	} {
		if of.n > 0 {
			parts = append(parts, of.text+" for "+Count(of.n, p.Noun))
		}
	}
	return strings.Join(parts, ", ")
}

// Show prints a table, and the resources of each plan.
func (p Plans) Show(to *Printer) {
	rows := Rows{}
	for i := range p.All {
		rows = append(rows, planRow(&p.All[i]))
	}
	to.Section([]Column{{Name: "Namespace"}, {Name: "Name"}, {Name: "Cluster"}, {Name: "Content"}, {Name: "Plan", Style: PlanStyle}}, rows)
	most := MostResources
	if to.Wide() {
		most = AllResources
	}
	ShowPlans(to, p.All, func(plan *overview.Plan) []string { return plan.Lines(most) })
}

func planRow(plan *overview.Plan) []string {
	return []string{plan.Namespace, plan.Name, plan.Cluster, plan.Content(), plan.Summary}
}

// PlanStyle is the style of the short form of a plan.
func PlanStyle(summary string) Style {
	switch {
	case summary == "-": // The cell is empty.
		return Plain
	case strings.Contains(summary, "-"):
		return Bad
	case summary == overview.UnknownPlan, summary == "failed", summary == "unavailable":
		return Attention
	}
	return Plain
}

// ShowPlans lists resources, once for all users with equal plans.
func ShowPlans(to *Printer, plans []overview.Plan, lines func(*overview.Plan) []string) {
	for _, g := range equalPlans(plans) {
		if listed := lines(g.plan); len(listed) > 0 {
			to.Blank()
			to.Text("", PlanStyle(g.plan.Summary), g.title())
			for _, line := range listed {
				to.Text("  ", Plain, line)
			}
		}
	}
}

// equal are the users with one plan.
type equal struct {
	plan  *overview.Plan
	users []string
}

func (e *equal) title() string { return rollout.Names(e.users) + ": " + e.plan.Summary }

func equalPlans(plans []overview.Plan) (groups []*equal) {
	known := map[string]*equal{}
	for i := range plans {
		key := strings.Join(append(plans[i].Lines(AllResources), plans[i].Summary), "\n")
		if known[key] == nil {
			known[key] = &equal{plan: &plans[i]}
			groups = append(groups, known[key])
		}
		known[key].users = append(known[key].users, NameOfPlan(&plans[i]))
	}
	return groups
}

// Markdown prints a table, and a list for each plan that can be opened. Texts of modules are in code blocks only.
func (p Plans) Markdown(to *Printer, title, total string) {
	line := func(text string) { to.Linef("%s", to.Paint(Plain, text)) }
	line(title)
	line("")
	line(total)
	if len(p.All) > 0 {
		line("\n| User | Cluster | Content | Plan |\n|---|---|---|---|")
	}
	for i := range p.All {
		row := planRow(&p.All[i])
		line(fmt.Sprintf("| %s/%s | %s | %s | `%s` |", row[0], row[1], row[2], row[3], row[4]))
	}
	for _, g := range equalPlans(p.All) {
		if listed := g.plan.Lines(AllResources); len(listed) > 0 {
			line("\n<details><summary>" + g.title() + "</summary>\n\n```diff\n" + strings.Join(listed, "\n") + "\n```\n\n</details>")
		}
	}
}
