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

package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/version"
)

type versionOptions struct {
	*cli.Environment
	output *output.Flag
}

func newVersion(environment *cli.Environment) *cobra.Command {
	o := &versionOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "version",
		Short: "Show which captctl this is",
		Long: `Shows the version of captctl, the commit that it was built from, and the version of the plans that
it makes and reads. The cluster is not asked.`,
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
	v := version.Get()
	return o.Printer(o.output.Format()).Document(v, func(p *output.Printer) {
		p.Linef("captctl %s (%s, %s)", v.Version, v.GoVersion, v.Platform)
		if p.Wide() {
			p.Linef("commit %s of %s, modified: %t", v.Commit, v.CommitTime, v.Modified)
			p.Linef("plans of %s", v.PlanVersion)
		}
	})
}
