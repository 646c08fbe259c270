// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox runs the control plane of a management cluster on this machine, without containers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/ekscommand"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/lifecycle"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/quickstart"
)

func main() {
	// Without a logger, controller-runtime prints a stack trace after 30 seconds.
	ctrllog.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := newCommand(streams).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
		return
	case errors.Is(err, cli.ErrReported):
	case interrupted:
		fmt.Fprintf(os.Stderr, "Interrupted (%v).\n", err)
	default:
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(1)
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "The control plane of a management cluster on this machine, without containers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.AddCommand(lifecycle.NewCommands(streams)...)
	cmd.AddCommand(quickstart.NewCommands(streams)...)
	cmd.AddCommand(ekscommand.NewCommand(streams))
	return cmd
}
