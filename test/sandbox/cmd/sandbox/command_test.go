// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/eks"
	"github.com/capt-provider/capt/test/sandbox/process"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// run runs the command as from a shell and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	cmd := newCommand(streams)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// The manager and the provider have tests of their own, so this sandbox does without their processes.
func TestSandboxGoesUpIsLookedAtAndGoesDown(t *testing.T) {
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
	recorded, err := state.Load(dir)
	require.NoError(t, err)
	require.Len(t, recorded.Processes, 4)

	// Up again changes nothing.
	_, err = run(t, "up", "--dir", dir)
	require.NoError(t, err)
	again, err := state.Load(dir)
	require.NoError(t, err)
	require.Equal(t, recorded, again)

	_, err = run(t, "eks", "start", "--dir", dir, "--name", "mine", "--version", "1.36")
	require.NoError(t, err)
	for _, verb := range []string{"create", "delete", "create"} {
		_, err = run(t, "eks", verb+"-fargate-profile", "--dir", dir, "--name", "mine", "--profile", "default", "--takes", "0s")
		require.NoError(t, err)
	}
	output, err = run(t, "status", "--dir", dir)
	require.NoError(t, err)
	require.Regexp(t, `Fargate profile default +ACTIVE`, output)
	require.Regexp(t, `kube-apiserver +process \d+ +ready`, output)
	require.Regexp(t, `cluster mine +process \d+ +running`, output)

	// A dead part is shown with its log, and what is left can still be taken down.
	server, err := eks.Server{Dir: dir, Name: "mine"}.Process()
	require.NoError(t, err)
	kill(t, recorded, sandbox.ClusterAPI)
	output, err = run(t, "status", "--dir", dir)
	require.ErrorIs(t, err, errReported)
	require.Regexp(t, `cluster-api +dead; the end of .*cluster-api.log:\n    `, output)
	_, err = run(t, "up", "--dir", dir)
	require.ErrorContains(t, err, "does not run any more")

	output, err = run(t, "quickstart-down", "--dir", dir)
	require.NoError(t, err)
	require.Contains(t, output, "is gone")
	require.NoDirExists(t, dir)
	require.False(t, server.Alive())
	for _, p := range recorded.Processes {
		require.False(t, p.Alive(), "%s still runs", p.Name)
	}
}

func TestTheQuickstartWaitsForTheClusterAndForItsControlPlane(t *testing.T) {
	object := func(kind, name string, conditions ...any) unstructured.Unstructured {
		o := unstructured.Unstructured{Object: map[string]any{"kind": kind, "status": map[string]any{"conditions": conditions}}}
		o.SetName(name)
		return o
	}
	is := func(condition, status string) any { return map[string]any{"type": condition, "status": status} }
	reached := object("Cluster", demo, is("Available", "True"), is("RemoteConnectionProbe", "True"))
	ready := object("CAPTControlPlane", demo, is("Available", "True"), is("Ready", "True"))
	for name, row := range map[string]struct {
		objects []unstructured.Unstructured
		want    bool
	}{
		"both":                         {[]unstructured.Unstructured{reached, ready}, true},
		"no control plane":             {[]unstructured.Unstructured{reached}, false},
		"no Cluster":                   {[]unstructured.Unstructured{ready}, false},
		"a Fargate profile is missing": {[]unstructured.Unstructured{reached, object("CAPTControlPlane", demo, is("Available", "True"), is("Ready", "False"))}, false},
		"nobody has reached it":        {[]unstructured.Unstructured{object("Cluster", demo, is("Available", "True")), ready}, false},
		"another one is ready":         {[]unstructured.Unstructured{reached, object("CAPTControlPlane", "other", is("Ready", "True"))}, false},
	} {
		require.Equal(t, row.want, demoIsReady(row.objects), name)
	}
}

func kill(t *testing.T, recorded *state.State, name string) {
	t.Helper()
	for _, p := range recorded.Processes {
		if p.Name == name {
			require.NoError(t, p.Stop(0))
			return
		}
	}
	t.Fatalf("no %s", name)
}

func TestDownTouchesNothingThatIsNotASandbox(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, verb := range []string{"down", "quickstart-down"} {
		output, err := run(t, verb, "--dir", dir)
		require.NoError(t, err)
		require.Contains(t, output, "There is no sandbox in")
		require.FileExists(t, file)
	}
	_, err := run(t, "status", "--dir", dir)
	require.ErrorContains(t, err, "there is no sandbox in")
	_, err = run(t, "up", "--dir", dir)
	require.ErrorContains(t, err, "is not empty")
	require.FileExists(t, file)
}

// A record of another time may name a process that is somebody else's by now.
func TestDownStopsOnlyTheProcessesThatAreRecorded(t *testing.T) {
	dir := t.TempDir()
	other, err := process.Start(process.Spec{Name: "other", Path: "/bin/sleep", Args: []string{"60"},
		Log: filepath.Join(t.TempDir(), "log")})
	require.NoError(t, err)
	t.Cleanup(other.Kill)
	recorded := &state.State{Ready: true, Processes: []state.Process{
		{Name: "etcd", ID: process.ID{PID: other.ID().PID, Started: "1"}},
	}}
	require.NoError(t, recorded.Save(dir))

	_, err = run(t, "down", "--dir", dir)

	require.NoError(t, err)
	require.NoDirExists(t, dir)
	require.True(t, other.ID().Alive(), "somebody else's process was stopped")
}

func TestNamesInEKSCanNotBePaths(t *testing.T) {
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
}

func TestWhatFargateProfilesAreMadeOfIsJSON(t *testing.T) {
	for _, flag := range []string{"--selectors", "--subnets"} {
		_, err := run(t, "eks", "create-fargate-profile", "--dir", t.TempDir(), "--name=demo", "--profile=default", flag, "[}")
		require.ErrorContains(t, err, flag+": invalid character")
	}
}
