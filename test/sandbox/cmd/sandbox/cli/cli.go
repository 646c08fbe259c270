// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli holds what all commands of the sandbox program share.
package cli

import (
	"errors"
	"os"
	"path/filepath"
)

// ErrReported ends a command whose failure has already been printed.
var ErrReported = errors.New("reported")

// DefaultDir is the directory of the sandbox that make quickstart and make sandbox-up start. Git ignores it.
const DefaultDir = ".sandbox"

// Options are the options of a command: Complete fills in defaults, Validate checks the result.
type Options interface {
	Complete(args []string) error
	Validate() error
}

// Prepare does what precedes every Run.
func Prepare(o Options, args []string) error {
	if err := o.Complete(args); err != nil {
		return err
	}
	return o.Validate()
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
