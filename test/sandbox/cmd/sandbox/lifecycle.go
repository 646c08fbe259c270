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
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// isRunning reports whether a complete sandbox runs in a directory. A sandbox of which only some components run is an
// error that names the command which repairs it.
func isRunning(dir string) (bool, error) {
	recorded, err := state.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !recorded.Ready {
		return false, fmt.Errorf("the sandbox in %s has not finished starting; if no other command is starting it, remove it with: %s",
			relative(dir), commandLine("down", dir))
	}
	for _, p := range recorded.Processes {
		if !p.Alive() {
			return false, fmt.Errorf("%s of the sandbox in %s is not running; see its log in %s and start it again with: %s",
				p.Name, relative(dir), relative(p.Log), commandLine("restart", dir))
		}
	}
	return true, nil
}

func newBuildCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:       "build [binary...]",
		Short:     "Build the programs of the sandbox that are missing",
		ValidArgs: binaries.Names(),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return sandbox.Build(cmd.Context(), streams.Out, args...)
		},
	}
}

// upOptions are the options of up.
type upOptions struct {
	genericiooptions.IOStreams
	dir   string
	audit bool
}

func newUpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &upOptions{IOStreams: streams}
	cmd := newDirCommand("up", "Start the sandbox and leave it running", &o.dir, o.Run)
	cmd.Flags().BoolVar(&o.audit, "audit-log", false, "log every request to the API server")
	return cmd
}

// Run starts everything, unless it is already running.
func (o *upOptions) Run(ctx context.Context) error {
	running, err := isRunning(o.dir)
	if err != nil {
		return err
	}
	if !running {
		s, err := sandbox.Start(ctx, sandbox.Options{
			Dir: o.dir, Log: o.Out, AuditLog: o.audit, ClusterAPI: true, Provider: true, Manager: true, KubeControllerManager: true,
			// They are built first, in the same build.
			Programs: []string{sandbox.Kubectl, sandbox.Clusterctl, sandbox.Captctl},
		})
		if err != nil {
			return err
		}
		if err := s.Detach(); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, `
The sandbox is running in %s. Next steps:

  source %s    # KUBECONFIG and PATH for kubectl, clusterctl and captctl
  kubectl apply -f config/samples/sandbox    # create a cluster
  %s    # show the components of the sandbox
  %s    # stop and remove the sandbox
`, relative(o.dir), relative(sandbox.EnvFile(o.dir)), commandLine("status", o.dir), commandLine("down", o.dir))
	return nil
}

func newDownCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return newDirCommand("down", "Stop the sandbox and remove its directory, without destroying clusters through Terraform", &dir,
		func(context.Context) error { return down(dir, streams.Out) })
}

// down stops the processes that the sandbox in a directory has recorded, and removes the directory. A directory without
// a record is not a sandbox and is not touched.
func down(dir string, out io.Writer) error {
	if _, err := state.Load(dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "Found no sandbox in %s.\n", relative(dir))
		return nil
	}
	if err := state.Remove(dir, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "Removed the sandbox in %s.\n", relative(dir))
	return nil
}

// newReapCommand is hidden (see state.StartReaper). Signals that end its owner must not end it.
func newReapCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var (
		dir    string
		remove bool
	)
	cmd := newDirCommand(state.ReapVerb, "Clean up after a sandbox when standard input is closed", &dir, func(context.Context) error {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		return state.Reap(streams.In, streams.Out, dir, remove)
	})
	cmd.Hidden = true
	_ = cmd.MarkFlagRequired("dir")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the directory at the end")
	return cmd
}

func newRestartCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return newDirCommand("restart", "Start the components of the sandbox that are not running, with the data they had", &dir,
		func(ctx context.Context) error { return restarted(ctx, dir, streams.Out) })
}

// restarted starts what has ended. What runs is not touched.
func restarted(ctx context.Context, dir string, out io.Writer) error {
	err := state.Restart(ctx, dir, out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("found no sandbox in %s", relative(dir))
	case errors.Is(err, state.ErrIncomplete):
		return fmt.Errorf("the sandbox in %s never finished starting; remove it with: %s", relative(dir), commandLine("down", dir))
	case err != nil:
		return err
	}
	fmt.Fprintf(out, "All components of the sandbox in %s are running.\n", relative(dir))
	return nil
}

func newWithCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:     "with <server>[,<server>...] -- <command> [argument...]",
		Short:   "Run a command, such as go test, with control planes that its processes share",
		Example: "  sandbox with " + strings.Join(servers.Names(), ",") + " -- go test ./test/deletion",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			names := strings.Split(args[0], ",")
			if err := servers.Validate(names); err != nil {
				return err
			}
			return with(cmd.Context(), streams, names, args[1:])
		},
	}
}

// with starts the control planes, runs the command and stops them. If the command fails, it has said why.
func with(ctx context.Context, streams genericiooptions.IOStreams, names, command []string) error {
	dir, stop, err := servers.Start(ctx, streams.ErrOut, names...)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), servers.Environment+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = streams.In, streams.Out, streams.ErrOut
	// The command and its children, such as the binaries that go test runs, must stop what they have started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	failed := cmd.Run()
	if exit := (&exec.ExitError{}); errors.As(failed, &exit) {
		failed = errReported
	}
	return errors.Join(failed, stop())
}

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
