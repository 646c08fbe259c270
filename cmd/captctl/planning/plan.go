// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package planning is captctl plan.
package planning

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/planning/request"
)

type options struct {
	cli.Options
	request  request.Options
	clusters []string
}

// New returns captctl plan.
func New(environment *cli.Environment) *cobra.Command {
	o := &options{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:               "plan [[NAMESPACE/]CLUSTER...]",
		Short:             "Show what Terraform would change now, or because of edited templates",
		Long:              request.Help,
		Example:           request.Example,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: environment.Access.CompleteClusters(),
	}
	o.AddFiles(command, false)
	o.AddAllNamespaces(command)
	o.AddOutput(command, output.Markdown)
	o.request.AddFlags(command)
	return cli.NewConnected(command, o)
}

func (o *options) Complete(args []string) error {
	o.clusters = args
	return nil
}

func (o *options) Validate() error {
	return errors.Join(o.request.Validate(o.clusters, o.Paths), o.Options.Validate())
}

func (o *options) Run(ctx context.Context, connected client.WithWatch) error {
	namespace, _, err := o.Access.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	var clusters []client.ObjectKey
	for _, cluster := range o.clusters {
		key := client.ObjectKey{Namespace: namespace, Name: cluster}
		if of, name, qualified := strings.Cut(cluster, "/"); qualified {
			key = client.ObjectKey{Namespace: of, Name: name}
		}
		clusters = append(clusters, key)
	}
	return o.request.Run(ctx, &o.Options, connected, clusters)
}
