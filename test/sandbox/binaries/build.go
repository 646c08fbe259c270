// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Build builds those of the named binaries that are missing, or all of them if none is named, and tells on out what
// it builds and how long each took. Two builds at once, in one process or in several, wait for each other.
func Build(ctx context.Context, out io.Writer, names ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		names = Names()
	}
	missing, err := plan(root, names)
	if err != nil {
		return err
	}
	if len(missing) == 0 {
		return nil
	}
	unlock, err := lock(ctx, root, out)
	if err != nil {
		return err
	}
	defer unlock()
	// Whoever held the lock may have built what we miss.
	if missing, err = plan(root, names); err != nil {
		return err
	}
	progress := progress{out: out, total: countPinned(missing), started: time.Now()}
	for _, b := range missing {
		if err := b.build(ctx, root, &progress); err != nil {
			return fmt.Errorf("building %s: %w", b.name, err)
		}
	}
	return nil
}

// plan returns what go build must be run for, in the order of the catalogue.
func plan(root string, names []string) ([]binary, error) {
	for _, name := range names {
		if _, err := lookup(name); err != nil {
			return nil, err
		}
	}
	var missing []binary
	for _, b := range catalogue() {
		if !slices.Contains(names, b.name) {
			continue
		}
		path, err := b.path(root)
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); err == nil && b.pin != "" {
			continue
		}
		missing = append(missing, b)
	}
	return missing, nil
}

func countPinned(list []binary) int {
	n := 0
	for _, b := range list {
		if b.pin != "" {
			n++
		}
	}
	return n
}

func (b binary) build(ctx context.Context, root string, progress *progress) error {
	path, err := b.path(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	dir, version := root, ""
	if b.pin != "" {
		dir = PinDir(root, b.pin)
		if version, err = b.version(root); err != nil {
			return err
		}
		defer progress.begin(b.name, version)()
	}
	// A pinned binary is given its name only when it is complete, because its presence is what says that it is built.
	target := path
	if b.pin != "" {
		target = path + ".part"
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-C", dir, "-trimpath", "-ldflags", b.linkFlags(version), "-o", target, b.pkg)
	// An interrupted build must not leave compilers behind: go build passes an interrupt on, but not a kill.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(output)))
	}
	if target == path {
		return nil
	}
	return os.Rename(target, path)
}

// progress prints a line when a pinned binary is begun, another when it is done, and one every few seconds between:
// the API server takes minutes, and silence looks like a hang.
type progress struct {
	out     io.Writer
	total   int
	index   int
	started time.Time
}

func (p *progress) begin(name, version string) (done func()) {
	p.index++
	label := fmt.Sprintf("[%d/%d] %s %s", p.index, p.total, name, version)
	began := time.Now()
	fmt.Fprintf(p.out, "%s: building\n", label)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(15 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				fmt.Fprintf(p.out, "%s: still building, %s\n", label, time.Since(began).Round(time.Second))
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
		fmt.Fprintf(p.out, "%s: %s (%s since the first)\n", label, time.Since(began).Round(100*time.Millisecond),
			time.Since(p.started).Round(time.Second))
	}
}

// lock takes the build lock, a flock on a file in bin that the kernel releases even if we are killed.
func lock(ctx context.Context, root string, out io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(root, "bin", ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	announced := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			_ = file.Close()
			return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
		}
		if !announced {
			fmt.Fprintln(out, "waiting for another build to finish")
			announced = true
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
