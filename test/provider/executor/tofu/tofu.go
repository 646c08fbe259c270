// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package tofu carries Workspaces out with the OpenTofu CLI.
//
// It never reaches the network on its own: version checks are off, and providers are looked for in an empty local
// mirror only, so a module may use nothing but what is built in (terraform_data, terraform_remote_state).
package tofu

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // a fingerprint, and the one provider-terraform shows in status
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
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

const (
	defaultWorkspace = "default"

	// planDiffers is the exit code of plan -detailed-exitcode when there is something to change.
	planDiffers = 2

	varFilePrefix = "crossplane-provider-terraform-"
)

func (c *cli) Init(ctx context.Context, args []string) error {
	select {
	case c.inits <- struct{}{}:
		defer func() { <-c.inits }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", errStopped, ctx.Err())
	}
	_, err := c.run(ctx, append([]string{"init", "-input=false", "-no-color"}, args...)...)
	return err
}

// That select fails is taken for "does not exist", as the CLI does not
// tell the reasons apart; new then fails for all the other ones.
func (c *cli) SelectWorkspace(ctx context.Context, name string) error {
	if _, err := c.run(ctx, "workspace", "select", "-no-color", name); err == nil {
		return nil
	}
	_, err := c.run(ctx, "workspace", "new", "-no-color", name)
	return err
}

// It takes no lock: nothing is written.
func (c *cli) Plan(ctx context.Context, o executor.RunOptions) (bool, error) {
	args, err := c.arguments(o, "plan", "-no-color", "-input=false", "-detailed-exitcode", "-lock=false")
	if err != nil {
		return false, err
	}
	out, err := c.run(ctx, args...)
	var exit *exitError
	switch {
	case errors.As(err, &exit) && exit.code == planDiffers:
		o.Report(string(out), nil)
		return true, nil
	case exit != nil:
		o.Report("", err)
	}
	return false, err
}

func (c *cli) Apply(ctx context.Context, o executor.RunOptions) error {
	return c.change(ctx, "apply", o)
}

func (c *cli) Destroy(ctx context.Context, o executor.RunOptions) error {
	return c.change(ctx, "destroy", o)
}

func (c *cli) change(ctx context.Context, verb string, o executor.RunOptions) error {
	args, err := c.arguments(o, verb, "-no-color", "-auto-approve", "-input=false")
	if err != nil {
		return err
	}
	out, err := c.run(ctx, args...)
	o.Report(string(out), err)
	return err
}

// arguments writes the files of variables and completes a command line. The order is provider-terraform's, and the
// CLI lets the later one win: files win over vars, although the API's documentation says it the other way round.
func (c *cli) arguments(o executor.RunOptions, args ...string) ([]string, error) {
	for _, v := range o.Vars {
		args = append(args, "-var="+v.Key+"="+v.Value)
	}
	for i, f := range o.VarFiles {
		name := varFilePrefix + strconv.Itoa(i) + ".tfvars"
		if f.JSON {
			name += ".json"
		}
		if err := os.WriteFile(filepath.Join(c.dir, name), f.Data, 0o600); err != nil {
			return nil, fmt.Errorf("cannot write tfvars file: %w", err)
		}
		args = append(args, "-var-file="+name)
	}
	return append(args, o.Args...), nil
}

func (c *cli) Resources(ctx context.Context) ([]string, error) {
	out, err := c.run(ctx, "state", "list", "-no-color")
	var exit *exitError
	switch {
	case errors.As(err, &exit) && strings.Contains(exit.Stderr, "No state file was found"):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

func (c *cli) Outputs(ctx context.Context) ([]executor.Output, error) {
	out, err := c.run(ctx, "output", "-json", "-no-color")
	if err != nil {
		return nil, err
	}
	var parsed map[string]struct {
		Sensitive bool            `json:"sensitive"`
		Value     any             `json:"value"`
		Type      json.RawMessage `json:"type"`
	}
	if err := json.Unmarshal(out, &parsed); err != nil {
		return nil, fmt.Errorf("cannot parse Terraform output: %w", err)
	}
	outputs := make([]executor.Output, 0, len(parsed))
	for name, o := range parsed {
		outputs = append(outputs, executor.Output{
			Name: name, Sensitive: o.Sensitive, Value: o.Value, String: string(o.Type) == `"string"`,
		})
	}
	sort.Slice(outputs, func(i, j int) bool { return outputs[i].Name < outputs[j].Name })
	return outputs, nil
}

func (c *cli) DeleteWorkspace(ctx context.Context) error {
	out, err := c.run(ctx, "workspace", "show", "-no-color")
	if err != nil {
		return err
	}
	name := strings.TrimSpace(string(out))
	if name == defaultWorkspace {
		return nil
	}
	if err := c.SelectWorkspace(ctx, defaultWorkspace); err != nil {
		return err
	}
	_, err = c.run(ctx, "workspace", "delete", "-no-color", name)
	return err
}

// Checksum implements executor.Executor: the MD5 of the sorted list of MD5 sums and paths of all files, without
// .git and installed provider plugins, in the format of md5sum.
func (c *cli) Checksum(ctx context.Context) (string, error) {
	var lines []string
	err := filepath.WalkDir(c.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(c.dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (rel == ".git" || rel == filepath.Join(".terraform", "providers")) {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		lines = append(lines, fingerprint(data)+"  ./"+filepath.ToSlash(rel)+"\n")
		return nil
	})
	if err != nil {
		return "", err
	}
	sort.Strings(lines)
	return fingerprint([]byte(strings.Join(lines, ""))), nil
}

func fingerprint(data []byte) string {
	sum := md5.Sum(data) //nolint:gosec // see the import
	return hex.EncodeToString(sum[:])
}

// fetch copies a module into the CLI's folder. OpenTofu copies modules into empty folders only, so a fresh one takes
// the copy, and the folder that has the state and the initialized backend takes the files from there.
func fetch(ctx context.Context, c cli, address string) error {
	target := c.dir
	fresh, err := os.MkdirTemp(filepath.Dir(target), ".module-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(fresh) }()

	c.dir = fresh
	if _, err := c.run(ctx, "init", "-input=false", "-no-color", "-backend=false", "-get=false", "-from-module="+address); err != nil {
		return err
	}
	if err := errors.Join(removeModule(target), os.RemoveAll(filepath.Join(fresh, ".terraform")), os.RemoveAll(filepath.Join(fresh, ".git"))); err != nil {
		return err
	}
	if output, err := exec.CommandContext(ctx, "cp", "-R", fresh+"/.", target).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot copy the module: %w: %s", err, output)
	}
	return nil
}

// removeModule removes the configuration files of an earlier version of the module, in every folder, and keeps
// everything the CLI wrote.
func removeModule(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".terraform":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".tf") || strings.HasSuffix(path, ".tf.json") ||
			strings.HasSuffix(path, ".tofu") || strings.HasSuffix(path, ".tofu.json"):
			return os.Remove(path)
		}
		return nil
	})
}

