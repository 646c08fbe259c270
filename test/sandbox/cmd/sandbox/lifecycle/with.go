// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
)

// withOptions are the options of with.
type withOptions struct {
	genericiooptions.IOStreams
	servers []string
	command []string
}

func newWithCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &withOptions{IOStreams: streams}
	return &cobra.Command{
		Use:     "with <server>[,<server>...] -- <command> [argument...]",
		Short:   "Run a command, such as go test, with control planes that its processes share",
		Example: "  sandbox with " + strings.Join(servers.Names(), ",") + " -- go test ./test/deletion",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
}

// Complete splits the arguments.
func (o *withOptions) Complete(args []string) error {
	o.servers, o.command = strings.Split(args[0], ","), args[1:]
	return nil
}

// Validate checks the names.
func (o *withOptions) Validate() error { return servers.Validate(o.servers) }

// Run starts the control planes, runs the command and stops them. If the command fails, it has said why.
func (o *withOptions) Run(ctx context.Context) error {
	dir, stop, err := servers.Start(ctx, o.ErrOut, o.servers...)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, o.command[0], o.command[1:]...)
	cmd.Env = append(os.Environ(), servers.Environment+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.In, o.Out, o.ErrOut
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // It must stop what it has started.
	failed := cmd.Run()
	if exit := (&exec.ExitError{}); errors.As(failed, &exit) {
		failed = cli.ErrReported
	}
	return errors.Join(failed, stop())
}
