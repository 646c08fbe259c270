// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"
)

// Stdin is the name of standard input.
const Stdin = "-"

// AddFileFlags adds --filename and --recursive.
func AddFileFlags(command *cobra.Command, paths *[]string, recursive *bool) {
	command.Flags().StringArrayVarP(paths, "filename", "f", nil, `File or directory with manifests, or "-" for standard input. Can be repeated.`)
	command.Flags().BoolVarP(recursive, "recursive", "R", false, "Also read subdirectories.")
	CompleteFlag(command, "filename", Files("yaml", "yml", "json"))
}

// ValidatePaths requires a path.
func ValidatePaths(paths []string) error {
	if len(paths) == 0 {
		return errors.New("--filename is required: it names the manifests")
	}
	return nil
}

// ExpandPaths returns the names of the files at the paths, as kubectl finds them.
func ExpandPaths(paths []string, recursive bool) ([]string, error) {
	var files []string
	for _, path := range paths {
		if path == Stdin {
			files = append(files, Stdin)
			continue
		}
		visitors, err := resource.ExpandPathsToFileVisitors(nil, path, recursive, resource.FileExtensions, nil)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("the path %q does not exist", path)
		case err != nil:
			return nil, err
		}
		for _, visitor := range visitors {
			files = append(files, visitor.(*resource.FileVisitor).Path)
		}
	}
	return files, nil
}

// ReadFile reads a file, or standard input.
func (e *Environment) ReadFile(file string) ([]byte, error) {
	if file == Stdin {
		return io.ReadAll(e.In)
	}
	return os.ReadFile(file) //nolint:gosec // Users name the files.
}

// Save writes a file: completely or not at all. An existing file is replaced.
func Save(file string, write func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // It exists only after an error, which is reported.
	for _, step := range []func() error{
		func() error { return write(temporary) }, temporary.Sync, temporary.Close, func() error { return os.Rename(temporary.Name(), file) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
	}
	return nil
}
