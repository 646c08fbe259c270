// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package eks

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// A kube-apiserver can emulate the three minor versions before its own, but none before 1.31, which introduced
// emulation.
const (
	emulatedMinors  = 3
	firstEmulatable = 31
)

// minorVersion returns 1.35 for 1.35, v1.35, 1.35.2 and v1.35.2.
func minorVersion(text string) (*version.Version, error) {
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return nil, fmt.Errorf("%q is not a Kubernetes version: use one such as 1.35", text)
	}
	return version.MajorMinor(parsed.Major(), parsed.Minor()), nil
}

// supported rejects a version that the binary cannot emulate, before anything is started.
func supported(ctx context.Context, binary string, wanted *version.Version) error {
	output, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return fmt.Errorf("reading the version of %s: %w", binary, err)
	}
	own, err := version.ParseGeneric(strings.TrimPrefix(strings.TrimSpace(string(output)), "Kubernetes "))
	if err != nil {
		return fmt.Errorf("reading the version of %s: %w", binary, err)
	}
	newest := version.MajorMinor(own.Major(), own.Minor())
	oldest := version.MajorMinor(own.Major(), oldestMinor(own.Minor()))
	if wanted.LessThan(oldest) || newest.LessThan(wanted) {
		return fmt.Errorf("kube-apiserver %s of the sandbox can run as Kubernetes %s to %s, but not %s",
			own, oldest, newest, wanted)
	}
	return nil
}

func oldestMinor(own uint) uint {
	if own < firstEmulatable {
		return own
	}
	return max(own-emulatedMinors, firstEmulatable)
}
