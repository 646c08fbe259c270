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
	"github.com/capt-provider/capt/cmd/captctl/planning/local"
	"github.com/capt-provider/capt/migrate"
)

type options struct {
	cli.Options
	here             local.Options
	local            bool
	detailedExitCode bool
}

// New returns captctl plan.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "plan [NAMESPACE/]CLUSTER --local",
		Short: "Show what Terraform would change in a Cluster now",
		Long:  local.Help,
		Example: `  captctl plan team-a/demo --local
  captctl plan team-a/demo --local --role controlplane --detailed-exitcode

  # With the credentials of the ProviderConfig, and another program
  captctl plan team-a/demo --local --provider-credentials --terraform ~/bin/terraform`,
	}
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	command.Flags().BoolVar(&o.local, "local", false, "Run Terraform on this machine.")
	command.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if Terraform would change something.")
	o.here.AddFlags(command)
	return cli.NewConnected(command, o)
}

func (o *options) Validate() error {
	if !o.local {
		return errors.New("--local is required: Terraform runs on this machine")
	}
	return errors.Join(o.here.Validate(), o.Options.Validate())
}

func (o *options) Run(ctx context.Context, connected client.WithWatch) error {
	objects, err := fleet.ObjectsOf(ctx, &o.Options, connected)
	if err != nil {
		return err
	}
	changed, err := o.here.Run(ctx, o.Environment, connected, objects)
	if err == nil && changed > 0 && o.detailedExitCode {
		return migrate.Pending.Errorf("Terraform would change something in %d of the Workspaces", changed)
	}
	return err
}
