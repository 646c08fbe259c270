// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
)

// upOptions are the options of up.
type upOptions struct {
	genericiooptions.IOStreams
	dir   string
	audit bool
}

func newUpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &upOptions{IOStreams: streams}
	cmd := cli.NewCommand("up", "Start the sandbox and leave it running", &o.dir, o.Run)
	cmd.Flags().BoolVar(&o.audit, "audit-log", false, "log every request to the API server")
	return cmd
}

// Run starts everything, unless it is already running.
func (o *upOptions) Run(ctx context.Context) error {
	running, err := Running(o.dir)
	if err != nil {
		return err
	}
	if !running {
		s, err := Start(ctx, o.Out, o.dir, o.audit)
		if err != nil {
			return err
		}
		if err := s.Detach(); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, `
The sandbox is running in %s. Next steps:

  source %s    # KUBECONFIG and PATH for kubectl and clusterctl
  kubectl apply -f config/samples/sandbox    # create a cluster
  %s    # show the components of the sandbox
  %s    # destroy all clusters and remove the sandbox
`, cli.Relative(o.dir), cli.Relative(sandbox.EnvFile(o.dir)), cli.Command("status", o.dir), cli.Command("quickstart-down", o.dir))
	return nil
}
