// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Command sandbox runs the control plane of a management cluster on this machine, without containers.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capt-provider/capt/test/fixture/servers"
	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/binaries"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/kubelet"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// errReported ends a command whose failure has already been printed.
var errReported = errors.New("reported")

// defaultDir is the directory of the sandbox that make quickstart and make sandbox-up start. Git ignores it.
const defaultDir = ".sandbox"

func main() {
	// Without a logger, controller-runtime prints a stack trace after 30 seconds.
	ctrllog.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	err := newCommand(streams).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
		return
	case errors.Is(err, errReported):
	case interrupted:
		fmt.Fprintf(os.Stderr, "Interrupted (%v).\n", err)
	default:
		fmt.Fprintln(os.Stderr, "Error:", err)
	}
	os.Exit(1)
}

func newCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "The control plane of a management cluster on this machine, without containers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	cmd.AddCommand(
		newBuildCommand(streams), newUpCommand(streams), newStatusCommand(streams), newRestartCommand(streams),
		newDownCommand(streams), newReapCommand(streams), newWithCommand(streams), newEKSCommand(streams), newKubeletCommand(),
	)
	return cmd
}

// newDirCommand returns a command without arguments for the sandbox in a directory. The directory becomes absolute before the steps run,
// because processes outlive the working directory.
func newDirCommand(verb, short string, dir *string, steps ...func(ctx context.Context) error) *cobra.Command {
	cmd := &cobra.Command{Use: verb, Short: short, Args: cobra.NoArgs}
	cmd.Flags().StringVar(dir, "dir", defaultDir, "directory of the sandbox")
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		*dir, err = filepath.Abs(*dir)
		for _, step := range steps {
			if err == nil {
				err = step(cmd.Context())
			}
		}
		return err
	}
	return cmd
}

// relative shortens a path below the working directory.
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

// commandLine is a command line of this program that can be pasted into the shell from which the program was called.
func commandLine(verb, dir string) string {
	program, err := os.Executable()
	if err != nil {
		program = "sandbox"
	}
	line := relative(program) + " " + verb
	if dir := relative(dir); dir != defaultDir {
		line += " --dir " + dir
	}
	return line
}

// isRunning reports whether a complete sandbox runs in a directory. A sandbox of which only some components run is an
// error that names the command which repairs it.
func isRunning(dir string) (bool, error) {
	recorded, err := process.Load(dir)
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

func newUpCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	var auditLog bool
	cmd := newDirCommand("up", "Start the sandbox and leave it running", &dir, func(ctx context.Context) error { return up(ctx, streams.Out, dir, auditLog) })
	cmd.Flags().BoolVar(&auditLog, "audit-log", false, "log every request to the API server")
	return cmd
}

// up starts everything, unless it is already running.
func up(ctx context.Context, out io.Writer, dir string, auditLog bool) error {
	running, err := isRunning(dir)
	if err != nil {
		return err
	}
	if !running {
		s, err := sandbox.Start(ctx, sandbox.Options{
			Dir: dir, Log: out, AuditLog: auditLog, ClusterAPI: true, Provider: true, ProviderPod: true, Manager: true, KubeControllerManager: true,
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
	fmt.Fprintf(out, `
The sandbox is running in %s. Next steps:

  source %s    # KUBECONFIG and PATH for kubectl, clusterctl and captctl
  kubectl apply -f config/samples/sandbox    # create a cluster
  %s    # show the components of the sandbox
  %s    # stop and remove the sandbox
`, relative(dir), relative(sandbox.EnvFile(dir)), commandLine("status", dir), commandLine("down", dir))
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
	if _, err := process.Load(dir); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(out, "Found no sandbox in %s.\n", relative(dir))
		return nil
	}
	if err := process.Remove(dir, out); err != nil {
		return err
	}
	fmt.Fprintf(out, "Removed the sandbox in %s.\n", relative(dir))
	return nil
}

// newReapCommand is hidden (see process.StartReaper). Signals that end its owner must not end it.
func newReapCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var (
		dir    string
		remove bool
	)
	cmd := newDirCommand(process.ReapVerb, "Clean up after a sandbox when standard input is closed", &dir, func(context.Context) error {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		return process.Reap(streams.In, streams.Out, dir, remove)
	})
	cmd.Hidden = true
	_ = cmd.MarkFlagRequired("dir")
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the directory at the end")
	return cmd
}

// newKubeletCommand is hidden: the sandbox starts it as a component.
func newKubeletCommand() *cobra.Command {
	o := kubelet.Options{}
	cmd := &cobra.Command{Use: kubelet.Verb, Hidden: true, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return kubelet.Run(cmd.Context(), o)
	}}
	cmd.Flags().StringVar(&o.Address, "address", "", "address to listen on")
	cmd.Flags().StringVar(&o.CertDir, "cert-dir", "", "directory with tls.crt and tls.key")
	cmd.Flags().StringVar(&o.ClientCA, "client-ca", "", "authority of the API server's client certificate")
	cmd.Flags().StringToStringVar(&o.Logs, "log", nil, "log files by namespace/pod/container")
	return cmd
}

func newRestartCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return newDirCommand("restart", "Start the components of the sandbox that are not running, with the data they had", &dir,
		func(ctx context.Context) error { return restarted(ctx, dir, streams.Out) })
}

// restarted starts what has ended. What runs is not touched.
func restarted(ctx context.Context, dir string, out io.Writer) error {
	err := process.RestartAll(ctx, dir, out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("found no sandbox in %s", relative(dir))
	case errors.Is(err, process.ErrIncomplete):
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

func newStatusCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	return newDirCommand("status", "Show the components of the sandbox, and the last log lines of those that are not running", &dir,
		func(ctx context.Context) error { return status(ctx, streams.Out, dir) })
}

// status prints one line per component. It fails if a component is not running or not ready.
func status(ctx context.Context, out io.Writer, dir string) error {
	recorded, err := process.Load(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("found no sandbox in %s", relative(dir))
	}
	if err != nil {
		return err
	}
	healthy := true
	for i := range recorded.Processes {
		healthy = part(ctx, out, &recorded.Processes[i]) && healthy
	}
	servers, err := eks.List(dir)
	if err != nil {
		return err
	}
	for _, server := range servers {
		recorded, err := server.Recorded()
		if err != nil {
			return err
		}
		for i := range recorded.Processes {
			healthy = part(ctx, out, &recorded.Processes[i]) && healthy
		}
		if err := errors.Join(profiles(out, server), nodeGroups(out, server)); err != nil {
			return err
		}
	}
	if !healthy {
		fmt.Fprintf(out, "\nStart the components that are not running with: %s\n", commandLine("restart", dir))
		return errReported
	}
	return nil
}

func profiles(out io.Writer, server eks.Server) error {
	all, err := server.FargateProfiles()
	for _, profile := range all {
		fmt.Fprintf(out, "%-26s %s\n", "  Fargate profile "+profile.Name, profile.Status)
	}
	return err
}

// part prints one component and reports whether it is healthy.
func part(ctx context.Context, out io.Writer, p *process.Recorded) bool {
	if !p.Alive() {
		fmt.Fprintf(out, "%-26s not running; last lines of %s:\n    %s\n", p.Name, relative(p.Log),
			strings.ReplaceAll(process.Tail(p.Log, tailLines), "\n", "\n    "))
		return false
	}
	word, err := "ready", p.Probe(ctx)
	if err != nil {
		word = "not ready: " + err.Error()
	}
	fmt.Fprintf(out, "%-26s process %-8d %s\n", p.Name, p.PID, word)
	return err == nil
}

// clusterTimeout limits how long a cluster may take to start or stop.
const clusterTimeout = 5 * time.Minute

// newEKSCommand returns the commands that the sandbox's Terraform modules call in place of the EKS API.
func newEKSCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eks",
		Short: "Manage simulated EKS clusters; called by the sandbox's Terraform modules",
	}
	cmd.AddCommand(
		newEKSVerb(streams, true, "start", "Start a cluster or change its version"),
		newEKSVerb(streams, false, "stop", "Stop a cluster and remove its data"),
		newFargateVerb(true, "create-fargate-profile", "Create a Fargate profile of a cluster"),
		newFargateVerb(false, "delete-fargate-profile", "Delete a Fargate profile of a cluster"),
	)
	cmd.AddCommand(newNodeGroupCommands(streams)...)
	return cmd
}

