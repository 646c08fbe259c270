// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// checkOptions are the options of check.
type checkOptions struct {
	common
}

func newCheck(environment *cli.Environment) *cobra.Command {
	o := &checkOptions{newCommon(environment)}
	command := &cobra.Command{
		Use:   "check",
		Short: "Show what a migration would do, what blocks it, and the next steps",
		Long: `Looks at a management cluster and shows what every Cluster will become, what has to be decided, what
is wrong, and the commands for the next steps with the names that were found. It works before,
during and after a migration; nothing of this version of CAPT has to be installed. It writes
nothing.

A unit is a Cluster with all that belongs to it, or a WorkspaceTemplateApply that belongs to none.
WRITES is how many objects a plan writes for it.

Each conflict is one finding, with the evidence. After the findings, check prints a file with the
decisions to make: uncomment one line of each entry, and pass the file to captctl migrate plan with
--decisions. Decisions of plans that were applied still count; a later plan replaces those of an
earlier one about the same object.

Exit codes: 0 ready, or nothing to do; 1 a check failed; 3 something needs a decision.`,
		Example: `  # The whole fleet
  captctl migrate check

  # One namespace, with all checks and all evidence
  captctl migrate check -n team-a -o wide

  # The Clusters that need a decision, for a program
  captctl migrate check -o json | jq -r '.units[] | select(.state == "NeedsDecision").unit'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.addFlags(command)
	return command
}

// Run checks and prints. The report is printed also if the fleet cannot be read: it says why.
func (o *checkOptions) Run(ctx context.Context) error {
	checks, err := o.checks("")
	if err != nil {
		return err
	}
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	progress := o.Progress(o.output.Format())
	defer progress.Stop()
	survey := o.survey(reader)
	survey.UseEarlierDecisions, survey.NoJournal, survey.Progress = true, true, progress // The checks report missing rights.
	var checking errgroup.Group
	var report *check.Report
	checking.Go(func() (err error) {
		report, err = o.Check(ctx, checks)
		return err
	})
	fleet, err := status.Survey(ctx, survey)
	if failed := checking.Wait(); failed != nil {
		return failed
	}
	progress.Stop()
	if fleet != nil {
		report.Checks = append(append(report.Checks, check.Workspaces(fleet.Snapshot)), interrupted(fleet)...)
	}
	if errors.Is(err, plan.ErrUnknownUnit) {
		return err
	}
	found := view.NewCheck(report, fleet, o.nextSteps(report, fleet))
	printed := o.Printer(o.output.Format()).Document(found, func(p *output.Printer) { view.ShowCheck(p, found) })
	switch {
	case len(report.Failed()) > 0:
		return migrate.Failed.Errorf("%s failed", output.Count(len(report.Failed()), "check")) // What they found is above.
	case err != nil:
		return err
	case printed != nil:
		return printed
	case len(fleet.Undecided()) > 0:
		return migrate.NeedsDecision.Errorf("%s", view.Undecided(fleet.Plan, false))
	}
	return nil
}

// interrupted returns a failed check if a run was interrupted while it wrote units, which must be completed or rolled back first; else none.
func interrupted(fleet *status.Fleet) []check.Check {
	found := check.Check{
		Name: checkInterrupted, Status: check.Failed, Commands: view.Resume(fleet.Statuses),
		Message: "a run was interrupted while it wrote these units, and the manager does not reconcile paused objects. Resume them, or roll them back",
	}
	for _, unit := range fleet.Statuses {
		if unit.State == plan.Interrupted {
			found.Objects = append(found.Objects, unit.Unit+": plan "+unit.PlanID)
		}
	}
	if len(found.Objects) == 0 {
		return nil
	}
	return []check.Check{found}
}

const checkInterrupted = "interrupted units"
