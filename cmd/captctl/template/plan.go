// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// markdown is for a comment on a pull request.
const markdown output.Format = "markdown"

const (
	// mostResources is how many resources of a plan are listed without -o wide, and in a cell.
	mostResources = 10
	// allResources are all that status has.
	allResources = 50
)

type planOptions struct{ cli.Options }

func newPlan(environment *cli.Environment) *cobra.Command {
	o := &planOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "plan [NAMESPACE/]NAME",
		Short: "Show what Terraform would change for the users of a WorkspaceTemplate",
		Long: `Shows the plan of the current revision for each WorkspaceTemplateApply that does not have it yet,
and the plan of each change of one object that waits: the number of resources that Terraform would
create (+), update (~), replace (-/+) and delete (-), and the resources. Plans that replace or
delete resources, or may do so because their changes are not known (?), are first. Users with equal
plans are listed together.

CAPT makes the plans: spec.rollout.preview of the template must be Always. They have no values of
attributes, variables or outputs.

-o wide lists up to 50 resources of each plan; -o markdown prints a comment for a pull request.`,
		Example: `  captctl template plan team-a/vpc

  # In a pipeline: does anything get replaced or deleted?
  captctl template plan team-a/vpc -o json | jq -e '.destroys'`,
	}
	o.Takes(command, "NAME", environment.Access.CompleteTemplates())
	o.AddOutput(command, markdown)
	return cli.NewConnected(command, o)
}

func (o *planOptions) Run(ctx context.Context, connected client.WithWatch) error {
	t, err := read(ctx, &o.Options, connected)
	if err != nil {
		return err
	}
	if !t.Policy.IsPreviewed() {
		o.Warn("spec.rollout.preview of %s is not Always: nothing is planned before it is applied", t)
	}
	plan := newPlanOf(t, plansOf(t), o.Clock.Now())
	plan.TypeMeta = cli.TypeMeta("TemplatePlan")
	return o.Printer().Document(plan, func(p *output.Printer) {
		if p.Format == markdown {
			plan.showMarkdown(p)
			return
		}
		plan.show(p)
	})
}

// Plan is what Terraform would change for the users of a template.
type Plan struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	Revision        string `json:"revision"`         // Revision is the hash of the current content.
	Number          int64  `json:"number,omitempty"` // Number of the revision; absent without a staged rollout.
	// Destroys is true if a resource of any user would be replaced or deleted, or may be, because the changes are not known.
	Destroys bool                   `json:"destroys"`
	Counts   []infrav1.PlannedCount `json:"counts,omitempty"` // Counts are the resources of all users by action.
	// Users are those with a plan: first those with resources that would be replaced or deleted, then by namespace and name.
	Users     []overview.Plan `json:"users"`
	Unplanned []string        `json:"unplanned,omitempty"` // Unplanned are NAMESPACE/NAME of users that wait, and have no plan yet.
}

func newPlanOf(t *rollout.Template, plans []overview.Plan, now time.Time) *Plan {
	status := t.StatusOf(now)
	plan := &Plan{Namespace: t.Namespace, Name: t.Name, Revision: status.Revision, Number: status.Number, Users: plans}
	planned := map[string]bool{}
	for i := range plan.Users {
		planned[nameOf(&plan.Users[i])] = true
		plan.Destroys = plan.Destroys || plan.Users[i].Destroys
	}
	for i := range status.Users {
		u := &status.Users[i]
		if name := u.Namespace + "/" + u.Name; t.Policy.IsPreviewed() && u.State == rollout.UserWaiting && !planned[name] {
			plan.Unplanned = append(plan.Unplanned, name)
		}
	}
	plan.count()
	return plan
}

// plansOf returns the plans of the current revision, or of a change of its own, for the users that wait for it.
func plansOf(t *rollout.Template) []overview.Plan {
	plans := []overview.Plan{}
	for i := range t.Users {
		plan := overview.PlanOf(t.Applies[t.Users[i].Key])
		if plan != nil && (plan.Change != "" || plan.Preview.TemplateRevision == t.Target().Hash) {
			plans = append(plans, *plan)
		}
	}
	slices.SortStableFunc(plans, func(a, b overview.Plan) int {
		return cmp.Compare(map[bool]int{true: -1}[a.Destroys], map[bool]int{true: -1}[b.Destroys])
	})
	return plans
}

func nameOf(plan *overview.Plan) string { return plan.Namespace + "/" + plan.Name }

