// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
)

func newWithCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:     "with <server>[,<server>...] -- <command> [argument...]",
		Short:   "Run a command, such as go test, with control planes that its processes share",
		Example: "  sandbox with " + strings.Join(servers.Names(), ",") + " -- go test ./test/deletion",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			names := strings.Split(args[0], ",")
			if err := servers.Validate(names); err != nil {
				return err
			}
			return with(cmd.Context(), streams, names, args[1:])
		},
	}
}

// with starts the control planes, runs the command and stops them. If the command fails, it has said why.
func with(ctx context.Context, streams genericiooptions.IOStreams, names, command []string) error {
	dir, stop, err := servers.Start(ctx, streams.ErrOut, names...)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), servers.Environment+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.In, streams.Out, streams.ErrOut
	// The command and its children, such as the binaries that go test runs, must stop what they have started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	failed := cmd.Run()
	if exit := (&exec.ExitError{}); errors.As(failed, &exit) {
		failed = cli.ErrReported
	}
	return errors.Join(failed, stop())
}
