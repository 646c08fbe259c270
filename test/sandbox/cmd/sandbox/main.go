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
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// errReported ends a command whose failure has already been printed.
var errReported = errors.New("reported")

// defaultDir is the directory of the sandbox that make quickstart and make sandbox-up start. Git ignores it.
const defaultDir = ".sandbox"

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
	case errors.Is(err, errReported):
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
	cmd.AddCommand(
		newBuildCommand(streams), newUpCommand(streams), newStatusCommand(streams), newRestartCommand(streams),
		newDownCommand(streams), newReapCommand(streams), newWithCommand(streams), newEKSCommand(streams),
	)
	return cmd
}

// newDirCommand returns a command without arguments for the sandbox in a directory. The directory becomes absolute before the steps run,
// because processes outlive the working directory.
func newDirCommand(verb, short string, dir *string, steps ...func(ctx context.Context) error) *cobra.Command {
	cmd := &cobra.Command{Use: verb, Short: short, Args: cobra.NoArgs}
	cmd.Flags().StringVar(dir, "dir", defaultDir, "directory of the sandbox")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		*dir, err = filepath.Abs(*dir)
		for _, step := range steps {
			if err == nil {
				err = step(cmd.Context())
			}
		}
		return err
	}
	return cmd
}

// relative shortens a path below the working directory.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(wd, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}

// commandLine is a command line of this program that can be pasted into the shell from which the program was called.
func commandLine(verb, dir string) string {
	program, err := os.Executable()
	if err != nil {
		program = "sandbox"
	}
	line := relative(program) + " " + verb
	if dir := relative(dir); dir != defaultDir {
		line += " --dir " + dir
	}
	return line
}