// errStopped is provider-terraform's word for a command that was stopped by its deadline or by the provider's end.
const errStopped = "shutdown while running terraform command"

// cli runs tofu in one folder.
type cli struct {
	binary    string
	dir       string
	env       []string
	stopGrace time.Duration
	inits     chan struct{}
}

// run runs one command to its end and returns what it printed. A non-zero exit is an *exitError.
//
// The command gets a process group of its own. When ctx is done, the whole group is asked to stop, so that
// local-exec commands end and tofu still saves its state and unlocks it, and is killed after the grace period.
func (c *cli) run(ctx context.Context, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", errStopped, err)
	}
	g, err := newGroup()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", args[0], err)
	}
	defer g.release()

	var stdout, stderr bytes.Buffer
	cmd := exec.Command(c.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, &stdout, &stderr
	// A process that stays behind on purpose may still hold our end of the pipes.
	cmd.WaitDelay = c.stopGrace
	g.add(cmd)

	done, err := start(cmd)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", args[0], err)
	}
	select {
	case err := <-done:
		return result(&stdout, &stderr, err)
	case <-ctx.Done():
	}
	g.stop()
	select {
	case <-done:
		g.kill()
	case <-time.After(c.stopGrace):
		g.kill()
		<-done
	}
	return nil, fmt.Errorf("%s: %w", errStopped, ctx.Err())
}

// start starts a command and returns a channel that reports its end. The thread that started it waits for it: Linux sends the
// parent-death signal when that thread ends, which must not happen before the provider does.
func start(cmd *exec.Cmd) (<-chan error, error) {
	started, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return done, <-started
}

type exitError struct {
	*executor.FailedError
	code int
}

func (e *exitError) Unwrap() error { return e.FailedError }

func result(stdout, stderr *bytes.Buffer, err error) ([]byte, error) {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return stdout.Bytes(), nil
	case errors.As(err, &exit):
		return stdout.Bytes(), &exitError{&executor.FailedError{Stderr: stderr.String()}, exit.ExitCode()}
	default:
		return nil, err
	}
}

// guardScript waits for a line. The end of its input instead means that the provider is gone without having stopped
// its commands; then the guard takes its process group, itself included, down.
const guardScript = `trap "" TERM INT HUP; read -r line || kill -KILL 0`

// group is the process group of one command. A small shell, the guard, leads it, so that the group ends with the
// provider even when the provider is killed and cannot end it: local-exec commands too, which no parent-death signal
// reaches. Only a process that left the group (setsid) stays.
type group struct {
	guard *exec.Cmd
	// alive is held open by the provider alone. The kernel closes it when the provider dies.
	alive *os.File
}

func newGroup() (*group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	guard := exec.Command("/bin/sh", "-c", guardScript)
	guard.Stdin = read
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	return &group{guard: guard, alive: write}, nil
}

// add makes a command that is not started yet a member of the group.
func (g *group) add(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.guard.Process.Pid}
	dieWithProvider(cmd.SysProcAttr)
}

// stop asks every process of the group to end; the guard does not listen.
func (g *group) stop() { _ = syscall.Kill(-g.guard.Process.Pid, syscall.SIGTERM) }

// kill ends every process of the group. The guard is still in it, or a zombie until release: the group's number
// cannot have been given to another one.
func (g *group) kill() { _ = syscall.Kill(-g.guard.Process.Pid, syscall.SIGKILL) }

// release lets the guard end and leaves the rest of the group alone: a command that ended by itself may have left
// something running on purpose.
func (g *group) release() {
	_, _ = g.alive.WriteString("done\n")
	_ = g.alive.Close()
	_ = g.guard.Wait()
}
