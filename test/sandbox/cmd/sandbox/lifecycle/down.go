// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
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
		Short: "Stop the sandbox and remove its directory, without destroying clusters through Terraform",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := cli.Prepare(o, args); err != nil {
				return err
			}
			return Down(o.dir, o.IOStreams)
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", cli.DefaultDir, "directory of the sandbox")
	return cmd
}

// Complete makes the directory absolute.
func (o *downOptions) Complete([]string) (err error) {
	o.dir, err = filepath.Abs(o.dir)
	return err
}

// Validate has nothing to check.
func (o *downOptions) Validate() error { return nil }

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
