// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// upOptions are the options of up.
type upOptions struct {
	genericiooptions.IOStreams
	dir   string
	audit bool
}

func newUpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &upOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start the sandbox and leave it running",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := prepare(o, args); err != nil {
				return err
			}
			return o.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.dir, "dir", defaultDir, "folder of the sandbox")
	cmd.Flags().BoolVar(&o.audit, "audit-log", false, "log every request to the API server")
	return cmd
}

// Complete makes the folder absolute: the processes outlive the working directory.
func (o *upOptions) Complete([]string) (err error) {
	o.dir, err = filepath.Abs(o.dir)
	return err
}

// Validate has nothing to check.
func (o *upOptions) Validate() error { return nil }

// Run starts everything, or says that it runs already.
func (o *upOptions) Run(ctx context.Context) error {
	running, err := isRunning(o.dir)
	if err != nil {
		return err
	}
	if !running {
		s, err := startAll(ctx, o.Out, o.dir, o.audit)
		if err != nil {
			return err
		}
		if err := s.Detach(); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, `The sandbox runs in %[1]s.

  export KUBECONFIG=%[2]s
  kubectl apply -f config/samples/sandbox

sandbox status shows its parts, sandbox down stops and removes it.
`, relative(o.dir), relative(filepath.Join(o.dir, "kubeconfig")))
	return nil
}

// startAll starts a sandbox with everything in it, and builds what a person needs beside it.
func startAll(ctx context.Context, out io.Writer, dir string, audit bool) (*sandbox.Sandbox, error) {
	if err := sandbox.Build(ctx, out, sandbox.Kubectl, sandbox.Clusterctl); err != nil {
		return nil, err
	}
	return sandbox.Start(ctx, sandbox.Options{
		Dir:                   dir,
		Log:                   out,
		ClusterAPI:            true,
		Provider:              true,
		Manager:               true,
		KubeControllerManager: true,
		AuditLog:              audit,
	})
}

// isRunning says whether a complete sandbox runs in the folder. One of which only parts run is an error: to start it
// again would lose what is in it, which is for its user to decide.
func isRunning(dir string) (bool, error) {
	recorded, err := state.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !recorded.Ready {
		return false, fmt.Errorf("the sandbox in %s is being started or was not started completely: run sandbox down first", relative(dir))
	}
	for _, p := range recorded.Processes {
		if !p.Alive() {
			return false, fmt.Errorf("%s of the sandbox in %s does not run any more: see sandbox status, then run sandbox down",
				p.Name, relative(dir))
		}
	}
	return true, nil
}

// relative shortens a path for people.
func relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(wd, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}
