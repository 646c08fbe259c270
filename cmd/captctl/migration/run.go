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
	"github.com/capt-provider/capt/cmd/captctl/view"
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
	units                    []string
	concurrency, maxFailures int
	fixEndpoints, prove      bool
	wait, lease              time.Duration
}

func (r *runOptions) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&r.units, "unit", nil, "Name of a unit, as listed by show. Can be repeated.")
	flags.IntVar(&r.concurrency, "concurrency", 1, "Number of units that are written concurrently.")
	flags.IntVar(&r.maxFailures, "max-failures", 0, "Number of units that may fail. After one more failure, no other unit is started.")
	r.AddDryRun(command)
	r.AddYes(command)
	flags.DurationVar(&r.wait, "wait", apply.DefaultWait, "How long to wait for the manager, per unit.")
	flags.DurationVar(&r.lease, "lease-duration", lock.DefaultDuration, "Duration of captctl's Lease: how long a killed run keeps others waiting.")
	flags.Lookup("lease-duration").Hidden = true // For tests.
	r.common.addFlags(command)
	cli.CompleteFlag(command, "unit", cobra.NoFileCompletions)
}

// Validate checks the flags.
func (r *runOptions) Validate() error {
	if err := r.ValidateDryRun("captctl migrate show --diff, which prints what would be sent, or "); err != nil {
		return err
	}
	for _, check := range []struct {
		wrong bool
		why   string
	}{
		{r.concurrency < 1, "--concurrency must be at least 1"},
		{r.maxFailures < 0, "--max-failures must be at least 0"},
		{r.wait <= 0, "--wait must be more than 0"},
		{r.lease < time.Second, "--lease-duration must be at least 1s"},
		{r.prove && r.DryRun(), "--prove and --dry-run cannot be combined: the manager does not see a dry run"},
		{r.Asks() && !r.Interactive, cli.ErrNotInteractive.Error()},
	} {
		if check.wrong {
			return errors.New(check.why)
		}
	}
	if err := r.common.Validate(); err != nil {
		return err
	}
	// A renewal of the Lease waits behind one request of each unit in progress.
	if most := int(float64(r.Access.QPS) * r.lease.Seconds() / 3); r.concurrency > most {
		return fmt.Errorf("--concurrency %d is too high for --qps %g: the Lease could not be renewed in time. Use at most %d, or a higher --qps", r.concurrency, r.Access.QPS, most)
	}
	return nil
}

// selected are the names of --cluster and --unit.
func (r *runOptions) selected() []string { return slices.Concat(r.clusters, r.units) }

// flags are --cluster and --unit as they were given.
func (r *runOptions) flags() (flags string) {
	for _, name := range r.selected() {
		flags += view.Selection(name)
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
			n = fleet.RemainingWrites(p, unit, status.Run{Revert: revert, Named: len(r.selected()) > 0 || r.prove, Endpoints: r.fixEndpoints})
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
	case !r.output.Format().ForMachines():
		summary(r.Printer(r.output.Format()))
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
	checks.FixClusterEndpoints = r.fixEndpoints
	wait := r.wait
	if r.prove && wait == apply.DefaultWait { // Each Workspace is planned twice, by workers that may be busy.
		wait = 30 * time.Minute
	}
	return apply.Options{
		Client: connected, Reader: connected, Namespace: r.journal, Units: r.selected(), Concurrency: r.concurrency, MaxFailures: r.maxFailures,
		DryRun: r.DryRun(), Wait: wait, LeaseDuration: r.lease, Clock: r.Clock, Progress: r.Progress(r.output.Format()),
		FixClusterEndpoints: r.fixEndpoints, Prove: r.prove,
		Check: func(ctx context.Context) error {
			report, err := r.Migration.Check(ctx, checks)
			if err != nil {
				return err
			}
			return failedChecks(report)
		},
		Gate: apply.Gate(connected, p, r.Clock),
	}, nil
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
	printed := r.Printer(r.output.Format()).Document(result, func(to *output.Printer) {
		view.Result(to, result)
		next(to, result)
	})
	if left := view.LeftOut(result); left != "" && migrate.OutcomeOf(err) == migrate.NeedsDecision {
		err = migrate.NeedsDecision.Errorf("%s", left) // The messages of the units are in the table.
	}
	return errors.Join(err, printed)
}
