// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli holds what all commands of the sandbox program share.
package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// ErrReported ends a command whose failure has already been printed.
var ErrReported = errors.New("reported")

// DefaultDir is the directory of the sandbox that make quickstart and make sandbox-up start. Git ignores it.
const DefaultDir = ".sandbox"

// NewCommand returns a command without arguments for the sandbox in a directory. The directory becomes absolute before the steps run,
// because processes outlive the working directory.
func NewCommand(verb, short string, dir *string, steps ...func(ctx context.Context) error) *cobra.Command {
	cmd := &cobra.Command{Use: verb, Short: short, Args: cobra.NoArgs}
	cmd.Flags().StringVar(dir, "dir", DefaultDir, "directory of the sandbox")
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

// Relative shortens a path below the working directory.
func Relative(path string) string {
	wd, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(wd, path); err == nil && len(short) < len(path) {
		return short
	}
	return path
}

// Command is a command line of this program that can be pasted into the shell from which the program was called.
func Command(verb, dir string) string {
	program, err := os.Executable()
	if err != nil {
		program = "sandbox"
	}
	line := Relative(program) + " " + verb
	if dir := Relative(dir); dir != DefaultDir {
		line += " --dir " + dir
	}
	return line
}
