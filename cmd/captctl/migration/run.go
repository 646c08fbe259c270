// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/lock"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// runOptions are the options that apply and rollback share.
type runOptions struct {
	common
	cli.Writes
	units []string
	run   apply.Options // What flags set.
}

func (r *runOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&r.units, "unit", nil, "Name of a unit, as listed by show. Can be repeated.")
	flags.IntVar(&r.run.Concurrency, "concurrency", 1, "Number of units that are written concurrently.")
	flags.IntVar(&r.run.MaxFailures, "max-failures", 0, "Number of units that may fail. After one more failure, no other unit is started.")
	r.AddDryRun(command)
	r.AddYes(command)
	flags.DurationVar(&r.run.Wait, "wait", apply.DefaultWait, "How long to wait for the manager, per unit.")
	flags.DurationVar(&r.run.LeaseDuration, "lease-duration", lock.DefaultDuration, "Duration of captctl's Lease: how long a killed run keeps others waiting.")
	flags.Lookup("lease-duration").Hidden = true // For tests.
	r.common.addFlags(command)
	cli.CompleteFlag(command, "unit", cobra.NoFileCompletions)
}

func (r *runOptions) Validate() error {
	// A renewal of the Lease waits behind one request of each unit in progress.
	most := int(float64(r.Access.QPS) * r.run.LeaseDuration.Seconds() / 3)
	return cmp.Or(
		r.ValidateDryRun("captctl migrate show --diff, which prints what would be sent, or "),
		cli.When(r.run.Concurrency < 1, "--concurrency must be at least 1"),
		cli.When(r.run.MaxFailures < 0, "--max-failures must be at least 0"),
		cli.When(r.run.Wait <= 0, "--wait must be more than 0"),
		cli.When(r.run.LeaseDuration < time.Second, "--lease-duration must be at least 1s"),
		cli.When(r.run.Prove && r.DryRun(), "--prove and --dry-run cannot be combined: the manager does not see a dry run"),
		cli.When(r.Asks() && !r.Interactive, "%w", cli.ErrNotInteractive),
		r.common.Validate(),
		cli.When(r.run.Concurrency > most, "--concurrency %d is too high for --qps %g: the Lease could not be renewed in time. Use at most %d, or a higher --qps", r.run.Concurrency, r.Access.QPS, most))
}

func (r *runOptions) selected() []string { return slices.Concat(r.clusters, r.units) }

// flags are --cluster and --unit as they were given.
func (r *runOptions) flags() (flags string) {
	for _, name := range r.selected() {
		flags += selection(name)
	}
	return flags
}

// readFleet returns the current states of the units of a plan; nil if they cannot be read. Then the run itself reports why.
func (r *runOptions) readFleet(ctx context.Context, reader client.Reader, p *plan.Plan) *status.Fleet {
	survey := r.survey(reader)
	survey.Namespace, survey.Units, survey.Decisions = p.Namespace, nil, p.Decisions
	fleet, err := status.Survey(ctx, survey)
	if err != nil {
		return nil
	}
	return fleet
}

// writes returns the number of objects that the run will write, or revert, by unit, and a summary such as "2 units, 7 writes".
func (r *runOptions) writes(fleet *status.Fleet, p *plan.Plan, selected []*plan.Unit, revert bool) (writes map[string]int, summary string) {
	writes = map[string]int{}
	units, total := 0, 0
	for _, unit := range selected {
		n := len(unit.Steps)
		if fleet != nil {
			n = fleet.RemainingWrites(p, unit, status.Run{Revert: revert, Named: len(r.selected()) > 0 || r.run.Prove, Endpoints: r.run.FixClusterEndpoints})
		}
		if writes[unit.Name()] = n; n > 0 {
			units, total = units+1, total+n
		}
	}
	return writes, fmt.Sprintf("%s, %s", output.Count(units, "unit"), output.Count(total, "write"))
}

// unitsOf returns the units of a plan that are selected. A name that the plan does not have is an error before the user is asked.
func (r *runOptions) unitsOf(p *plan.Plan) (units []*plan.Unit, err error) {
	units, missing := p.Select(r.selected())
	if len(missing) > 0 {
		return nil, fmt.Errorf("plan %s does not contain %s; captctl migrate show %s lists its units", p.ID, missing[0], cmp.Or(r.name, p.ID))
	}
	return units, nil
}

// confirm shows what is about to be done, and asks whether to do it.
func (r *runOptions) confirm(summary func(*output.Printer), question string) error {
	switch {
	case !r.Format().ForMachines():
		summary(r.Printer())
	case r.Asks():
		summary(output.NewPrinter(r.ErrOut, output.Table, r.NoColor))
	}
	if !r.Asks() {
		return nil
	}
	return r.Confirm(question)
}

