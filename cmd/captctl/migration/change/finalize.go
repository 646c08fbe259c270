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

package change

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/flags"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/preflight"
	"github.com/capt-provider/capt/migrate/storage"
	"github.com/capt-provider/capt/migrate/verify"
)

// FinalizeOptions are the options of finalize.
type FinalizeOptions struct {
	*cli.Environment
	checks  flags.Checks
	output  *output.Flag
	workers int
	yes     bool

	plan *migrate.Plan
}

// NewFinalize is the command finalize.
func NewFinalize(environment *cli.Environment) *cobra.Command {
	o := &FinalizeOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "finalize PLAN_FILE --yes",
		Short: "Give v1beta1 up as a stored version: the point of no return",
		Long: `Proves that everything the plan adopts is adopted, and that no object of CAPT is stored in
v1beta1, by writing every object as it is; then takes v1beta1 out of status.storedVersions of the
definitions. From then on captctl migrate rollback refuses, and a later CAPT may stop to know
v1beta1. v1beta1 is still served: old manifests can be applied.

Do it when the new manager is trusted. Nothing forces it before an upgrade to a CAPT that no
longer has v1beta1. It can be repeated at any time, and then writes nothing.

Exit codes: 0 done; 3 the plan has findings that need a decision; 6 a right is missing; 7
something is not adopted, or stored in v1beta1; 8 another run is under way; 1 error.`,
		Example: `  # Did anything change that must not?
  captctl migrate verify plan.json

  # Give v1beta1 up
  captctl migrate finalize plan.json --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.PlanFile,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.checks.Add(command, environment)
	environment.Access.AddRateFlags(command.Flags())
	command.Flags().IntVar(&o.workers, "workers", flags.DefaultWorkers, "How many objects are written at a time.")
	command.Flags().BoolVar(&o.yes, "yes", false, "Required: there is no way back.")
	return command
}

// Complete reads the plan.
func (o *FinalizeOptions) Complete(args []string) (err error) {
	o.plan, err = planfile.Read(args[0], o.In)
	return err
}

// Validate checks the flags.
func (o *FinalizeOptions) Validate() error {
	switch {
	case !o.yes:
		return errors.New("there is no way back after finalize, and captctl migrate rollback will refuse; say --yes if that is what you want")
	case o.workers < 1:
		return errors.New("--workers must be at least 1")
	}
	return errors.Join(o.output.Validate(), o.checks.Validate(), o.Access.ValidateRate())
}

// Run proves and writes.
func (o *FinalizeOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	if err := o.checks.MayBeginAlone(ctx, o.Environment, preflight.Storage, preflight.Finalize); err != nil {
		return err
	}
	progress := o.Progress(o.output.Format())
	report, err := storage.Finalize(ctx, storage.Options{
		Client: connected, Plan: o.plan, Workers: o.workers, Progress: progress,
		Adopted: verify.Adopted(connected, o.plan),
	})
	progress.Stop()
	if err != nil {
		return err
	}
	return o.Printer(o.output.Format()).Document(report, func(p *output.Printer) { view.Finalized(p, report) })
}
