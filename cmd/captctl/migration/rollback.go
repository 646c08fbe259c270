// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
)

// rollbackOptions are the options of rollback.
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
		RunE:              cli.Run(o),
	}
	o.addFlags(command)
	return command
}

// Validate checks the flags.
func (o *rollbackOptions) Validate() error {
	if o.name == "" && len(o.selected()) == 0 {
		return errors.New("name a plan, or Clusters with --cluster; captctl migrate status lists both")
	}
	return o.runOptions.Validate()
}

// Run rolls back.
func (o *rollbackOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
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
	if err := o.confirm(func(to *output.Printer) { view.RollbackSummary(to, p, selected, writes) }, question); err != nil {
		return err
	}
	options, err := o.options(connected, p, check.Rollback)
	if err != nil {
		return err
	}
	var others map[string]string
	err = o.execute(ctx, o.Rollback, p, options, func(to *output.Printer, result *apply.Result) {
		others = o.otherPlans(ctx, connected, result)
		view.AfterRollback(to, result, len(o.selected()) > 0, others)
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
	states, err := apply.States(ctx, reader, o.journal)
	if err != nil {
		return nil // The rollback is done; captctl migrate status reports the same.
	}
	states = slices.DeleteFunc(states, func(state apply.State) bool { return state.PlanID == result.PlanID })
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
	states, err := apply.States(ctx, reader, o.journal)
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
func lastApplied(states []apply.State, unit string) (id string) {
	var last apply.UnitState
	for i := range states {
		state, found := states[i].Units[unit]
		if found && state.Phase != apply.PhaseRolledBack && !state.Begun.Before(&last.Begun) {
			id, last = states[i].PlanID, state
		}
	}
	return id
}
