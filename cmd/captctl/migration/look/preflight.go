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
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/migration/flags"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate/preflight"
)

// every phase, in order.
var every = []preflight.Phase{preflight.Inspect, preflight.Definitions, preflight.Backup, preflight.Adopt, preflight.Storage, preflight.Finalize}

// PreflightOptions are the options of preflight.
type PreflightOptions struct {
	*cli.Environment
	checks flags.Checks
	output *output.Flag
	phases []string

	asked []preflight.Phase
}

// NewPreflight is the command preflight.
func NewPreflight(environment *cli.Environment) *cobra.Command {
	o := &PreflightOptions{Environment: environment, output: output.NewFlag()}
	command := &cobra.Command{
		Use:   "preflight",
		Short: "Find out whether a migration can be done",
		Long: `Looks at everything that a migration needs: your permissions, the definitions, conversion and
admission, Cluster API, the provider and its Workspaces, whether the manager of the older CAPT is
off and has been quiet for a while, which objects Flux, Argo CD or Helm would write back, the
lock, and this machine's clock. captctl migrate apply does it again before it writes.

A check that FAILED stands in the way, and says what to do about it. A Warning does not; a person
should know it.

Nothing is written. Reviews of your own permissions are asked for, and patches without content as
a dry run.

Exit codes: 0 nothing stands in the way; 6 something does, or a right is missing; 8 only another
run does; 1 error.`,
		Example: `  # Can the migration begin?
  captctl migrate preflight

  # With the permissions for finalize, and an older manager under a name of its own
  captctl migrate preflight --phase adopt,storage,finalize --older-manager team-a/capt-custom

  # What failed, for a program
  captctl migrate preflight -o json | jq '.checks[] | select(.status == "Failed")'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.checks.Add(command, environment)
	command.Flags().StringSliceVar(&o.phases, "phase", []string{string(preflight.Backup), string(preflight.Adopt), string(preflight.Storage)},
		"Phases whose permissions are asked for: "+names()+".")
	cli.CompleteFlag(command, "phase", cobra.FixedCompletions(strings.Split(names(), ", "), cobra.ShellCompDirectiveNoFileComp))
	return command
}

func names() string {
	all := make([]string, 0, len(every))
	for _, phase := range every {
		all = append(all, string(phase))
	}
	return strings.Join(all, ", ")
}

// Complete takes the phases.
func (o *PreflightOptions) Complete([]string) error {
	o.asked = nil
	for _, phase := range o.phases {
		o.asked = append(o.asked, preflight.Phase(phase))
	}
	return nil
}

// Validate checks the flags.
func (o *PreflightOptions) Validate() error {
	for _, phase := range o.asked {
		if !slices.Contains(every, phase) {
			return fmt.Errorf("there is no phase %q; use some of %s", phase, names())
		}
	}
	return errors.Join(o.output.Validate(), o.checks.Validate())
}

// Run looks and prints. The error says what stands in the way.
func (o *PreflightOptions) Run(ctx context.Context) error {
	progress := o.Progress(o.output.Format())
	options, err := o.checks.Options(o.Environment, progress, o.asked...)
	if err != nil {
		return err
	}
	report, err := o.Preflight(ctx, options)
	progress.Stop()
	if report == nil {
		return err
	}
	printed := o.Printer(o.output.Format()).Document(report, func(p *output.Printer) { view.Preflight(p, report) })
	if err != nil {
		return err
	}
	return printed
}
