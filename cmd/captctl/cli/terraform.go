// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Terraform is tofu or terraform.
type Terraform struct {
	Path string
	// Title is its name and version.
	Title string
}

// FindTerraform returns the program at a path or, without one, tofu or terraform on PATH; nil if neither is there.
func FindTerraform(ctx context.Context, path string) (*Terraform, error) {
	names := []string{path}
	if path == "" {
		names = []string{"tofu", "terraform"}
	}
	for _, name := range names {
		found, err := exec.LookPath(name)
		if err == nil {
			found, err = filepath.Abs(found) // Commands run in other directories.
		}
		switch {
		case err != nil && path != "":
			return nil, err
		case err != nil:
			continue
		}
		var reported struct {
			Version string `json:"terraform_version"`
		}
		command := exec.CommandContext(ctx, found, "version", "-json") //nolint:gosec // Users choose it.
		command.Env = append(os.Environ(), "TF_CLI_ARGS=")             // They may be for other commands.
		data, err := command.Output()
		if err != nil {
			return nil, fmt.Errorf("running %s version: %w", found, err)
		}
		if from := bytes.IndexByte(data, '{'); from >= 0 { // Warnings may come first. Without a version, the name is enough.
			_ = json.Unmarshal(data[from:], &reported)
		}
		return &Terraform{found, strings.TrimSpace(filepath.Base(found) + " " + reported.Version)}, nil
	}
	return nil, nil
}

// Run runs a command to its end. If the context is done before, nothing that the command has started continues: it is interrupted and, after a
// short time, killed. It has a session of its own, so it cannot ask on the terminal, and Ctrl-C reaches it once, from here.
func (t *Terraform) Run(ctx context.Context, configure func(*exec.Cmd), arguments ...string) error {
	const stopTimeout = 2 * time.Second                       // How long an interrupted command may take: a plan holds no lock and has nothing to save.
	command := exec.CommandContext(ctx, t.Path, arguments...) //nolint:gosec // Users choose it.
	configure(command)
	command.WaitDelay = stopTimeout
	kill := ownSession(command)
	err := command.Run()
	if ctx.Err() != nil {
		kill()
		return ctx.Err()
	}
	return err
}
