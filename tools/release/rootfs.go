// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// extract writes the files of an archive that tools/release made.
func extract(archive io.Reader, dir string) (err error) {
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // Another user must find the files.
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag == tar.TypeDir {
			err = root.MkdirAll(filepath.Clean(header.Name), header.FileInfo().Mode().Perm())
		} else {
			err = extractFile(root, header, reader)
		}
		if err != nil {
			return err
		}
	}
}

func extractFile(root *os.Root, header *tar.Header, content io.Reader) error {
	data, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return root.WriteFile(header.Name, data, header.FileInfo().Mode().Perm())
}

// inRoot returns a command in a root file system. Only root can change the root directory and the user; other users run the program directly.
func inRoot(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(dir, program), args...) //nolint:gosec // It is the program that was built.
	command.Env = []string{"PATH=/"}
	if os.Geteuid() == 0 {
		command.Path, command.Dir = program, "/"
		command.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	}
	return command
}