// options returns the options of a run without a backup, which rollback does not need, because it restores the fields from the plan. apply adds
// the backup.
func (r *runOptions) options(connected client.Client, p *plan.Plan, before check.Stage) (apply.Options, error) {
	checks, err := r.checks(before)
	if err != nil {
		return apply.Options{}, err
	}
	checks.FixClusterEndpoints = r.run.FixClusterEndpoints
	options := r.run
	if options.Prove && options.Wait == apply.DefaultWait { // Each Workspace is planned twice, by workers that may be busy.
		options.Wait = 30 * time.Minute
	}
	options.Client, options.Namespace, options.Units, options.DryRun = connected, r.journal, r.selected(), r.DryRun()
	options.Clock, options.Progress, options.Gate = r.Clock, r.Progress(), apply.Gate(connected, p, r.Clock)
	options.Check = func(ctx context.Context) error {
		report, err := r.Migration.Check(ctx, checks)
		if err != nil {
			return err
		}
		return failedChecks(report)
	}
	return options, nil
}

// execute runs and prints the result, also if something failed.
func (r *runOptions) execute(ctx context.Context, do func(context.Context, *plan.Plan, apply.Options) (*apply.Result, error), p *plan.Plan, options apply.Options, next func(*output.Printer, *apply.Result)) error {
	result, err := do(ctx, p, options)
	if stopper, ok := options.Progress.(interface{ Stop() }); ok {
		stopper.Stop()
	}
	if result == nil {
		return err
	}
	printed := r.Printer().Document(result, func(to *output.Printer) {
		showResult(to, result)
		next(to, result)
	})
	if left := leftOut(result); left != "" && migrate.OutcomeOf(err) == migrate.NeedsDecision {
		err = migrate.NeedsDecision.Errorf("%s", left) // The messages of the units are in the table.
	}
	return errors.Join(err, printed)
}

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
	}
	o.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&o.backup, "backup", "", "File for the backup (default: capt-migrate-PLAN_ID.tar.gz).")
	flags.BoolVar(&o.run.FixClusterEndpoints, "fix-cluster-endpoints", false, "Also remove https:// from spec.controlPlaneEndpoint.host of Clusters.")
	flags.BoolVar(&o.run.Prove, "prove", false, "Adopt a unit only if Terraform would change nothing: the manager plans each Workspace first. Raises the default of --wait to 30m.")
	cli.CompleteFlag(command, "backup", cli.Files("tar.gz"))
	return cli.New(command, o)
}

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
		showPlanSummary(to, p, selected, fleet, writes)
		showNotUpToDate(to, fleet, selected)
		if last {
			to.Blank()
			to.Linef("This run adopts the last units of the plan. When no object awaits adoption, the manager migrates stored versions, which cannot be reverted.")
			to.Linef("To postpone that, see \"Stored versions\" in docs/migration-reference.md before you continue.")
		}
	}, question); err != nil {
		return err
	}
	options, err := o.options(connected, p, check.Apply)
	if err != nil {
		return err
	}
	options.Backup = apply.BackupWriter(connected, cmp.Or(o.backup, apply.DefaultBackupFile(p.ID)), p, o.Clock)
	rest := slices.ContainsFunc(p.Units, func(unit plan.Unit) bool {
		_, named := writes[unit.Name()]
		return !named && unit.State == plan.Adoptable && (fleet == nil || fleet.RemainingWrites(p, &unit, status.Run{}) > 0)
	})
	name := o.name + map[bool]string{true: " --prove"}[o.run.Prove]
	return o.execute(ctx, o.Apply, p, options, func(to *output.Printer, result *apply.Result) { afterApply(to, result, name, o.flags(), rest) })
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

func (o *applyOptions) requireDecided(p *plan.Plan, selected []*plan.Unit) error {
	for _, unit := range selected {
		if len(o.selected()) > 0 && (unit.State == plan.NeedsDecision || unit.State == plan.Blocked) {
			return migrate.NeedsDecision.Errorf("%s is %s in plan %s: captctl migrate show %s shows the finding. Decide, and create a new plan", unit.Name(), unit.State, p.ID, o.name)
		}
	}
	return nil
}

type rollbackOptions struct {
	runOptions
}

