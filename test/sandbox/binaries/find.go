// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/mod/semver"
)

// find links binaries that exist on this machine into bin and returns those that must still be built. etcd,
// kube-apiserver and kubectl are searched in the directory that KUBEBUILDER_ASSETS names, and kubectl also in PATH.
// They are used only when their minor version is the pinned one.
func find(ctx context.Context, root string, list []binary, out io.Writer) (unavailable []binary, err error) {
	for _, b := range list {
		found, err := b.find(ctx, root, out)
		if err != nil {
			return nil, err
		}
		if !found {
			unavailable = append(unavailable, b)
		}
	}
	return unavailable, nil
}

func (b binary) find(ctx context.Context, root string, out io.Writer) (found bool, err error) {
	candidates := b.candidates()
	if len(candidates) == 0 {
		return false, nil
	}
	want, err := b.version(root)
	if err != nil {
		return false, err
	}
	for _, candidate := range candidates {
		have, err := versionOf(ctx, candidate, b.versionArgs)
		if err == nil && semver.MajorMinor(have) != semver.MajorMinor(want) {
			err = fmt.Errorf("its version is %s, and the sandbox needs %s", have, semver.MajorMinor(want))
		}
		if err != nil {
			fmt.Fprintf(out, "%s: not using %s: %v\n", b.name, candidate, err)
			continue
		}
		path, err := b.path(root)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(out, "%s: using %s (%s) instead of building it\n", b.name, candidate, have)
		return true, link(candidate, path)
	}
	return false, nil
}

// candidates are the paths of existing files that may be this binary.
func (b binary) candidates() (paths []string) {
	if len(b.versionArgs) == 0 {
		return nil
	}
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if path, err := exec.LookPath(filepath.Join(dir, b.name)); err == nil {
			paths = append(paths, path)
		}
	}
	if b.name == Kubectl {
		if path, err := exec.LookPath(b.name); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// versionTimeout limits how long a binary may take to print its version.
const versionTimeout = 10 * time.Second

// versionPattern matches the version in "etcd Version: 3.6.1", "Kubernetes v1.36.0" and "Client Version: v1.36.0".
var versionPattern = regexp.MustCompile(`(?m)^(?:etcd Version:|Kubernetes|Client Version:) v?(\d+\.\d+\.\d+)`)

// versionOf runs a binary to learn its version. This also proves that it runs on this machine.
func versionOf(ctx context.Context, path string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", err
	}
	match := versionPattern.FindSubmatch(output)
	if match == nil {
		return "", errors.New("it does not print its version")
	}
	return "v" + string(match[1]), nil
}

// link makes path a symbolic link to a binary. A link whose target no longer exists is replaced.
func link(binary, path string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(binary, path)
}
