// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"fmt"
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
	o.AddOutput(command, output.Markdown)
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
		if p.Format == output.Markdown {
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
	// Destroys is true if a resource of any user would be replaced or deleted, also of one that you may not read, or may be, because the changes are not known.
	Destroys bool                   `json:"destroys"`
	Counts   []infrav1.PlannedCount `json:"counts,omitempty"` // Counts are the resources of all users by action.
	// Users are those with a plan: first those with resources that would be replaced or deleted, then by namespace and name.
	Users     []overview.Plan `json:"users"`
	Unplanned []string        `json:"unplanned,omitempty"` // Unplanned are NAMESPACE/NAME of users that wait, and have no plan yet.

	hidden int // hidden is how many plans that replace or delete resources you may not read.
}

func newPlanOf(t *rollout.Template, plans []overview.Plan, now time.Time) *Plan {
	status := t.StatusOf(now)
	plan := &Plan{Namespace: t.Namespace, Name: t.Name, Revision: status.Revision, Number: status.Number, Users: plans, hidden: hiddenDestroys(t)}
	planned := map[string]bool{}
	for i := range plan.Users {
		planned[output.NameOfPlan(&plan.Users[i])] = true
	}
	for i := range status.Users {
		u := &status.Users[i]
		if name := u.Namespace + "/" + u.Name; t.Policy.IsPreviewed() && u.State == rollout.UserWaiting && !planned[name] {
			plan.Unplanned = append(plan.Unplanned, name)
		}
	}
	plan.Counts, plan.Destroys = plan.plans().Counts(), plan.plans().Destroy() || plan.hidden > 0
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
	output.SortPlans(plans)
	return plans
}

func (p *Plan) plans() output.Plans {
	return output.Plans{All: p.Users, Noun: "user", Pending: len(p.Unplanned)}
}

func (p *Plan) total() string {
	total := cmp.Or(p.plans().Total(), "nothing waits for a plan")
	if p.hidden > 0 {
		total += ", replace or delete for " + output.Count(p.hidden, "user") + " that you may not read"
	}
	return total
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
	p.plans().Show(to)
}

// showMarkdown prints a comment for a pull request.
func (p *Plan) showMarkdown(to *output.Printer) {
	p.plans().Markdown(to, fmt.Sprintf("### Terraform plan of %s/%s, %s", p.Namespace, p.Name, p.title()), p.total())
}
