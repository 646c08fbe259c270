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

// ResumeOptions are the options of resume.
type ResumeOptions struct {
	*cli.Environment
	run    flags.Run
	output *output.Flag

	planID string
}

// NewResume is the command resume.
func NewResume(environment *cli.Environment) *cobra.Command {
	o := &ResumeOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "resume PLAN_ID",
		Short: "Go on with a plan that was begun",
		Long: `Goes on with a plan that captctl migrate apply began, from this host or another: the plan is in
the cluster, with the journal. What was written already is not written again; what changed in the
meantime is refused, as by apply.

If the run that began it was killed, its lock is taken over as soon as it has run out, which takes
a quarter of a minute.

Exit codes are those of captctl migrate apply.`,
		Example: `  # Which plans were begun, and how far they came
  captctl migrate status

  # Go on
  captctl migrate resume 0123456789ab`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.run.PlanIDs(environment.Access),
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.run.Add(command, environment)
	o.run.AddForward(command, environment)
	return command
}

// Complete takes the ID.
func (o *ResumeOptions) Complete(args []string) error {
	o.planID = args[0]
	return nil
}

// Validate checks the flags.
func (o *ResumeOptions) Validate() error { return validate(o.output, &o.run, o.Environment) }

// Run writes.
func (o *ResumeOptions) Run(ctx context.Context) error {
	return do(o.Environment, o.output, func(progress migrate.Progress) (*execute.Result, error) {
		options, err := o.run.Execution(o.Environment, progress, preflight.Backup, preflight.Adopt, preflight.Storage)
		if err != nil {
			return nil, err
		}
		return execute.Resume(ctx, o.planID, options)
	})
}
