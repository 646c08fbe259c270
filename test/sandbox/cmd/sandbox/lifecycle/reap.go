// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/reaper"
)

// reapOptions are the options of the hidden command reap (see package reaper).
type reapOptions struct {
	genericiooptions.IOStreams
	dir    string
	remove bool
}

func newReapCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &reapOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:    reaper.Verb,
		Short:  "Clean up after a sandbox when standard input is closed",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := cli.Prepare(o, args); err != nil {
				return err
			}
			return o.Run()
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", "", "directory of the sandbox")
	cmd.Flags().BoolVar(&o.remove, "remove", false, "remove the directory at the end")
	return cmd
}

// Complete has nothing to fill in.
func (o *reapOptions) Complete([]string) error { return nil }

// Validate checks what was given.
func (o *reapOptions) Validate() error {
	if o.dir == "" {
		return errors.New("--dir is required")
	}
	return nil
}

// Run waits and cleans up. Signals that end its owner must not end it.
func (o *reapOptions) Run() error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	return reaper.Run(o.In, o.Out, o.dir, o.remove)
}
