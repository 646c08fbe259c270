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
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/verify"
)

// VerifyOptions are the options of verify.
type VerifyOptions struct {
	*cli.Environment
	output *output.Flag
	watch  time.Duration

	plan *migrate.Plan
}

// NewVerify is the command verify.
func NewVerify(environment *cli.Environment) *cobra.Command {
	o := &VerifyOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "verify PLAN_FILE",
		Short: "Prove from the live cluster that a migration kept its promises",
		Long: `Compares the live cluster with what a plan says must be the same, and with what it says must be
different: every Workspace has its UID, generation, spec, labels, annotations and finalizers;
every WorkspaceTemplateApply is there, and no other; everything that the plan adopts is adopted,
one to one; the manager would change no adopted Workspace; and objects are stored in v1beta2.
Nothing is written.

With --watch, it watches the Workspaces for that long, too, ends at once if one of them changes,
and verifies everything once more at the end: best done when the new manager starts.

Exit codes: 0 every promise was kept; 7 one was not; 6 a right is missing; 1 error.`,
		Example: `  # After captctl migrate apply
  captctl migrate verify plan.json

  # While the new manager starts
  captctl migrate verify plan.json --watch 15m

  # What is not as it should be, for a program
  captctl migrate verify plan.json -o json | jq '.checks[] | select(.ok | not)'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.PlanFile,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	environment.Access.AddRateFlags(command.Flags())
	command.Flags().DurationVar(&o.watch, "watch", 0, "Watch the Workspaces for that long, for example 15m.")
	return command
}

// Complete reads the plan.
func (o *VerifyOptions) Complete(args []string) (err error) {
	o.plan, err = planfile.Read(args[0], o.In)
	return err
}

// Validate checks the flags.
func (o *VerifyOptions) Validate() error {
	if o.watch < 0 {
		return errors.New("--watch must not be negative")
	}
	return errors.Join(o.output.Validate(), o.Access.ValidateRate())
}

// Run verifies and prints, also when a promise was not kept.
func (o *VerifyOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	progress := o.Progress(o.output.Format())
	report, err := o.verify(ctx, connected, verify.Options{Progress: progress})
	progress.Stop()
	if len(report.Checks) == 0 {
		return err
	}
	printed := o.Printer(o.output.Format()).Document(report, func(p *output.Printer) { view.Verification(p, report) })
	if err != nil {
		return err
	}
	return printed
}

func (o *VerifyOptions) verify(ctx context.Context, connected client.WithWatch, options verify.Options) (verify.Report, error) {
	if o.watch > 0 {
		return verify.Watch(ctx, connected, o.plan, options, o.watch)
	}
	return verify.Run(ctx, connected, o.plan, options)
}
