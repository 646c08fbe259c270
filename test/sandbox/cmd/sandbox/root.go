// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/ekscommand"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/lifecycle"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/quickstart"
)

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