func newEKSVerb(streams genericiooptions.IOStreams, start bool, verb, short string) *cobra.Command {
	var server eks.Server
	var version string
	cmd := newDirCommand(verb, short, &server.Dir, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
		defer cancel()
		switch {
		case start && version == "":
			return errors.New("--version is required")
		case !start:
			if err := server.Stop(ctx); err != nil {
				return err
			}
			fmt.Fprintf(streams.Out, "stopped cluster %s\n", server.Name)
			return nil
		}
		if err := server.Start(ctx, version); err != nil {
			return err
		}
		fmt.Fprintf(streams.Out, "cluster %s runs Kubernetes %s at %s\n", server.Name, version, server.Endpoint())
		return nil
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	if start {
		cmd.Flags().StringVar(&version, "version", "", "Kubernetes version, for example 1.35")
	}
	return cmd
}

// profileDuration is how long creating or deleting a Fargate profile takes. It takes minutes in EKS. It must not be zero
// here: otherwise two operations would never overlap.
const profileDuration = time.Second

func newFargateVerb(create bool, verb, short string) *cobra.Command {
	var server eks.Server
	var profile eks.FargateProfile
	var selectors, subnets string
	var takes time.Duration
	cmd := newDirCommand(verb, short, &server.Dir, func(ctx context.Context) error {
		if err := errors.Join(server.Validate(), profile.Validate()); err != nil {
			return err
		}
		if !create {
			return server.DeleteFargateProfile(ctx, profile.Name, takes)
		}
		if err := json.Unmarshal([]byte(selectors), &profile.Selectors); err != nil {
			return fmt.Errorf("--selectors: %w", err)
		}
		if err := json.Unmarshal([]byte(subnets), &profile.Subnets); err != nil {
			return fmt.Errorf("--subnets: %w", err)
		}
		return server.CreateFargateProfile(ctx, profile, takes)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&profile.Name, "profile", "", "name of the Fargate profile")
	cmd.Flags().DurationVar(&takes, "takes", profileDuration, "duration of the operation")
	if create {
		cmd.Flags().StringVar(&selectors, "selectors", "[]", "JSON list of objects with a namespace and optional labels")
		cmd.Flags().StringVar(&subnets, "subnets", "[]", "JSON list of private subnet IDs")
	}
	return cmd
}

// newNodeGroupCommands returns the commands of Terraform modules, and those that change or break what Terraform has created.
func newNodeGroupCommands(streams genericiooptions.IOStreams) []*cobra.Command {
	return []*cobra.Command{
		newApplyNodeGroupCommand(),
		newDeleteNodeGroupCommand(),
		newDescribeNodeGroupsCommand(streams),
		newScaleNodeGroupCommand(),
		newBreakNodeGroupCommand(),
		newBreakNodeCommand(true, "break-node", "Make a node NotReady until it is repaired"),
		newBreakNodeCommand(false, "repair-node", "Make a broken node Ready again"),
	}
}

func newNodeGroupCommand(verb, short string, do func(ctx context.Context, server eks.Server, name string) error) *cobra.Command {
	var server eks.Server
	var name string
	cmd := newDirCommand(verb, short, &server.Dir, func(ctx context.Context) error {
		if err := errors.Join(server.Validate(), eks.NodeGroup{Name: name}.Validate()); err != nil {
			return err
		}
		return do(ctx, server, name)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&name, "nodegroup", "", "name of the node group")
	return cmd
}

func addTakes(cmd *cobra.Command, takes *time.Duration) {
	cmd.Flags().DurationVar(takes, "takes", profileDuration, "duration of a step: all nodes are created or removed at once, but replaced one by one")
}

func newApplyNodeGroupCommand() *cobra.Command {
	var input string
	var takes time.Duration
	cmd := newNodeGroupCommand("create-or-update-nodegroup", "Create or update a managed node group of a cluster, and wait for its nodes",
		func(ctx context.Context, server eks.Server, name string) error {
			group := eks.NodeGroup{}
			if err := json.Unmarshal([]byte(input), &group); err != nil {
				return fmt.Errorf("--cli-input-json: %w", err)
			}
			group.Name = name
			return server.ApplyNodeGroup(ctx, group, takes)
		})
	addTakes(cmd, &takes)
	cmd.Flags().StringVar(&input, "cli-input-json", `{"scalingConfig":{"minSize":1,"maxSize":1,"desiredSize":1}}`,
		"JSON object with the fields of EKS; without a version, the nodes have that of the cluster")
	return cmd
}

func newDeleteNodeGroupCommand() *cobra.Command {
	var takes time.Duration
	cmd := newNodeGroupCommand("delete-nodegroup", "Delete a managed node group and its nodes", func(ctx context.Context, server eks.Server, name string) error {
		return server.DeleteNodeGroup(ctx, name, takes)
	})
	addTakes(cmd, &takes)
	return cmd
}

func newDescribeNodeGroupsCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var server eks.Server
	cmd := newDirCommand("describe-nodegroups", "Print the node groups of a cluster as JSON", &server.Dir, func(context.Context) error {
		if err := server.Validate(); err != nil {
			return err
		}
		groups, err := server.NodeGroups()
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(streams.Out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(groups)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	return cmd
}

func newScaleNodeGroupCommand() *cobra.Command {
	var scaling eks.Scaling
	cmd := newNodeGroupCommand("update-nodegroup-config", "Change the size of a node group without Terraform, as an autoscaler does",
		func(ctx context.Context, server eks.Server, name string) error {
			return server.Rescale(ctx, name, scaling)
		})
	const unchanged = -1
	cmd.Flags().IntVar(&scaling.Min, "min-size", unchanged, "minimum number of nodes, if it changes")
	cmd.Flags().IntVar(&scaling.Max, "max-size", unchanged, "maximum number of nodes, if it changes")
	cmd.Flags().IntVar(&scaling.Desired, "desired-size", unchanged, "number of nodes, if it changes")
	return cmd
}

func newBreakNodeGroupCommand() *cobra.Command {
	var failure string
	cmd := newNodeGroupCommand("break-nodegroup", "Make operations on a node group fail or hang, or the node group DEGRADED",
		func(ctx context.Context, server eks.Server, name string) error {
			if !slices.Contains(eks.Failures(), eks.Failure(failure)) {
				return fmt.Errorf("--failure: %q is not one of %v", failure, eks.Failures())
			}
			return server.BreakNodeGroup(ctx, name, eks.Failure(failure))
		})
	cmd.Flags().StringVar(&failure, "failure", "", "what fails from now on: create, update (of the version), hang (an operation does not end), or health (DEGRADED); none repairs it")
	return cmd
}

func newBreakNodeCommand(broken bool, verb, short string) *cobra.Command {
	var server eks.Server
	var node string
	cmd := newDirCommand(verb, short, &server.Dir, func(ctx context.Context) error {
		if err := server.Validate(); err != nil {
			return err
		}
		return server.BreakNode(ctx, node, broken)
	})
	cmd.Flags().StringVar(&server.Name, "name", "", "name of the cluster")
	cmd.Flags().StringVar(&node, "node", "", "name of the node")
	return cmd
}

func nodeGroups(out io.Writer, server eks.Server) error {
	all, err := server.NodeGroups()
	for _, group := range all {
		fmt.Fprintf(out, "%-26s %s, version %s, %d nodes (%d to %d)\n", "  node group "+group.Name, group.Status, group.Version,
			group.Scaling.Desired, group.Scaling.Min, group.Scaling.Max)
	}
	return err
}
