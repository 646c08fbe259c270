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

package look

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/planner"
)

// defaultLifetime lets a plan be made one day and carried out in the maintenance window of the next.
const defaultLifetime = 48 * time.Hour

// PlanOptions are the options of plan.
type PlanOptions struct {
	*cli.Environment
	fleet
	output         *output.Flag
	out, decisions string
	scope          string
	lifetime       time.Duration

	options planner.Options
}

// NewPlan is the command plan.
func NewPlan(environment *cli.Environment) *cobra.Command {
	o := &PlanOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "plan",
		Short: "Plan what to write, and write the plan into a file",
		Long: `Reads the fleet, decides what has to be written so that this CAPT takes over without a Terraform
run, and writes that as a plan into a file. captctl migrate show prints it, captctl migrate apply
carries it out.

Before anything is planned for an owner, its Workspace is rendered as this CAPT would write it. If
that is not exactly what is in the live Workspace, the owner is Blocked, and every difference is
shown. What may belong to several, or is claimed by several, is Ambiguous: it is listed with the
evidence, and a person decides in a file by UID:

  apiVersion: migrate.capt.cluster.x-k8s.io/v1
  kind: Decisions
  owners:
  - uid: 5f0d...        # the CAPTControlPlane
    take: 81ab...       # the WorkspaceTemplateApply that is its own
    reason: asked the team
  - uid: 77c1...
    skip: true          # leave it: this CAPT will say AdoptionRequired, and write nothing

A plan holds for one management cluster, for a limited time, and as long as the specs that it is
about do not change. Nothing is written into the cluster.

Exit codes: 0 there is nothing to do; 2 the plan has something to write; 3 a person has to decide
first, or a cause has to be removed; 1 error; 6 a right is missing.`,
		Example: `  # Plan everything: adoption, and the rewriting of stored objects
  captctl migrate plan --out plan.json

  # The same with decisions about what was ambiguous
  captctl migrate plan --out plan.json --decisions decisions.yaml

  # Adoption only, one namespace only
  captctl migrate plan --out team-a.json --scope adopt -n team-a

  # Is there anything to do? For scripts: exit code 0 means no
  captctl migrate plan -o json > /dev/null`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.add(command)
	flags := command.Flags()
	flags.StringVar(&o.out, "out", "", "File for the plan. Without it the plan is only shown.")
	flags.StringVar(&o.decisions, "decisions", "", `File with decisions, in YAML or JSON; "-" is standard input.`)
	flags.StringVar(&o.scope, "scope", string(migrate.ScopeAll), "What to plan: adopt, storage, or all.")
	flags.DurationVar(&o.lifetime, "lifetime", defaultLifetime, "How long the plan may be carried out.")
	cli.CompleteFlag(command, "out", cli.Files("json"))
	cli.CompleteFlag(command, "decisions", cli.Files("yaml", "yml", "json"))
	cli.CompleteFlag(command, "scope", cobra.FixedCompletions([]cobra.Completion{
		string(migrate.ScopeAdopt), string(migrate.ScopeStorage), string(migrate.ScopeAll)}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// Complete reads the decisions.
func (o *PlanOptions) Complete([]string) (err error) {
	o.options = planner.Options{Scope: migrate.Scope(o.scope), Now: o.Clock.Now(), Lifetime: o.lifetime}
	if o.decisions != "" {
		o.options.Decisions, err = planfile.ReadDecisions(o.decisions, o.In)
	}
	return err
}

// Validate checks the flags.
func (o *PlanOptions) Validate() error {
	switch o.options.Scope {
	case migrate.ScopeAdopt, migrate.ScopeStorage, migrate.ScopeAll:
	default:
		return fmt.Errorf("there is no scope %q; use adopt, storage or all", o.scope)
	}
	if o.lifetime <= 0 {
		return errors.New("--lifetime must be more than 0, for example 48h")
	}
	return errors.Join(o.output.Validate(), o.validate(o.Environment))
}

// Run plans, writes the plan into its file, and prints what it is about.
func (o *PlanOptions) Run(ctx context.Context) error {
	snapshot, err := read(ctx, o.Environment)
	if err != nil {
		return err
	}
	plan, err := planner.New(snapshot, o.options)
	if err != nil {
		return err
	}
	if o.out != "" {
		if err := planfile.Write(o.out, plan); err != nil {
			return err
		}
	}
	err = o.Printer(o.output.Format()).Document(plan, func(p *output.Printer) {
		view.PlanSummary(p, plan)
		view.Findings(p, plan.Findings)
		o.next(p, plan)
	})
	if err != nil {
		return err
	}
	if undecided := plan.Undecided(); len(undecided) > 0 {
		return migrate.NeedsDecision.Errorf("%s", view.Undecided(undecided))
	}
	if !plan.Empty() {
		return migrate.Pending.Errorf("plan %s has changes to make", plan.ID)
	}
	return nil
}

// next says which command comes now.
func (o *PlanOptions) next(p *output.Printer, plan *migrate.Plan) {
	if o.out == "" || plan.Empty() || len(plan.Undecided()) > 0 {
		return
	}
	p.Blank()
	p.Linef("The plan is in %s. Look at it with: captctl migrate show %s --diff", o.out, o.out)
	p.Linef("Carry it out with: captctl migrate apply %s --backup DIR", o.out)
}