func (p *Plan) count() {
	for i := range p.Users {
		if p.Users[i].Preview.Changes == nil {
			continue
		}
		for _, of := range p.Users[i].Preview.Changes.Counts {
			at := slices.IndexFunc(p.Counts, func(known infrav1.PlannedCount) bool { return known.Action == of.Action })
			if at < 0 {
				p.Counts = append(p.Counts, of)
				continue
			}
			p.Counts[at].Count += of.Count
		}
	}
}

// total has the resources of all users by action, and for how many users nothing changes, or the plan is missing.
func (p *Plan) total() string {
	counts := map[string]int{}
	for i := range p.Users {
		by := string(p.Users[i].Preview.Result)
		if p.Users[i].Summary == overview.UnknownPlan {
			by = overview.UnknownPlan
		}
		counts[by]++
	}
	var parts []string
	for _, of := range []struct {
		text string
		n    int
	}{
		{cmp.Or(overview.CountsText(&infrav1.PlannedChanges{Counts: p.Counts}), "changes"), counts[string(infrav1.PreviewChanges)]}, {"not known", counts[overview.UnknownPlan]}, {"no changes", counts[string(infrav1.PreviewEmpty)]},
		{"the plan fails", counts[string(infrav1.PreviewFailed)]}, {"the plan is unavailable", counts[string(infrav1.PreviewUnavailable)]}, {"no plan yet", len(p.Unplanned)},
	} {
		if of.n > 0 {
			parts = append(parts, of.text+" for "+output.Count(of.n, "user"))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing waits for a plan")
}

func (p *Plan) title() string {
	if p.Number == 0 {
		return "revision " + terraform.ShortRevision(p.Revision)
	}
	return name(&rollout.Revision{Number: p.Number, Hash: p.Revision})
}

func (p *Plan) show(to *output.Printer) {
	to.Fields([][2]string{
		{"Template:", to.Paint(output.Strong, p.Namespace+"/"+p.Name)}, {"Revision:", to.Paint(output.Plain, strings.TrimPrefix(p.title(), "revision "))}, {"Plans:", p.total()},
	})
	rows := output.Rows{}
	for i := range p.Users {
		rows = append(rows, p.row(i))
	}
	to.Section([]output.Column{{Name: "Namespace"}, {Name: "Name"}, {Name: "Cluster"}, {Name: "Content"}, {Name: "Plan", Style: planStyle}}, rows)
	most := mostResources
	if to.Wide() {
		most = allResources
	}
	showPlans(to, p.Users, func(plan *overview.Plan) []string { return plan.Lines(most) })
}

func (p *Plan) row(i int) []string {
	u := &p.Users[i]
	return []string{u.Namespace, u.Name, u.Cluster, u.Content(), u.Summary}
}

// planStyle is the style of the short form of a plan.
func planStyle(summary string) output.Style {
	switch {
	case summary == "-": // The cell is empty.
		return output.Plain
	case strings.Contains(summary, "-"):
		return output.Bad
	case summary == overview.UnknownPlan, summary == "failed", summary == "unavailable":
		return output.Attention
	}
	return output.Plain
}

// showPlans lists resources, once for all users with equal plans.
func showPlans(to *output.Printer, plans []overview.Plan, lines func(*overview.Plan) []string) {
	for _, g := range equalPlans(plans) {
		if listed := lines(g.plan); len(listed) > 0 {
			to.Blank()
			to.Text("", planStyle(g.plan.Summary), g.title())
			for _, line := range listed {
				to.Text("  ", output.Plain, line)
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
		key := strings.Join(append(plans[i].Lines(allResources), plans[i].Summary), "\n")
		if known[key] == nil {
			known[key] = &equal{plan: &plans[i]}
			groups = append(groups, known[key])
		}
		known[key].users = append(known[key].users, nameOf(&plans[i]))
	}
	return groups
}

// showMarkdown prints a table of users, and a list for each plan that can be opened. Texts of modules are in code blocks only.
func (p *Plan) showMarkdown(to *output.Printer) {
	line := func(text string) { to.Linef("%s", to.Paint(output.Plain, text)) }
	line(fmt.Sprintf("### Terraform plan of %s/%s, %s", p.Namespace, p.Name, p.title()))
	line("")
	line(p.total())
	if len(p.Users) > 0 {
		line("\n| User | Cluster | Content | Plan |\n|---|---|---|---|")
	}
	for i := range p.Users {
		row := p.row(i)
		line(fmt.Sprintf("| %s/%s | %s | %s | `%s` |", row[0], row[1], row[2], row[3], row[4]))
	}
	for _, g := range equalPlans(p.Users) {
		if listed := g.plan.Lines(allResources); len(listed) > 0 {
			line("\n<details><summary>" + g.title() + "</summary>\n\n```diff\n" + strings.Join(listed, "\n") + "\n```\n\n</details>")
		}
	}
}
