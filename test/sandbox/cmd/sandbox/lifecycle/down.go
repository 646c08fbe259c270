// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/state"
	"github.com/capt-provider/capt/test/sandbox/teardown"
)

func newDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return cli.NewCommand("down", "Stop the sandbox and remove its directory, without destroying clusters through Terraform", &dir,
		func(context.Context) error { return Down(dir, streams) })
}

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
