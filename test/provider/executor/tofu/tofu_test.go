// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/executor/tofu"
	"github.com/capt-provider/capt/test/sandbox/binaries"
)

func newFactory(t *testing.T, workDir string) executor.Factory {
	t.Helper()
	path, err := binaries.Built(t.Context(), os.Stderr, binaries.Tofu)
	require.NoError(t, err)
	return tofu.New(tofu.Options{Binary: path, WorkDir: workDir, StopGrace: 5 * time.Second})
}

// open opens a module and brings it to where a plan can run.
func open(t *testing.T, m executor.Module) executor.Executor {
	t.Helper()
	if m.UID == "" {
		m.UID = types.UID(strings.ReplaceAll(t.Name(), "/", "_"))
	}
	e, err := newFactory(t, t.TempDir()).Open(t.Context(), m)
	require.NoError(t, err)
	require.NoError(t, e.Init(t.Context(), nil))
	require.NoError(t, e.SelectWorkspace(t.Context(), "ours"))
	return e
}

func inline(module string) executor.Module {
	return executor.Module{Files: map[string][]byte{"main.tf": []byte(module)}}
}

func TestLifeOfAModule(t *testing.T) {
	ctx, none := t.Context(), executor.RunOptions{}
	e := open(t, inline(`
resource "terraform_data" "a" { input = "x" }
output "id" { value = terraform_data.a.input }
output "list" { value = ["a", 1] }
output "password" {
  value     = "hidden"
  sensitive = true
}
`))
	differs, err := e.Plan(ctx, none)
	require.NoError(t, err)
	require.True(t, differs)
	resources, err := e.Resources(ctx)
	require.NoError(t, err)
	require.Empty(t, resources)

	require.NoError(t, e.Apply(ctx, none))
	differs, err = e.Plan(ctx, none)
	require.NoError(t, err)
	require.False(t, differs)
	resources, err = e.Resources(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"terraform_data.a"}, resources)
	outputs, err := e.Outputs(ctx)
	require.NoError(t, err)
	require.Equal(t, []executor.Output{
		{Name: "id", String: true, Value: "x"},
		{Name: "list", Value: []any{"a", 1.0}},
		{Name: "password", String: true, Sensitive: true, Value: "hidden"},
	}, outputs)

	require.NoError(t, e.Destroy(ctx, none))
	require.NoError(t, e.DeleteWorkspace(ctx))
	require.NoError(t, e.DeleteWorkspace(ctx), "the default workspace is left alone")
	outputs, err = e.Outputs(ctx)
	require.NoError(t, err)
	require.Empty(t, outputs)
}

func TestChecksumIsTheOneOfTheShellPipeline(t *testing.T) {
	workDir := t.TempDir()
	m := inline(`output "x" { value = 1 }`)
	m.UID = "a"
	e, err := newFactory(t, workDir).Open(t.Context(), m)
	require.NoError(t, err)
	require.NoError(t, e.Init(t.Context(), nil))
	first, err := e.Checksum(t.Context())
	require.NoError(t, err)

	pipeline := exec.Command("/bin/sh", "-c",
		`find . -path ./.git -prune -o -path ./.terraform/providers -prune -o -type f -exec md5sum {} + | LC_ALL=C sort | md5sum | cut -d' ' -f1`)
	pipeline.Dir = filepath.Join(workDir, "a")
	if _, err := exec.LookPath("md5sum"); err == nil {
		out, err := pipeline.Output()
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(out)), first)
	}

	m.Files["main.tf"] = []byte(`output "x" { value = 2 }`)
	e, err = newFactory(t, workDir).Open(t.Context(), m)
	require.NoError(t, err)
	second, err := e.Checksum(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first, second)
}

// way is one way in which configuration or a value reaches a module, and what its only output then is.
type way struct {
	module  executor.Module
	options executor.RunOptions
	want    any
}

func ways(t *testing.T) map[string]way {
	t.Helper()
	remote := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(remote, "deep", "er"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(remote, "deep", "er", "main.tf"), []byte(`output "v" { value = "remote" }`), 0o600))

	variable := `
variable "v" {}
output "v" { value = var.v }
`
	return map[string]way{
		"JSON": {
			module: executor.Module{Files: map[string][]byte{"main.tf.json": []byte(`{"output":{"v":{"value":"json"}}}`)}},
			want:   "json",
		},
		"remote with entrypoint":  {module: executor.Module{Remote: remote, Entrypoint: "deep/er"}, want: "remote"},
		"entrypoint cannot climb": {module: executor.Module{Remote: remote, Entrypoint: "../deep/er"}, want: "remote"},
		"file beside the module": {
			module: executor.Module{
				Files:           map[string][]byte{"main.tf": []byte(`output "v" { value = file("${path.module}/token") }`)},
				EntrypointFiles: map[string][]byte{"../token": []byte("t")},
			},
			want: "t",
		},
		"provider configuration": {
			module: executor.Module{
				Files:           map[string][]byte{"main.tf": []byte(`output "v" { value = local.injected }`)},
				EntrypointFiles: map[string][]byte{"crossplane-provider-config.tf": []byte(`locals { injected = "yes" }`)},
			},
			want: "yes",
		},
		"variable, byte for byte": {
			module:  inline(variable),
			options: executor.RunOptions{Vars: []executor.Var{{Key: "v", Value: `a"b ${x} \n 'c' = $(id)`}}},
			want:    `a"b ${x} \n 'c' = $(id)`,
		},
		"file of variables": {
			module:  inline(variable),
			options: executor.RunOptions{VarFiles: []executor.VarFile{{Data: []byte(`v = "hcl"`)}}},
			want:    "hcl",
		},
		"typed variables, the last file wins": {
			module: inline(variable),
			options: executor.RunOptions{
				Vars:     []executor.Var{{Key: "v", Value: "plain"}},
				VarFiles: []executor.VarFile{{Data: []byte(`v = "hcl"`)}, {Data: []byte(`{"v":{"a":[1,true]}}`), JSON: true}},
			},
			want: map[string]any{"a": []any{1.0, true}},
		},
		"arguments": {
			module: inline(variable), options: executor.RunOptions{Args: []string{"-var=v=argument"}}, want: "argument",
		},
		"environment": {
			module: func() executor.Module {
				m := inline(variable)
				m.Env = []string{"TF_VAR_v=environment"}
				return m
			}(),
			want: "environment",
		},
	}
}

