// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/mod/semver"
)

// versionTimeout limits how long a binary may take to print its version.
const versionTimeout = time.Minute

// versionPattern matches the version in "etcd Version: 3.6.1", "Kubernetes v1.36.0" and "Client Version: v1.36.0".
var versionPattern = regexp.MustCompile(`(?m)^(?:etcd Version:|Kubernetes|Client Version:) v?(\d+\.\d+\.\d+)`)

// find links binaries that exist on this machine into bin and returns those that must still be built. etcd, kube-apiserver and kubectl are searched in the directory
// that KUBEBUILDER_ASSETS names, and kubectl also in PATH. They are used only when their minor version is the pinned one.
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
	if len(b.versionArgs) == 0 {
		return false, nil
	}
	want, err := b.version(root)
	if err != nil {
		return false, err
	}
	var candidates []string
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		candidates = append(candidates, filepath.Join(dir, b.name))
	}
	if b.name == Kubectl {
		candidates = append(candidates, b.name)
	}
	for _, candidate := range candidates {
		candidate, err := exec.LookPath(candidate)
		if err != nil {
			continue
		}
		have, err := b.versionOf(ctx, candidate)
		if err != nil || semver.MajorMinor(have) != semver.MajorMinor(want) {
			have = cmp.Or(have, fmt.Sprintf("unknown (%v)", err))
			fmt.Fprintf(out, "%s: not using %s: its version is %s, and the sandbox needs %s\n", b.name, candidate, have, semver.MajorMinor(want))
			continue
		}
		fmt.Fprintf(out, "%s: using %s (%s) instead of building it\n", b.name, candidate, have)
		return true, b.link(root, candidate)
	}
	return false, nil
}

// versionOf runs a binary to learn its version. This also proves that it runs on this machine.
func (b binary) versionOf(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, path, b.versionArgs...).Output() // #nosec G204 G702 -- The user's PATH and KUBEBUILDER_ASSETS name the program.
	match := versionPattern.FindSubmatch(output)
	if err != nil || match == nil {
		return "", err
	}
	return "v" + string(match[1]), nil
}

// link makes a symbolic link in bin to an existing binary. A link whose target no longer exists is replaced.
func (b binary) link(root, existing string) error {
	path, err := b.path(root)
	if err != nil {
		return err
	}
	if existing, err = filepath.Abs(existing); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	_ = os.Remove(path) // If it cannot be removed, it cannot be replaced either.
	return os.Symlink(existing, path)
}
