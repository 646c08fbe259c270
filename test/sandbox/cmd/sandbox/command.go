// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// errReported ends the command with a failure about which everything has been said already.
var errReported = errors.New("reported")

// defaultDir is the folder of the sandbox that a person starts. It is ignored by git.
const defaultDir = ".sandbox"

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "A real management cluster's control plane on this machine, without containers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.AddCommand(
		newBuildCommand(streams),
		newUpCommand(streams),
		newStatusCommand(streams),
		newDownCommand(streams),
		newQuickstartCommand(streams),
		newQuickstartDownCommand(streams),
		newEKSCommand(streams),
		newReapCommand(streams),
	)
	return cmd
}

// runner is the shape of every command: fill in what was not given, check it, do it.
type runner interface {
	Complete(args []string) error
	Validate() error
}

// prepare runs the two steps that come before every Run.
func prepare(r runner, args []string) error {
	if err := r.Complete(args); err != nil {
		return err
	}
	return r.Validate()
}
