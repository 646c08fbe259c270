// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// common are the options of all commands of the package.
type common struct {
	*cli.Environment
	output *output.Flag
	watch  bool
}

func newCommon(environment *cli.Environment) common {
	return common{Environment: environment, output: output.NewFlag()}
}

func (c *common) addFlags(command *cobra.Command) {
	command.Flags().BoolVarP(&c.watch, "watch", "w", false, "Print the output again whenever it changes.")
	c.output.Add(command)
}

// Validate checks the flags.
func (c *common) Validate() error { return c.output.Validate() }

// getOptions are the options of get.
type getOptions struct{ common }

// NewGet returns captctl get.
func NewGet(environment *cli.Environment) *cobra.Command {
	o := &getOptions{newCommon(environment)}
	command := &cobra.Command{
		Use:   "get",
		Short: "List the Clusters, their state, and what they wait for",
		Long: `Lists the Clusters of CAPT with the state, the version, the health and the progress of their control
planes. MESSAGE is the first condition that explains why a Cluster is not Ready: the error of
Terraform, or the object that everything else waits for. captctl describe shows the rest.

PROGRESS is an estimate between two steps, based on the duration of earlier operations.`,
		Example: `  # The whole fleet
  captctl get

  # One namespace, until interrupted
  captctl get -n team-a --watch

  # The Clusters that are not Ready, for a program
  captctl get -o json | jq '.clusters[] | select(.cause) | {namespace, name, cause}'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.addFlags(command)
	return command
}

// Complete has nothing to fill in.
func (o *getOptions) Complete([]string) error { return nil }

// Run reads and prints, once or until it is interrupted.
func (o *getOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	return show(ctx, &o.common, reader, func(ctx context.Context) ([]*overview.Objects, error) {
		return read(ctx, reader, o.Access.Only())
	}, func(p *output.Printer, fleet []*overview.Objects) error {
		list := &ClusterList{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ClusterList"}, Clusters: []overview.Cluster{}}
		for _, objects := range fleet {
			list.Clusters = append(list.Clusters, overview.Of(objects, o.now()))
		}
		return p.Document(list, func(p *output.Printer) { showClusters(p, list, o.Clock.Now()) })
	})
}
