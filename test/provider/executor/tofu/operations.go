// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu

import (
	"context"
	"crypto/md5" //nolint:gosec // a fingerprint, and the one provider-terraform shows in status
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/capt-provider/capt/test/provider/executor"
)

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
	_, err = c.run(ctx, args...)
	var exit *exitError
	if errors.As(err, &exit) && exit.code == planDiffers {
		return true, nil
	}
	return false, err
}

func (c *cli) Apply(ctx context.Context, o executor.RunOptions) error {
	args, err := c.arguments(o, "apply", "-no-color", "-auto-approve", "-input=false")
	if err != nil {
		return err
	}
	_, err = c.run(ctx, args...)
	return err
}

func (c *cli) Destroy(ctx context.Context, o executor.RunOptions) error {
	args, err := c.arguments(o, "destroy", "-no-color", "-auto-approve", "-input=false")
	if err != nil {
		return err
	}
	_, err = c.run(ctx, args...)
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
	case errors.As(err, &exit) && strings.Contains(exit.stderr, "No state file was found"):
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
