// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle has the commands that build, start, inspect, restart and remove a sandbox.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/cmd/sandbox/cli"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// NewCommands returns the commands of this package.
func NewCommands(streams genericiooptions.IOStreams) []*cobra.Command {
	return []*cobra.Command{
		newBuildCommand(streams), newUpCommand(streams), newStatusCommand(streams), newRestartCommand(streams),
		newDownCommand(streams), newReapCommand(streams), newWithCommand(streams),
	}
}

// Start starts a sandbox with all components. The programs that the caller needs besides them are built first, in the
// same build.
func Start(ctx context.Context, out io.Writer, dir string, audit bool) (*sandbox.Sandbox, error) {
	return sandbox.Start(ctx, sandbox.Options{
		Dir:                   dir,
		Log:                   out,
		ClusterAPI:            true,
		Provider:              true,
		Manager:               true,
		KubeControllerManager: true,
		AuditLog:              audit,
		Programs:              []string{sandbox.Kubectl, sandbox.Clusterctl},
	})
}

// Running reports whether a complete sandbox runs in a directory. A sandbox of which only some components run is an
// error that names the command which repairs it.
func Running(dir string) (bool, error) {
	recorded, err := state.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !recorded.Ready {
		return false, fmt.Errorf("the sandbox in %s has not finished starting; if no other command is starting it, remove it with: %s",
			cli.Relative(dir), cli.Command("down", dir))
	}
	for _, p := range recorded.Processes {
		if !p.Alive() {
			return false, fmt.Errorf("%s of the sandbox in %s is not running; see its log in %s and start it again with: %s",
				p.Name, cli.Relative(dir), cli.Relative(p.Log), cli.Command("restart", dir))
		}
	}
	return true, nil
}
