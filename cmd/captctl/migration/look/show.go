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

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
)

// ShowOptions are the options of show.
type ShowOptions struct {
	*cli.Environment
	output *output.Flag
	diff   bool

	plan *migrate.Plan
}

// NewShow is the command show.
func NewShow(environment *cli.Environment) *cobra.Command {
	o := &ShowOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "show PLAN_FILE",
		Short: "Show what a plan would write, and what it needs a person for",
		Long: `Prints a plan: for each owner its WorkspaceTemplateApply, its Workspace, which fields are written,
and why captctl holds that they belong together; and each finding with its candidates, what speaks
for and against each of them, and in which fields a Workspace would become another.

With --diff, every write is shown as the fields of the object before (-) and after (+) it.

The cluster is not asked. A plan that was changed after it was made is refused.`,
		Example: `  # What would be written, owner by owner
  captctl migrate show plan.json

  # Every field of every object, before and after
  captctl migrate show plan.json --diff

  # Which objects does the plan write?
  captctl migrate show plan.json -o json | jq -c '.units[].steps[].object | [.kind, .name]'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.PlanFile,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	command.Flags().BoolVar(&o.diff, "diff", false, "Show each write as the fields before and after it.")
	return command
}

// Complete reads the plan.
func (o *ShowOptions) Complete(args []string) (err error) {
	o.plan, err = planfile.Read(args[0], o.In)
	return err
}

// Validate checks the flags.
func (o *ShowOptions) Validate() error { return o.output.Validate() }

// Run prints.
func (o *ShowOptions) Run(context.Context) error {
	return o.Printer(o.output.Format()).Document(o.plan, func(p *output.Printer) {
		if !o.diff {
			view.Plan(p, o.plan)
			return
		}
		view.PlanSummary(p, o.plan)
		view.Diff(p, o.plan)
		view.Findings(p, o.plan.Findings)
	})
}
