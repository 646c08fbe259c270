// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
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
	client, err := apiserver.ClientIn(o.dir)
	if err != nil {
		return err
	}
	healthy := true
	for _, p := range recorded.Processes {
		healthy = o.part(ctx, client, p.Name, p.ID, p.Health, p.Log) && healthy
	}
	servers, err := eks.List(o.dir)
	if err != nil {
		return err
	}
	for _, server := range servers {
		id, err := server.Process()
		if err != nil {
			return err
		}
		healthy = o.part(ctx, nil, "cluster "+server.Name, id, server.Endpoint(), server.Log()) && healthy
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

// part prints one component and reports whether it is healthy. Without a client, only the process is checked.
func (o *statusOptions) part(ctx context.Context, client *http.Client, name string, id process.ID, url, log string) bool {
	if !id.Alive() {
		fmt.Fprintf(o.Out, "%-26s not running; last lines of %s:\n    %s\n", name, relative(log),
			strings.ReplaceAll(process.Tail(log, tailLines), "\n", "\n    "))
		return false
	}
	word := "running"
	if client != nil {
		word = "ready"
		if err := process.Probe(ctx, client, url); err != nil {
			word = "not ready: " + err.Error()
		}
	}
	fmt.Fprintf(o.Out, "%-26s process %-8d %s\n", name, id.PID, word)
	return word == "running" || word == "ready"
}
