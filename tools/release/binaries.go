// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// maxManagerSize is the maximum size of the manager in bytes.
const maxManagerSize = 60_000_000

// noPlatforms is a list of platforms for a release of manifests and the chart only.
const noPlatforms = "none"

// platform is an operating system and an architecture, as Go names them.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// suffix is the end of file names.
func (p platform) suffix() string { return p.os + "-" + p.arch }

func parsePlatforms(list string) (platforms []platform, err error) {
	if list == noPlatforms {
		return nil, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(item, "/")
		if !ok || system == "" || arch == "" {
			return nil, fmt.Errorf("-platforms: %q must have the form os/arch, for example linux/amd64", item)
		}
		platforms = append(platforms, platform{system, arch})
	}
	return platforms, nil
}

// build compiles a program below cmd/. The result depends only on the source, the version and Go: not on directories, not on the kind of checkout
// (-buildvcs=false), and not on settings of the user that change what Go compiles.
func build(ctx context.Context, root, program, version string, p platform, output string) error {
	// grpcnotrace removes golang.org/x/net/trace, which renders pages with html/template. Templates call methods by name, so the linker would
	// keep every exported method of every type.
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags=grpcnotrace", //nolint:gosec // The arguments are not from outside.
		"-ldflags=-s -w -X github.com/capt-provider/capt/cmd/captctl/cli.release="+version, "-o", output, "./cmd/"+program)
	command.Dir = root
	command.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOEXPERIMENT=")
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("building %s for %s: %w", program, p, err)
	}
	return nil
}

// buildManager builds the manager for an image, and checks its size.
func buildManager(ctx context.Context, root, version string, p platform, output string) error {
	if err := build(ctx, root, "manager", version, p, output); err != nil {
		return err
	}
	info, err := os.Stat(output)
	if err != nil {
		return err
	}
	if info.Size() > maxManagerSize {
		return fmt.Errorf("the manager for %s has %d bytes, more than %d: go tool nm -size shows its parts. "+
			"Does a dependency call methods by name again? go build -ldflags=-dumpdep marks them with ReflectMethod", p, info.Size(), maxManagerSize)
	}
	return nil
}
