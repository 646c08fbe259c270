// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
)

// showOptions are the options of show.
type showOptions struct {
	common
	diff bool
}

func newShow(environment *cli.Environment) *cobra.Command {
	o := &showOptions{common: newCommon(environment)}
	command := &cobra.Command{
		Use:   "show PLAN|PLAN_ID",
		Short: "Show a plan, from a file or from the cluster",
		Long: `Shows what a plan writes. PLAN is a file; the management cluster is not needed for it. PLAN_ID
is the ID of a plan that was applied: the management cluster keeps a copy.

With --diff, every field is shown before (-) and after (+). With -o json the plan itself is printed,
which apply accepts.`,
		Example: `  captctl migrate show plan.json

  # Field by field
  captctl migrate show plan.json --diff

  # Get a plan back whose file is lost
  captctl migrate show 0123456789ab -o json > plan.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.complete,
		RunE:              cli.Run(o),
	}
	command.Flags().BoolVar(&o.diff, "diff", false, "Show every field before and after.")
	o.addFlags(command)
	return command
}

// Run reads and prints.
func (o *showOptions) Run(ctx context.Context) error {
	p, err := o.load(ctx)
	if err != nil {
		return err
	}
	if len(o.clusters) > 0 && o.output.Format().ForMachines() {
		return errors.New("--cluster cannot be combined with -o json or -o yaml, because apply only accepts a complete plan")
	}
	if err := p.Only(o.clusters); err != nil {
		return err
	}
	return o.Printer(o.output.Format()).Document(p, func(to *output.Printer) {
		if o.diff {
			view.Diff(to, p)
			return
		}
		view.Plan(to, p, nil)
	})
}
