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

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/flags"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/preflight"
)

// RollbackOptions are the options of rollback.
type RollbackOptions struct {
	*cli.Environment
	run    flags.Run
	output *output.Flag
	object string

	planID string
}

// NewRollback is the command rollback.
func NewRollback(environment *cli.Environment) *cobra.Command {
	o := &RollbackOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "rollback PLAN_ID",
		Short: "Take back what a plan wrote",
		Long: `Takes back what captctl migrate apply wrote: each field gets the value that it had, if it still
has the one that was written. What somebody has changed since is left as it is and listed.

While a manager of the older CAPT runs nothing is taken back, because it would build a second
cluster for every reference that is cleared: scale its Deployment to 0 first. After captctl
migrate finalize there is no way back.

Exit codes: 0 done; 5 partly done: what is listed was left; 6 a right is missing, or an older
manager runs; 8 another run is under way; 1 error.`,
		Example: `  # Take all of it back
  captctl migrate rollback 0123456789ab

  # Only the owner that an object belongs to
  captctl migrate rollback 0123456789ab --object CAPTControlPlane/team-a/demo

  # See whether the API server would accept it
  captctl migrate rollback 0123456789ab --dry-run=server`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.run.PlanIDs(environment.Access),
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.run.Add(command, environment)
	command.Flags().StringVar(&o.object, "object", "", "KIND/NAMESPACE/NAME of an object; only its owner, and what was written for it, is taken back.")
	cli.CompleteFlag(command, "object", kinds)
	return command
}

// kinds completes with what an object begins with.
func kinds(*cobra.Command, []string, string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	for _, kind := range migrate.Kinds() {
		names = append(names, kind.Kind+"/")
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// Complete takes the ID.
func (o *RollbackOptions) Complete(args []string) error {
	o.planID = args[0]
	return nil
}

// Validate checks the flags.
func (o *RollbackOptions) Validate() error { return validate(o.output, &o.run, o.Environment) }

// Run writes.
func (o *RollbackOptions) Run(ctx context.Context) error {
	return do(o.Environment, o.output, func(progress migrate.Progress) (*execute.Result, error) {
		options, err := o.run.Execution(o.Environment, progress, preflight.Adopt, preflight.Storage)
		if err != nil {
			return nil, err
		}
		return execute.Rollback(ctx, o.planID, o.object, options)
	})
}
