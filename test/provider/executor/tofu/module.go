// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

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
	if err := removeModule(target); err != nil {
		return err
	}
	return copyModule(fresh, target)
}

// copyModule copies all regular files but the CLI's own and git's.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case rel == ".terraform" || rel == ".git":
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case d.Type().IsRegular():
			return copyFile(path, filepath.Join(to, rel))
		}
		return nil
	})
}

// copyFile copies content and the right to execute.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, info.Mode().Perm()|0o600); err != nil {
		return fmt.Errorf("cannot copy the module: %w", err)
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
