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

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate/planner"
)

// InspectOptions are the options of inspect.
type InspectOptions struct {
	*cli.Environment
	fleet
	output *output.Flag
	tree   bool
}

// NewInspect is the command inspect.
func NewInspect(environment *cli.Environment) *cobra.Command {
	o := &InspectOptions{Environment: environment, output: output.NewFlag(output.DOT, output.Mermaid)}
	command := &cobra.Command{
		Use:   "inspect",
		Short: "Show what is there, what is claimed by whom, and why",
		Long: `Shows each owner of the fleet: every CAPTCluster and CAPTControlPlane, and every
WorkspaceTemplateApply that stands for itself, with the WorkspaceTemplateApply and the Workspace
that are its own, and the evidence for that.

STATE tells what a migration has to do with it:
  Adopted         nothing: references and names are written already
  Adoptable       captctl migrate plan would write what is missing
  Ambiguous       a person has to decide; below the table is all that is known
  Blocked         adopting it would change something in the cloud, or take what is somebody
                  else's; below the table is what
  Skipped         a person decided to leave it
  NothingToAdopt  it needs no WorkspaceTemplateApply, or none was ever made for it

Adopted Workspaces are compared with what the manager would write. Where it would change one, a
finding (PendingChange) names object and fields: spec or template was edited while the controllers
were off.

It can be run before this version of CAPT is installed: where only v1beta1 is served, it reads
v1beta1 and converts it as the webhook would.

Nothing is written. The exit code is 0 whatever is found; captctl migrate plan has exit codes for
scripts.`,
		Example: `  # The whole fleet, with all the evidence
  captctl migrate inspect -o wide

  # One namespace, as a tree: Cluster, owners, WorkspaceTemplateApplies, Workspaces
  captctl migrate inspect -n team-a --tree

  # A picture, with Graphviz or in Markdown
  captctl migrate inspect -o dot | dot -Tsvg > fleet.svg
  captctl migrate inspect -o mermaid

  # What a person has to decide, with jq
  captctl migrate inspect -o json | jq '.owners[] | select(.state == "Ambiguous")'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.output.Add(command)
	o.add(command)
	command.Flags().BoolVar(&o.tree, "tree", false, "Show a tree for each Cluster instead of a table.")
	return command
}

// Complete has nothing to fill in.
func (o *InspectOptions) Complete([]string) error { return nil }

// Validate checks the flags.
func (o *InspectOptions) Validate() error {
	if o.tree && o.output.Format().ForMachines() {
		return errors.New("--tree is for people; leave out --output")
	}
	return errors.Join(o.output.Validate(), o.validate(o.Environment))
}

// Run looks and prints.
func (o *InspectOptions) Run(ctx context.Context) error {
	snapshot, err := read(ctx, o.Environment)
	if err != nil {
		return err
	}
	found, err := planner.Inspect(snapshot)
	if err != nil {
		return err
	}
	return o.Printer(o.output.Format()).Document(found, func(p *output.Printer) {
		switch {
		case p.Format == output.DOT:
			view.DOT(p, found)
		case p.Format == output.Mermaid:
			view.Mermaid(p, found)
		case o.tree:
			view.Tree(p, found)
		default:
			view.Inspection(p, found)
		}
	})
}
