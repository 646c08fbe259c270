// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/state"
	"github.com/capt-provider/capt/test/sandbox/teardown"
)

// downOptions are the options of down.
type downOptions struct {
	genericiooptions.IOStreams
	dir string
}

func newDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &downOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the sandbox and remove its folder, and nothing else",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := prepare(o, args); err != nil {
				return err
			}
			return o.Run()
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", defaultDir, "folder of the sandbox")
	return cmd
}

// Complete makes the folder absolute.
func (o *downOptions) Complete([]string) (err error) {
	o.dir, err = filepath.Abs(o.dir)
	return err
}

// Validate has nothing to check.
func (o *downOptions) Validate() error { return nil }

// Run stops what is recorded. A folder without a record is not a sandbox, and is not touched.
func (o *downOptions) Run() error {
	if _, err := state.Load(o.dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(o.Out, "There is no sandbox in %s.\n", relative(o.dir))
		return nil
	}
	if err := teardown.Remove(o.dir, o.Out); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "The sandbox in %s is gone.\n", relative(o.dir))
	return nil
}