func newRollback(environment *cli.Environment) *cobra.Command {
	o := &rollbackOptions{runOptions{common: newCommon(environment)}}
	command := &cobra.Command{
		Use:   "rollback [PLAN|PLAN_ID]",
		Short: "Revert what a plan wrote, for one Cluster or all of them",
		Long: `Gives every field that a plan wrote the value that it had before, for all units of the plan or for
those that --cluster and --unit name. The manager may run: the Clusters await adoption again, and
Terraform runs nothing. Without a plan, the plan that wrote the named units last is rolled back; if
an earlier plan wrote them too, the command for it is printed (exit code 4).

A field that was changed since it was written is left as it is, and listed (exit code 4). A
WorkspaceTemplate that a pin created stays.

Exit codes: 0 rolled back; 1 nothing was written, unless the message says so; 4 partly rolled back.`,
		Example: `  # One cluster
  captctl migrate rollback --cluster team-a/demo

  # Everything that a plan wrote
  captctl migrate rollback 0123456789ab`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: o.complete,
	}
	o.addFlags(command)
	return cli.NewConnected(command, o)
}

func (o *rollbackOptions) Validate() error {
	return cmp.Or(cli.When(o.name == "" && len(o.selected()) == 0, "name a plan, or Clusters with --cluster; captctl migrate status lists both"), o.runOptions.Validate())
}

func (o *rollbackOptions) Run(ctx context.Context, connected client.WithWatch) error {
	p, err := o.plan(ctx, connected)
	if err != nil {
		return err
	}
	selected, err := o.unitsOf(p)
	if err != nil {
		return err
	}
	fleet := o.readFleet(ctx, connected, p)
	writes, summary := o.writes(fleet, p, selected, true)
	question := fmt.Sprintf("Do you want to roll back plan %s in %s: %s?", p.ID, o.Access.Describe(), summary)
	if err := o.confirm(func(to *output.Printer) { showRollbackSummary(to, p, selected, writes) }, question); err != nil {
		return err
	}
	options, err := o.options(connected, p, check.Rollback)
	if err != nil {
		return err
	}
	var others map[string]string
	err = o.execute(ctx, o.Rollback, p, options, func(to *output.Printer, result *apply.Result) {
		others = o.otherPlans(ctx, connected, result)
		afterRollback(to, result, len(o.selected()) > 0, others)
	})
	if err == nil && len(others) > 0 && o.name == "" { // The user named Clusters, and they are not as they were.
		return migrate.Partly.Errorf("%s partly rolled back: another plan wrote the rest", output.Count(len(others), "unit"))
	}
	return err
}

// otherPlans returns the units that another plan wrote and that were not rolled back since, with the ID of that plan.
func (o *rollbackOptions) otherPlans(ctx context.Context, reader client.Reader, result *apply.Result) map[string]string {
	if result.DryRun {
		return nil
	}
	states, err := apply.Journals(ctx, reader, o.journal)
	if err != nil {
		return nil // The rollback is done; captctl migrate status reports the same.
	}
	states = slices.DeleteFunc(states, func(state apply.Journal) bool { return state.PlanID == result.PlanID })
	adopted := map[string]string{}
	for _, unit := range result.Units {
		if id := lastApplied(states, unit.Unit); id != "" && (unit.Outcome == apply.RolledBack || unit.Outcome == apply.Unchanged) {
			adopted[unit.Unit] = id
		}
	}
	return adopted
}

// plan returns the plan to roll back: the named one, or the one that wrote the selected units last.
func (o *rollbackOptions) plan(ctx context.Context, reader client.Reader) (*plan.Plan, error) {
	if o.name != "" {
		return o.load(ctx)
	}
	states, err := apply.Journals(ctx, reader, o.journal)
	if err != nil {
		return nil, err
	}
	first, last := "", ""
	for i, unit := range o.selected() {
		id := lastApplied(states, unit)
		switch {
		case id == "":
			return nil, fmt.Errorf("no plan has written %s, or it is rolled back already; captctl migrate status lists the units of applied plans", unit)
		case i > 0 && id != last:
			return nil, fmt.Errorf("%s was written by plan %s, and %s by plan %s: roll them back separately", first, last, unit, id)
		}
		first, last = unit, id
	}
	return apply.LoadPlan(ctx, reader, o.journal, last)
}

// lastApplied returns the ID of the plan that wrote a unit last; empty if there is nothing to roll back.
func lastApplied(states []apply.Journal, unit string) (id string) {
	var last apply.UnitRecord
	for i := range states {
		state, found := states[i].Units[unit]
		if found && state.Phase != apply.PhaseRolledBack && !state.Begun.Before(&last.Begun) {
			id, last = states[i].PlanID, state
		}
	}
	return id
}
