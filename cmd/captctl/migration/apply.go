// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/backup"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// applyOptions are the options of apply.
type applyOptions struct {
	runOptions
	backup string
}

func newApply(environment *cli.Environment) *cobra.Command {
	o := &applyOptions{runOptions: runOptions{common: newCommon(environment)}}
	command := &cobra.Command{
		Use:   "apply PLAN|PLAN_ID",
		Short: "Apply a plan (takes a backup first)",
		Long: `Applies a plan, or the units of it that --cluster and --unit name, one after the other, while the
manager runs. For each unit it renders the Workspaces again and stops if something changed, pauses
the objects, writes the planned fields, resumes the objects, waits until the manager reports every
Workspace up to date, and proves that no Workspace has changed. The first failure ends the run
(--max-failures).

With --prove, the manager first has provider-terraform plan each Workspace with what it would write.
A unit for which a plan is not empty, or fails, is reverted (NotProven), and the others go on.

Before the first write, a backup of the objects is written to --backup. Workspaces, ProviderConfigs
and Secrets are never written, and nothing is deleted.

Run the same command again after an interruption: what is written already is not written again. Only
one run writes at a time. The management cluster keeps a copy of the plan, so that its ID is enough.

Exit codes: 0 applied; 1 nothing was written, unless the message says so; 3 applied, except for
units that need a decision, or whose proof failed; 4 partly applied.`,
		Example: `  # One cluster first
  captctl migrate apply plan.json --cluster team-a/demo

  # The rest; --yes in scripts
  captctl migrate apply plan.json --yes

  # Only what Terraform is known not to change
  captctl migrate apply plan.json --prove

  # Would the API server accept every write?
  captctl migrate apply plan.json --dry-run=server

  # Resume on another machine
  captctl migrate apply 0123456789ab`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.complete,
		RunE:              cli.Run(o),
	}
	o.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&o.backup, "backup", "", "File for the backup (default: capt-migrate-PLAN_ID.tar.gz).")
	flags.BoolVar(&o.fixEndpoints, "fix-cluster-endpoints", false, "Also remove https:// from spec.controlPlaneEndpoint.host of Clusters.")
	flags.BoolVar(&o.prove, "prove", false, "Adopt a unit only if Terraform would change nothing: the manager plans each Workspace first. Raises the default of --wait to 30m.")
	cli.CompleteFlag(command, "backup", cli.Files("tar.gz"))
	return command
}

// Run applies.
func (o *applyOptions) Run(ctx context.Context) error {
	p, err := o.load(ctx)
	if err != nil {
		return err
	}
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	selected, err := o.unitsOf(p)
	if err != nil {
		return err
	}
	if err := o.requireDecided(p, selected); err != nil {
		return err
	}
	fleet := o.readFleet(ctx, connected, p)
	writes, summary := o.writes(fleet, p, selected, false)
	question := fmt.Sprintf("Do you want to apply plan %s to %s: %s?", p.ID, o.Access.Describe(), summary)
	last, err := o.startsStorageMigration(ctx, fleet, p, writes)
	if err != nil {
		return err
	}
	if err := o.confirm(func(to *output.Printer) {
		view.PlanSummary(to, p, selected, fleet, writes)
		view.NotUpToDate(to, fleet, selected)
		if last {
			to.Blank()
			to.Linef("This run adopts the last units of the plan. When no object awaits adoption, the manager migrates stored versions, which cannot be reverted.")
			to.Linef("To postpone that, see \"Stored versions\" in docs/migration.md before you continue.")
		}
	}, question); err != nil {
		return err
	}
	options, err := o.options(connected, p, check.Apply)
	if err != nil {
		return err
	}
	options.Backup = backup.Writer(connected, cmp.Or(o.backup, backup.DefaultFile(p.ID)), p, o.Clock)
	rest := slices.ContainsFunc(p.Units, func(unit plan.Unit) bool {
		_, named := writes[unit.Name()]
		return !named && unit.State == plan.Adoptable && (fleet == nil || fleet.RemainingWrites(p, &unit, status.Run{}) > 0)
	})
	name := o.name + map[bool]string{true: " --prove"}[o.prove]
	return o.execute(ctx, o.Apply, p, options, func(to *output.Printer, result *apply.Result) { view.AfterApply(to, result, name, o.flags(), rest) })
}

// startsStorageMigration reports whether the manager will migrate stored versions after a run.
func (o *applyOptions) startsStorageMigration(ctx context.Context, fleet *status.Fleet, p *plan.Plan, writes map[string]int) (bool, error) {
	if !o.adoptsLastUnits(fleet, p, writes) {
		return false, nil
	}
	stored, err := o.readChecks(ctx, check.CheckStored)
	return slices.ContainsFunc(stored, check.Check.StoresLegacyVersion), err
}

// adoptsLastUnits reports whether a run leaves nothing of a plan for the whole fleet to adopt, while stored versions may not be migrated yet. The writes are
// those of the selected units.
func (o *applyOptions) adoptsLastUnits(fleet *status.Fleet, p *plan.Plan, writes map[string]int) (adopts bool) {
	if fleet == nil || p.Namespace != "" || o.DryRun() { // The checks report why it could not be read.
		return false
	}
	for i := range p.Units {
		name := p.Units[i].Name()
		n, selected := writes[name]
		switch state := cmp.Or(fleet.StatusOf(name).State, p.Units[i].State); {
		case state == plan.NeedsDecision, state == plan.Blocked, state == plan.Adoptable && n == 0, state == plan.Interrupted && !selected:
			return false
		case state == plan.Adoptable, state == plan.Interrupted:
			adopts = true
		}
	}
	return adopts
}

// requireDecided fails if a unit that was named needs a decision.
func (o *applyOptions) requireDecided(p *plan.Plan, selected []*plan.Unit) error {
	for _, unit := range selected {
		if len(o.selected()) > 0 && (unit.State == plan.NeedsDecision || unit.State == plan.Blocked) {
			return migrate.NeedsDecision.Errorf("%s is %s in plan %s: captctl migrate show %s shows the finding. Decide, and create a new plan", unit.Name(), unit.State, p.ID, o.name)
		}
	}
	return nil
}
