// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package tofu carries Workspaces out with the OpenTofu CLI.
//
// It never reaches the network on its own: version checks are off, and providers are looked for in an empty local
// mirror only, so a module may use nothing but what is built in (terraform_data, terraform_remote_state).
package tofu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/test/provider/executor"
)

// Options say how OpenTofu is run.
type Options struct {
	// Binary is the path of tofu. Default: tofu, looked up in PATH.
	Binary string

	// WorkDir holds one folder per Workspace, named by UID. It has to survive restarts when modules have no remote
	// backend: their state lies in it. Default: capt-provider in the system's folder for temporary files.
	WorkDir string

	// StopGrace is how long a command may go on after it was asked to stop, before it is killed. Default: 10 s.
	StopGrace time.Duration
}

type factory struct {
	options Options
	// inits allows one init at a time, as with the real provider's shared plugin cache. With a kubernetes
	// backend, each init locks the state of the default workspace while that does not exist yet; two that share a
	// backend would fail each other.
	inits chan struct{}
}

// New returns a Factory of Executors that run OpenTofu.
func New(o Options) executor.Factory {
	if o.Binary == "" {
		o.Binary = "tofu"
	}
	if o.WorkDir == "" {
		o.WorkDir = filepath.Join(os.TempDir(), "capt-provider")
	}
	if o.StopGrace == 0 {
		o.StopGrace = 10 * time.Second
	}
	return &factory{options: o, inits: make(chan struct{}, 1)}
}

func (f *factory) Open(ctx context.Context, m executor.Module) (executor.Executor, error) {
	if m.UID == "" {
		return nil, errors.New("a Workspace without UID has no working directory")
	}
	workDir, err := filepath.Abs(f.options.WorkDir)
	if err != nil {
		return nil, fmt.Errorf("cannot make Terraform configuration directory: %w", err)
	}
	root := filepath.Join(workDir, string(m.UID))
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make Terraform configuration directory: %w", err)
	}
	config, err := cliConfig(workDir)
	if err != nil {
		return nil, err
	}
	binary, err := findBinary(f.options.Binary)
	if err != nil {
		return nil, err
	}
	c := &cli{binary: binary, dir: root, stopGrace: f.options.StopGrace, inits: f.inits, env: environment(config, m.Env)}
	if m.Remote != "" {
		if err := fetch(ctx, *c, m.Remote); err != nil {
			return nil, fmt.Errorf("cannot get remote Terraform module: %w", err)
		}
	}
	if err := writeFiles(root, m.Files); err != nil {
		return nil, err
	}
	c.dir = filepath.Join(root, strings.ReplaceAll(m.Entrypoint, "../", ""))
	if !inside(root, c.dir) {
		return nil, fmt.Errorf("entrypoint %q leaves the module", m.Entrypoint)
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make Terraform configuration directory: %w", err)
	}
	return c, writeFiles(c.dir, m.EntrypointFiles)
}

func (f *factory) Forget(uid types.UID) error {
	if uid == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(f.options.WorkDir, string(uid)))
}

// findBinary makes the path absolute: commands run in folders of their own.
func findBinary(name string) (string, error) {
	if !strings.ContainsRune(name, filepath.Separator) {
		return name, nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("cannot find OpenTofu: %w", err)
	}
	return path, nil
}

// cliConfig writes the CLI configuration that keeps init away from registries: an empty folder is the only place
// providers are installed from.
func cliConfig(workDir string) (string, error) {
	mirror := filepath.Join(workDir, ".mirror")
	if err := os.MkdirAll(mirror, 0o700); err != nil {
		return "", fmt.Errorf("cannot make Terraform configuration directory: %w", err)
	}
	path := filepath.Join(workDir, ".tofurc")
	content := fmt.Sprintf("disable_checkpoint = true\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror)
	if old, err := os.ReadFile(path); err == nil && string(old) == content {
		return path, nil
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", fmt.Errorf("cannot write the CLI configuration: %w", err)
	}
	return path, nil
}

// environment is the provider's own one without TF_*, which could change what any command does, and with the
// Workspace's on top.
func environment(cliConfig string, workspace []string) []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TF_") {
			env = append(env, e)
		}
	}
	env = append(env, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_CONFIG_FILE="+cliConfig)
	return append(env, workspace...)
}

// writeFiles writes only what differs, so that an unchanged module keeps its timestamps.
func writeFiles(dir string, files map[string][]byte) error {
	for name, data := range files {
		path := filepath.Join(dir, filepath.Base(name))
		if old, err := os.ReadFile(path); err == nil && string(old) == string(data) {
			continue
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("cannot write Terraform configuration %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

func inside(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