func TestWaysIntoAModule(t *testing.T) {
	for name, tc := range ways(t) {
		t.Run(name, func(t *testing.T) {
			e := open(t, tc.module)
			require.NoError(t, e.Apply(t.Context(), tc.options))
			outputs, err := e.Outputs(t.Context())
			require.NoError(t, err)
			require.Len(t, outputs, 1)
			require.Equal(t, tc.want, outputs[0].Value)
		})
	}
}

func TestARemoteModuleIsReadAgain(t *testing.T) {
	remote, workDir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(remote, name), []byte(text), 0o600))
	}
	apply := func() []executor.Output {
		e, err := newFactory(t, workDir).Open(t.Context(), executor.Module{UID: "a", Remote: remote})
		require.NoError(t, err)
		require.NoError(t, e.Init(t.Context(), nil))
		require.NoError(t, e.Apply(t.Context(), executor.RunOptions{}))
		outputs, err := e.Outputs(t.Context())
		require.NoError(t, err)
		return outputs
	}
	write("a.tf", `output "v" { value = 1 }`)
	require.Equal(t, 1.0, apply()[0].Value)

	require.NoError(t, os.Remove(filepath.Join(remote, "a.tf")))
	write("b.tf", `output "v" { value = 2 }`)
	require.Equal(t, 2.0, apply()[0].Value)
}

func TestRegistriesAreOutOfReach(t *testing.T) {
	e, err := newFactory(t, t.TempDir()).Open(t.Context(), executor.Module{
		UID: "a", Files: map[string][]byte{"main.tf": []byte(`resource "random_id" "a" { byte_length = 1 }`)},
	})
	require.NoError(t, err)
	started := time.Now()
	err = e.Init(t.Context(), nil)
	require.ErrorContains(t, err, "Terraform encountered an error. Summary: Failed to query available provider packages")
	require.Less(t, time.Since(started), time.Minute, "nothing on the network was waited for")
}

// A canceled apply takes the commands of local-exec with it and leaves the state usable. What a module detached stays.
func TestCancelStopsTheWholeGroupButNotTheDetached(t *testing.T) {
	dir := t.TempDir()
	e := open(t, inline(fmt.Sprintf(`
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "setsid sh -c 'echo $$ > %[1]s/detached; exec sleep 300' > /dev/null 2>&1 < /dev/null & echo $$ > %[1]s/part.waiting; mv %[1]s/part.waiting %[1]s/waiting; sleep 300"
  }
}
`, dir)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- e.Apply(ctx, executor.RunOptions{}) }()
	waiting, detached := pidIn(t, filepath.Join(dir, "waiting")), pidIn(t, filepath.Join(dir, "detached"))
	t.Cleanup(func() { _ = syscall.Kill(detached, syscall.SIGKILL) })

	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	requireGone(t, waiting)
	require.NoError(t, syscall.Kill(detached, 0), "the detached process lives on")

	_, err := e.Plan(t.Context(), executor.RunOptions{})
	require.NoError(t, err)
	require.NoError(t, e.Destroy(t.Context(), executor.RunOptions{}), "the state is not locked")
}

// The test binary runs itself as a provider that is killed while it applies.
func TestKillingTheProviderKillsItsCommands(t *testing.T) {
	const role = "CAPT_TEST_PROVIDER_TO_KILL"
	if dir := os.Getenv(role); dir != "" {
		e := open(t, inline(fmt.Sprintf(`
resource "terraform_data" "a" {
  provisioner "local-exec" {
    command = "echo $PPID > %[1]s/tofu; echo $$ > %[1]s/part.waiting; mv %[1]s/part.waiting %[1]s/waiting; sleep 300"
  }
}
`, dir)))
		t.Fatal(e.Apply(t.Context(), executor.RunOptions{}))
	}

	dir := t.TempDir()
	victim := exec.Command(os.Args[0], "-test.run=^TestKillingTheProviderKillsItsCommands$")
	victim.Env = append(os.Environ(), role+"="+dir, "TMPDIR="+dir) // It cannot clean up.
	require.NoError(t, victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill() })
	waiting, tofu := pidIn(t, filepath.Join(dir, "waiting")), pidIn(t, filepath.Join(dir, "tofu"))

	require.NoError(t, victim.Process.Kill())
	_ = victim.Wait()
	requireGone(t, waiting)
	requireGone(t, tofu)
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		_, err = fmt.Sscanf(string(data), "%d\n", &pid)
		return err == nil && pid > 0
	}, time.Minute, 20*time.Millisecond, "no process number in %s", path)
	return pid
}

func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		// It may not have been waited for yet.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	}, 20*time.Second, 20*time.Millisecond, "process %d still runs", pid)
}
