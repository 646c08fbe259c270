// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration is captctl migrate: one file per subcommand.
package migration

import (
	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
)

const long = `Adopts clusters that CAPT v0.3 (API v1beta1) built, without a Terraform run, a recreated Workspace
or a changed cloud resource. It works cluster by cluster, while the manager of this version runs,
and each cluster can be rolled back.

check, plan, show and status write nothing. Where a command takes a plan file, it takes the ID of an
applied plan as well, and the other way round.

Exit codes:
  0  done, or nothing to do
  1  error; nothing was written unless the message says so
  2  changes are pending (only with --detailed-exitcode)
  3  something needs a decision
  4  partly done; run the same command again to resume`

const example = `  # What every Cluster will become, what blocks it, and the commands for the next steps
  captctl migrate check

  # Plan, and adopt one cluster, then the rest
  captctl migrate plan --out plan.json
  captctl migrate apply plan.json --cluster team-a/demo
  captctl migrate apply plan.json

  # Where every Cluster stands
  captctl migrate status`

// New returns the command migrate with its subcommands.
func New(environment *cli.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:     "migrate",
		Short:   "Adopt clusters that CAPT v0.3 built",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(
		newCheck(environment), newPlan(environment), newShow(environment), newApply(environment), newStatus(environment), newRollback(environment),
	)
	return command
}
