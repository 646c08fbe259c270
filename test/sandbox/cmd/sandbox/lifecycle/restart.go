// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/restart"
)

func newRestartCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return cli.NewCommand("restart", "Start the components of the sandbox that are not running, with the data they had", &dir,
		func(ctx context.Context) error { return restarted(ctx, dir, streams.Out) })
}

// restarted starts what has ended. What runs is not touched.
func restarted(ctx context.Context, dir string, out io.Writer) error {
	err := restart.Ended(ctx, dir, out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("found no sandbox in %s", cli.Relative(dir))
	case errors.Is(err, restart.ErrIncomplete):
		return fmt.Errorf("the sandbox in %s never finished starting; remove it with: %s", cli.Relative(dir), cli.Command("down", dir))
	case err != nil:
		return err
	}
	fmt.Fprintf(out, "All components of the sandbox in %s are running.\n", cli.Relative(dir))
	return nil
}
