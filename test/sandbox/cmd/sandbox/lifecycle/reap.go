// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/reaper"
)

// newReapCommand is hidden (see package reaper). Signals that end its owner must not end it.
func newReapCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var (
		dir    string
		remove bool
	)
	cmd := cli.NewCommand(reaper.Verb, "Clean up after a sandbox when standard input is closed", &dir, func(context.Context) error {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		return reaper.Run(streams.In, streams.Out, dir, remove)
	})
	cmd.Hidden = true
	_ = cmd.MarkFlagRequired("dir")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the directory at the end")
	return cmd
}
