// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/state"
	"github.com/capt-provider/capt/test/sandbox/teardown"
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

  source %s    # KUBECONFIG and PATH for kubectl, clusterctl and captctl
  kubectl apply -f config/samples/sandbox    # create a cluster
  %s    # show the components of the sandbox
  %s    # destroy all clusters and remove the sandbox
`, cli.Relative(o.dir), cli.Relative(sandbox.EnvFile(o.dir)), cli.Command("status", o.dir), cli.Command("quickstart-down", o.dir))
	return nil
}

func newDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return cli.NewCommand("down", "Stop the sandbox and remove its directory, without destroying clusters through Terraform", &dir,
		func(context.Context) error { return Down(dir, streams) })
}

// Down stops the processes that the sandbox in a directory has recorded, and removes the directory. A directory without
// a record is not a sandbox and is not touched.
func Down(dir string, streams genericiooptions.IOStreams) error {
	if _, err := state.Load(dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(streams.Out, "Found no sandbox in %s.\n", cli.Relative(dir))
		return nil
	}
	if err := teardown.Remove(dir, streams.Out); err != nil {
		return err
	}
	fmt.Fprintf(streams.Out, "Removed the sandbox in %s.\n", cli.Relative(dir))
	return nil
}
