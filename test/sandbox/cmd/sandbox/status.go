// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// tailLines is the number of log lines printed for a component that is not running.
const tailLines = 10

// statusOptions are the options of status.
type statusOptions struct {
	genericiooptions.IOStreams
	dir string
}

func newStatusCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &statusOptions{IOStreams: streams}
	return newDirCommand("status", "Show the components of the sandbox, and the last log lines of those that are not running", &o.dir, o.Run)
}

// Run prints one line per component. It fails if a component is not running or not ready.
func (o *statusOptions) Run(ctx context.Context) error {
	recorded, err := state.Load(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("found no sandbox in %s", relative(o.dir))
	}
	if err != nil {
		return err
	}
	healthy := true
	for i := range recorded.Processes {
		healthy = o.part(ctx, &recorded.Processes[i]) && healthy
	}
	servers, err := eks.List(o.dir)
	if err != nil {
		return err
	}
	for _, server := range servers {
		recorded, err := server.Recorded()
		if err != nil {
			return err
		}
		healthy = o.part(ctx, &recorded.Processes[0]) && healthy
		if err := o.profiles(server); err != nil {
			return err
		}
	}
	if !healthy {
		fmt.Fprintf(o.Out, "\nStart the components that are not running with: %s\n", commandLine("restart", o.dir))
		return errReported
	}
	return nil
}

// profiles prints the Fargate profiles of a cluster.
func (o *statusOptions) profiles(server eks.Server) error {
	profiles, err := server.FargateProfiles()
	for _, profile := range profiles {
		fmt.Fprintf(o.Out, "%-26s %s\n", "  Fargate profile "+profile.Name, profile.Status)
	}
	return err
}

// part prints one component and reports whether it is healthy.
func (o *statusOptions) part(ctx context.Context, p *state.Process) bool {
	if !p.Alive() {
		fmt.Fprintf(o.Out, "%-26s not running; last lines of %s:\n    %s\n", p.Name, relative(p.Log),
			strings.ReplaceAll(process.Tail(p.Log, tailLines), "\n", "\n    "))
		return false
	}
	word, err := "ready", p.Probe(ctx)
	if err != nil {
		word = "not ready: " + err.Error()
	}
	fmt.Fprintf(o.Out, "%-26s process %-8d %s\n", p.Name, p.PID, word)
	return err == nil
}
