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

// Package change has those commands of captctl migrate that write into a cluster.
package change

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/flags"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planfile"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/execute"
	"github.com/capt-provider/capt/migrate/preflight"
)

// ApplyOptions are the options of apply.
type ApplyOptions struct {
	*cli.Environment
	run    flags.Run
	output *output.Flag

	plan *migrate.Plan
}

// NewApply is the command apply.
func NewApply(environment *cli.Environment) *cobra.Command {
	o := &ApplyOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "apply PLAN_FILE",
		Short: "Carry a plan out, after a backup",
		Long: `Carries a plan out: takes the lock, runs preflight, makes the backup, proves that everything the
plan is about is as it was when the plan was made, and only then writes. First come the
permissions, then the owners, --workers at a time; then every object is rewritten in v1beta2.
Workspaces and Secrets are not written, and nothing is deleted.

Each write has preconditions: UID, content and resourceVersion of the object. If anything has
changed since the plan was made, nothing is written and the exit code is 4: make a new plan.

A journal is kept in the cluster and on this host, so that captctl migrate resume can go on from
anywhere after an interruption, and captctl migrate rollback can go back. A plan that was carried
out is not written again.

With --canary, one owner or all owners of one Cluster come first; the others follow only if that
was verified.

Exit codes: 0 done; 3 the plan has findings that need a decision; 4 stale; 5 partly done, go on
with resume; 6 preflight failed or a right is missing; 7 the canary was not verified; 8 another
run is under way; 1 error.`,
		Example: `  # See whether the API server would accept every write
  captctl migrate apply plan.json --dry-run=server

  # Carry the plan out, one Cluster first
  captctl migrate apply plan.json --backup backup-2026-10-22 --canary team-a/demo

  # A large fleet, faster, and not stopped by the first failures
  captctl migrate apply plan.json --backup /backups/capt --qps 50 --burst 100 --max-failures 9`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cli.PlanFile,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.run.Add(command, environment)
	o.run.AddForward(command, environment)
	return command
}

// Complete reads the plan.
func (o *ApplyOptions) Complete(args []string) (err error) {
	o.plan, err = planfile.Read(args[0], o.In)
	return err
}

// Validate checks the flags.
func (o *ApplyOptions) Validate() error { return validate(o.output, &o.run, o.Environment) }

// Run writes.
func (o *ApplyOptions) Run(ctx context.Context) error {
	return do(o.Environment, o.output, func(progress migrate.Progress) (*execute.Result, error) {
		options, err := o.run.Execution(o.Environment, progress, phases(o.plan)...)
		if err != nil {
			return nil, err
		}
		return execute.Apply(ctx, o.plan, options)
	})
}

// phases of a migration that a plan has.
func phases(plan *migrate.Plan) []preflight.Phase {
	all := []preflight.Phase{preflight.Backup}
	if plan.Scope != migrate.ScopeStorage {
		all = append(all, preflight.Adopt)
	}
	if plan.Scope != migrate.ScopeAdopt {
		all = append(all, preflight.Storage)
	}
	return all
}
