// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox/apiserver"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// tailLines is how much of its log a dead part shows.
const tailLines = 10

// statusOptions are the options of status.
type statusOptions struct {
	genericiooptions.IOStreams
	dir string
}

func newStatusCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &statusOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show which parts of the sandbox run, and the end of the log of those that do not",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", defaultDir, "folder of the sandbox")
	return cmd
}

// Complete makes the folder absolute.
func (o *statusOptions) Complete([]string) (err error) {
	o.dir, err = filepath.Abs(o.dir)
	return err
}

// Validate has nothing to check.
func (o *statusOptions) Validate() error { return nil }

// Run prints a line for each part. It fails if one of them is dead.
func (o *statusOptions) Run(ctx context.Context) error {
	recorded, err := state.Load(o.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no sandbox in %s", relative(o.dir))
	}
	if err != nil {
		return err
	}
	client := http.DefaultClient
	if bundle, err := os.ReadFile(filepath.Join(o.dir, "pki", "ca.crt")); err == nil {
		client = apiserver.Client(bundle)
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

// part prints one part and says whether it is well. Without a client, its health is not asked for.
func (o *statusOptions) part(ctx context.Context, client *http.Client, name string, id process.ID, url, log string) bool {
	if !id.Alive() {
		fmt.Fprintf(o.Out, "%-26s dead; the end of %s:\n    %s\n", name, relative(log),
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
