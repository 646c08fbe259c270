// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/status"
)

// refresh is how often --watch reads at most.
const refresh = 5 * time.Second

// statusOptions are the options of status.
type statusOptions struct {
	common
	watch, detailedExitCode bool
}

func newStatus(environment *cli.Environment) *cobra.Command {
	o := &statusOptions{common: newCommon(environment)}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show where every Cluster stands",
		Long: `Shows for every Cluster whether it is adopted, which plan wrote it last and how far that came, and
whether the manager would change a Workspace. Also shows the plans that were applied, a run in
progress, and the stored versions. It writes nothing.

Decisions of plans that were applied still count; a later plan replaces those of an earlier one
about the same object.

Exit codes: 0; with --detailed-exitcode 2 if something can be adopted or resumed, a decision skips
an object, the manager would change a Workspace or CAPT v0.3 runs, and 3 if something needs a
decision.`,
		Example: `  captctl migrate status

  # Until interrupted
  captctl migrate status --watch

  # In CI: is everything adopted?
  captctl migrate status --detailed-exitcode

  # The Workspaces that the manager would change
  captctl migrate status -o json | jq -r '.units[] | select(.pendingChange) | .unit, .pendingChange'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Show the status again whenever it changes.")
	command.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with 2 if something is left to do, and with 3 if something needs a decision.")
	o.addFlags(command)
	return command
}

// Validate checks the flags.
func (o *statusOptions) Validate() error {
	if o.watch && o.detailedExitCode {
		return errors.New("--watch and --detailed-exitcode exclude each other")
	}
	return o.common.Validate()
}

// Run reads and prints, once or until it is interrupted.
func (o *statusOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	read := func() (*status.Status, error) {
		found, err := o.Status(ctx, o.survey(reader))
		if err == nil {
			found.Checks, err = o.readChecks(ctx, check.CheckLegacy, check.CheckStored) // CAPT v0.3 would revert what is adopted.
		}
		return found, err
	}
	if o.watch {
		watched := cluster.Watched{Kinds: append(migrate.ReadOrWritten(), apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))}
		return o.follow(ctx, read, cluster.Changes(ctx, reader, refresh, watched))
	}
	found, err := read()
	if err != nil {
		return err
	}
	if err := o.print(o.Printer(o.output.Format()), found); err != nil || !o.detailedExitCode {
		return err
	}
	return leftToDo(found)
}

func (o *statusOptions) print(to *output.Printer, found *status.Status) error {
	return to.Document(found, func(p *output.Printer) { view.Status(p, found, o.Clock.Now()) })
}

// follow prints the status whenever it changes. While a run is in progress it reads every refresh, since the Lease is not watched; otherwise
// only when an object has changed.
func (o *statusOptions) follow(ctx context.Context, read func() (*status.Status, error), changed <-chan struct{}) error {
	ticker := o.Clock.NewTicker(refresh)
	defer ticker.Stop()
	var last *status.Status
	for {
		found, err := read()
		if ctx.Err() != nil {
			return nil // That is how watching ends.
		}
		if err != nil {
			return err
		}
		if !same(last, found) {
			last = found
			if err := o.Redraw(o.output.Format(), func(to *output.Printer) error { return o.print(to, found) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if found.Lock != nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// same reports whether nothing changed. Ages are not in the documents, and a renewed Lease is not a change.
func same(last, found *status.Status) bool {
	if last == nil {
		return false
	}
	before, now := *last, *found
	if before.Lock != nil && now.Lock != nil {
		renewed := *now.Lock
		renewed.Until = before.Lock.Until
		now.Lock = &renewed
	}
	return equality.Semantic.DeepEqual(before, now)
}

// leftToDo is the exit code for --detailed-exitcode.
func leftToDo(found *status.Status) error {
	undecided, left := view.Left(found)
	switch {
	case undecided > 0:
		return migrate.NeedsDecision.Errorf("%s to decide. captctl migrate check shows the findings", output.Count(undecided, "unit"))
	case left > 0:
		return migrate.Pending.Errorf("%s left to do", output.Count(left, "unit"))
	}
	for _, one := range found.Checks {
		if one.Status != check.OK {
			return migrate.Pending.Errorf("%s", one.Message)
		}
	}
	return nil
}
