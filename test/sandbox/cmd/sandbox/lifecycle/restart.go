// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/restart"
)

// restartOptions are the options of restart.
type restartOptions struct {
	genericiooptions.IOStreams
	dir string
}

func newRestartCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &restartOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "restart",
		Short: "Start the components of the sandbox that are not running, with the data they had",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.Prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", cli.DefaultDir, "directory of the sandbox")
	return cmd
}

// Complete makes the directory absolute: the processes outlive the working directory.
func (o *restartOptions) Complete([]string) (err error) {
	o.dir, err = filepath.Abs(o.dir)
	return err
}

// Validate has nothing to check.
func (o *restartOptions) Validate() error { return nil }

// Run starts what has ended. What runs is not touched.
func (o *restartOptions) Run(ctx context.Context) error {
	err := restart.Ended(ctx, o.dir, o.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("found no sandbox in %s", cli.Relative(o.dir))
	case errors.Is(err, restart.ErrIncomplete):
		return fmt.Errorf("the sandbox in %s never finished starting; remove it with: %s", cli.Relative(o.dir), cli.Command("down", o.dir))
	case err != nil:
		return err
	}
	fmt.Fprintf(o.Out, "All components of the sandbox in %s are running.\n", cli.Relative(o.dir))
	return nil
}
