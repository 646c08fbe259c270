// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planning is captctl plan.
package planning

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planning/local"
	"github.com/capt-provider/capt/cmd/captctl/planning/request"
	"github.com/capt-provider/capt/migrate"
)

type options struct {
	cli.Options
	request  request.Options
	here     local.Options
	local    bool
	clusters []client.ObjectKey
}

// New returns captctl plan.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:               "plan [[NAMESPACE/]CLUSTER...]",
		Short:             "Show what Terraform would change now, or because of edited templates",
		Long:              request.Help + "\n\n" + local.Help,
		Example:           request.Example + "\n\n" + local.Example,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: environment.Access.CompleteClusters(),
	}
	o.AddFiles(command, false)
	o.AddAllNamespaces(command)
	o.AddOutput(command, output.Markdown)
	o.request.AddFlags(command)
	command.Flags().BoolVar(&o.local, "local", false, "Run Terraform on this machine, and show values.")
	o.here.AddFlags(command)
	return cli.NewConnected(command, o)
}

func (o *options) Complete(args []string) (err error) {
	o.clusters, err = o.Keys(args)
	return err
}

func (o *options) Validate() error {
	if o.local {
		if len(o.clusters) != 1 || o.request.All || len(o.Paths) > 0 || o.Format() != output.Table {
			return errors.New("--local plans one Cluster, and prints the text of Terraform: it cannot be combined with --all, --filename and --output")
		}
		return errors.Join(o.here.Validate(), o.Options.Validate())
	}
	return errors.Join(o.here.Unused(), o.request.Validate(o.clusters, o.Paths), o.Options.Validate())
}

func (o *options) Run(ctx context.Context, connected client.WithWatch) error {
	if o.local {
		o.Namespace, o.Name = o.clusters[0].Namespace, o.clusters[0].Name
		objects, err := fleet.ObjectsOf(ctx, &o.Options, connected)
		if err != nil {
			return err
		}
		changed, err := o.here.Run(ctx, o.Environment, connected, objects)
		if err == nil && changed > 0 && o.request.DetailedExitCode {
			return migrate.Pending.Errorf("Terraform would change something in %d of the Workspaces", changed)
		}
		return err
	}
	return o.request.Run(ctx, &o.Options, connected, o.clusters)
}
