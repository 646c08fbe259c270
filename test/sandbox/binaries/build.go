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
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// Build builds the named binaries that are missing (if none is named, all but those that few tests need) and reports its progress on out. A
// binary of the required version that exists on this machine is used instead of being built. Concurrent builds, in one
// process or in several, wait for each other.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = defaults()
	}
	if list, err := missing(root, names); err != nil || len(list) == 0 {
		return err
	}
	unlock, err := lock(ctx, root, out)
	if err != nil {
		return err
	}
	defer unlock()
	// A concurrent build may have built some of them.
	list, err := missing(root, names)
	if err != nil {
		return err
	}
	if list, err = find(ctx, root, list, out); err != nil {
		return err
	}
	steps := group(list)
	if len(steps) > 0 && steps[0].pin() != "" {
		fmt.Fprintln(out, "Building from source what is missing in bin/. Building everything takes about 8 minutes on two cores, and is done once.")
	}
	for i, s := range steps {
		if err := s.build(ctx, root, out, fmt.Sprintf("[%d/%d]", i+1, len(steps))); err != nil {
			return fmt.Errorf("building %s: %w", s.names(), err)
		}
	}
	return nil
}

// upToDate is the environment variable that is set when CAPT's own binaries in bin are those of the working directory, as after sandbox build.
// Otherwise every start of a sandbox runs go build for them, which takes seconds of CPU time to find that nothing has changed.
const upToDate = "CAPT_BINARIES_UP_TO_DATE"

// missing returns the named binaries that go build must be run for, in the order of the catalog.
func missing(root string, names []string) ([]binary, error) {
	for _, name := range names {
		if _, err := lookup(name); err != nil {
			return nil, err
		}
	}
	var list []binary
	for _, b := range catalog() {
		if !slices.Contains(names, b.name) {
			continue
		}
		path, err := b.path(root)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err == nil && (b.pin != "" || os.Getenv(upToDate) != "") {
			continue
		}
		list = append(list, b)
	}
	return list, nil
}

// step is one run of go build: it builds all missing binaries of one module, which share most of their packages.
type step []binary

func group(list []binary) (steps []step) {
	for i, b := range list {
		if i == 0 || list[i-1].pin != b.pin {
			steps = append(steps, nil)
		}
		steps[len(steps)-1] = append(steps[len(steps)-1], b)
	}
	return steps
}

func (s step) pin() string { return s[0].pin }

func (s step) names() string {
	names := make([]string, 0, len(s))
	for _, b := range s {
		names = append(names, b.name)
	}
	return strings.Join(names, ", ")
}

func (s step) build(ctx context.Context, root string, out io.Writer, label string) error {
	if s.pin() == "" {
		defer s.report(out, label+" CAPT:")()
		return s.goBuild(ctx, root, filepath.Join(root, "bin"), "")
	}
	version, err := s[0].version(root)
	if err != nil {
		return err
	}
	defer s.report(out, label+" "+s.pin()+" "+version+":")()
	target := filepath.Join(root, "bin", s.pin()+"-"+version)
	// A binary gets its final name only when it is complete, because the existence of that file means that it is built.
	part := filepath.Join(target, ".part")
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	if err := s.goBuild(ctx, PinDir(root, s.pin()), part, version); err != nil {
		return err
	}
	for _, b := range s {
		path, err := b.path(root)
		if err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(part, cmp.Or(b.output, b.name)), path); err != nil {
			return err
		}
	}
	return os.RemoveAll(part)
}

// goBuild builds the step's packages into a directory.
func (s step) goBuild(ctx context.Context, dir, target, version string) error {
	args := []string{"build", "-C", dir, "-trimpath", "-ldflags", linkFlags(s.pin(), version), "-o", target + string(filepath.Separator)}
	for _, b := range s {
		args = append(args, b.pkg)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	// An interrupted build must not leave compilers behind: go build forwards an interrupt, but cannot forward a kill.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	// Compilers are short-lived: without garbage collection, a build takes a quarter less time.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOGC=off", "GOMEMLIMIT=2GiB")
	output, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(output)))
	}
}

// lock takes the build lock, a file in bin.
func lock(ctx context.Context, root string, out io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return nil, err
	}
	announce := sync.OnceFunc(func() { fmt.Fprintln(out, "waiting for another build to finish") })
	return process.Lock(ctx, filepath.Join(root, "bin", ".lock"), announce)
}

// reportInterval is the time between two reports of the same step. The API server takes minutes to build.
const reportInterval = 15 * time.Second

// report prints that a step begins, regularly that it still runs, and with the returned function that it has ended. CAPT's own programs are
// usually up to date, so they are reported only if they take long.
func (s step) report(out io.Writer, label string) (done func()) {
	began, announced := time.Now(), false
	ctx, stop := context.WithCancel(context.Background())
	var reporting sync.WaitGroup
	reporting.Go(func() {
		_ = wait.PollUntilContextCancel(ctx, reportInterval, s.pin() != "", func(context.Context) (bool, error) {
			fmt.Fprintf(out, "%s building %s, %s so far\n", label, s.names(), time.Since(began).Round(time.Second))
			announced = true
			return false, nil
		})
	})
	return func() {
		stop()
		reporting.Wait()
		if announced {
			fmt.Fprintf(out, "%s built in %s\n", label, time.Since(began).Round(time.Second))
		}
	}
}
