// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type versionOptions struct {
	*cli.Environment
	output *output.Flag
}

func newVersion(environment *cli.Environment) *cobra.Command {
	o := &versionOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the version of captctl",
		Long: `Shows the version of captctl, the commit that it was built from, and the version of the plans that
it writes and reads. It does not connect to a cluster.`,
		Example: `  captctl version
  captctl version -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	return command
}

// Complete has nothing to fill in.
func (o *versionOptions) Complete([]string) error { return nil }

// Validate checks the flags.
func (o *versionOptions) Validate() error { return o.output.Validate() }

// Run prints.
func (o *versionOptions) Run(context.Context) error {
	v := cli.BuildVersion()
	return o.Printer(o.output.Format()).Document(v, func(p *output.Printer) {
		p.Linef("captctl %s (%s, %s)", v.Version, v.GoVersion, v.Platform)
		if p.Wide() {
			p.Linef("commit %s of %s, modified: %t", v.Commit, v.CommitTime, v.Modified)
			p.Linef("plans of %s", v.PlanVersion)
		}
	})
}
