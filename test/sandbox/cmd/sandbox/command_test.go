// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
)

// run runs the command and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	cmd := newCommand(streams)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// The manager and the provider have their own tests, so this sandbox does not run them.
func TestSandboxIsStartedRestartedAndRemoved(t *testing.T) {
	t.Setenv("SANDBOX_MANAGER", "none")
	t.Setenv("SANDBOX_PROVIDER", "none")
	dir := filepath.Join(t.TempDir(), "sandbox")
	t.Cleanup(func() {
		_, err := run(t, "down", "--dir", dir)
		require.NoError(t, err)
	})

	output, err := run(t, "up", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, output, filepath.Join(dir, "kubeconfig"))
	recorded, err := process.Load(dir)
	require.NoError(t, err)
	require.Len(t, recorded.Processes, 4)

	// Starting a running sandbox changes nothing.
	_, err = run(t, "up", "--dir", dir)
	require.NoError(t, err)
	again, err := process.Load(dir)
	require.NoError(t, err)
	require.Equal(t, recorded, again)

	_, err = run(t, "eks", "start", "--dir", dir, "--name", "mine", "--version", "1.36")
	require.NoError(t, err)
	for _, verb := range []string{"create", "delete", "create"} {
		_, err = run(t, "eks", verb+"-fargate-profile", "--dir", dir, "--name", "mine", "--profile", "default", "--takes", "0s")
		require.NoError(t, err)
	}
	_, err = run(t, "eks", "create-or-update-nodegroup", "--dir", dir, "--name", "mine", "--nodegroup", "workers", "--takes", "0s")
	require.NoError(t, err)
	output, err = run(t, "eks", "describe-nodegroups", "--dir", dir, "--name", "mine")
	require.NoError(t, err)
	require.Contains(t, output, `"status": "ACTIVE"`)
	output, err = run(t, "status", "--dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `Fargate profile default +ACTIVE`, output)
	require.Regexp(t, `node group workers +ACTIVE, version 1.36, 1 nodes \(1 to 1\)`, output)
	require.Regexp(t, `kwok of cluster mine +process \d+ +ready`, output)
	require.Regexp(t, `kube-apiserver +process \d+ +ready`, output)
	require.Regexp(t, `cluster mine +process \d+ +ready`, output)

	// A component that died is reported with its log and with the command that starts it again.
	kill(t, recorded, sandbox.ClusterAPI)
	restart := "restart --dir " + dir
	output, err = run(t, "status", "--dir", dir)
	require.ErrorIs(t, err, errReported)
	require.Regexp(t, `cluster-api +not running; last lines of .*cluster-api.log:\n    `, output)
	require.Contains(t, output, restart)
	_, err = run(t, "up", "--dir", dir)
	require.ErrorContains(t, err, "cluster-api of the sandbox in "+dir+" is not running")
	require.ErrorContains(t, err, restart)
	output, err = run(t, "restart", "--dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `^started cluster-api\nAll components .* are running`, output)

	// So are all components at once, as after a reboot, with the data they had.
	server := eks.Server{Dir: dir, Name: "mine"}
	for _, name := range []string{sandbox.Etcd, sandbox.APIServer, sandbox.KubeControllerManager, sandbox.ClusterAPI} {
		recorded, err := process.Load(dir)
		require.NoError(t, err)
		kill(t, recorded, name)
	}
	cluster, err := server.Recorded()
	require.NoError(t, err)
	require.Len(t, cluster.Processes, 2)
	for _, p := range cluster.Processes {
		require.NoError(t, p.Stop(0))
	}
	_, err = run(t, "restart", "--dir", dir)
	require.NoError(t, err)
	output, err = run(t, "status", "--dir", dir)
	require.NoError(t, err, output)
	require.Regexp(t, `kube-apiserver +process \d+ +ready`, output)
	_, err = run(t, "up", "--dir", dir)
	require.NoError(t, err)
	cluster, err = server.Recorded()
	require.NoError(t, err)
	recorded, err = process.Load(dir)
	require.NoError(t, err)

	// A sandbox of which only a part runs can be removed.
	kill(t, recorded, sandbox.ClusterAPI)
	output, err = run(t, "down", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, output, "Removed the sandbox in")
	require.NoDirExists(t, dir)
	for _, p := range append(recorded.Processes, cluster.Processes...) {
		require.False(t, p.Alive(), "%s still runs", p.Name)
	}
}

func kill(t *testing.T, recorded *process.State, name string) {
	t.Helper()
	require.NoError(t, recorded.Process(name).Stop(0))
}

func TestWithNamesTheSharedControlPlanes(t *testing.T) {
	_, err := run(t, "with", "full,unknown", "--", "true")
	require.EqualError(t, err, `"unknown" is not a shared control plane; choose from: exclusive, full`)
	_, err = run(t, "with", "full")
	require.ErrorContains(t, err, "requires at least 2 arg(s)")
}

func TestDownKeepsADirectoryThatIsNotASandbox(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	output, err := run(t, "down", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, output, "Found no sandbox in")
	require.FileExists(t, file)
	_, err = run(t, "status", "--dir", dir)
	require.ErrorContains(t, err, "found no sandbox in")
	_, err = run(t, "up", "--dir", dir)
	require.ErrorContains(t, err, "is not empty")
	require.FileExists(t, file)
}

// The process ID in an old record may belong to another program.
func TestDownStopsOnlyRecordedProcesses(t *testing.T) {
	dir := t.TempDir()
	other, err := process.Start(process.Spec{Name: "other", Path: "/bin/sleep", Args: []string{"60"},
		Log: filepath.Join(t.TempDir(), "log")})
	require.NoError(t, err)
	t.Cleanup(other.Kill)
	recorded := &process.State{Ready: true, Processes: []process.Recorded{
		{Spec: process.Spec{Name: "etcd"}, ID: process.ID{PID: other.ID().PID, Started: "1"}},
	}}
	require.NoError(t, recorded.Save(dir))

	_, err = run(t, "down", "--dir", dir)

	require.NoError(t, err)
	require.NoDirExists(t, dir)
	require.True(t, other.ID().Alive(), "a process of another program was stopped")
}

func TestEKSNamesCannotBePaths(t *testing.T) {
	for _, name := range []string{"", "../etcd", "a/b", "-a"} {
		_, err := run(t, "eks", "stop", "--dir", t.TempDir(), "--name="+name)
		require.ErrorContains(t, err, "is not a cluster name")
	}
	for _, verb := range []string{"create-fargate-profile", "delete-fargate-profile"} {
		_, err := run(t, "eks", verb, "--dir", t.TempDir(), "--name=../etcd", "--profile=default")
		require.ErrorContains(t, err, "is not a cluster name")
		_, err = run(t, "eks", verb, "--dir", t.TempDir(), "--name=demo", "--profile=../endpoint")
		require.ErrorContains(t, err, "is not a name of a Fargate profile")
	}
	for _, verb := range []string{"create-or-update-nodegroup", "delete-nodegroup", "update-nodegroup-config", "break-nodegroup"} {
		_, err := run(t, "eks", verb, "--dir", t.TempDir(), "--name=../etcd", "--nodegroup=workers")
		require.ErrorContains(t, err, "is not a cluster name")
		_, err = run(t, "eks", verb, "--dir", t.TempDir(), "--name=demo", "--nodegroup=../endpoint")
		require.ErrorContains(t, err, "is not a name of a node group")
	}
}

func TestFlagsOfProfilesAndNodeGroupsMustBeJSON(t *testing.T) {
	for verb, flags := range map[string][]string{
		"create-fargate-profile --profile=default":       {"--selectors", "--subnets"},
		"create-or-update-nodegroup --nodegroup=workers": {"--cli-input-json"},
	} {
		for _, flag := range flags {
			_, err := run(t, append(strings.Fields("eks "+verb), "--dir", t.TempDir(), "--name=demo", flag, "[}")...)
			require.ErrorContains(t, err, flag+": invalid character")
		}
	}
	_, err := run(t, "eks", "break-nodegroup", "--dir", t.TempDir(), "--name=demo", "--nodegroup=workers", "--failure=all")
	require.ErrorContains(t, err, `--failure: "all" is not one of [none create update hang health]`)
}
