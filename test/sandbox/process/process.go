// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Spec says what to run.
type Spec struct {
	Name string
	Path string
	Args []string
	// Env is added to the environment of the caller.
	Env []string
	// Dir is the working directory.
	Dir string
	// Log is the file that gets what the process prints. A file and not a pipe, so that a detached process can go on
	// writing when we are gone. It is appended to.
	Log string
}

// Process is a child of ours.
type Process struct {
	spec     Spec
	id       ID
	cmd      *exec.Cmd
	done     chan struct{}
	err      error
	expected atomic.Bool
}

// Start starts a process in a session of its own: Ctrl-C in the terminal reaches only the one who must decide what
// to stop in which order, and a detached process outlives the terminal.
func Start(spec Spec) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = spec.Dir, log, log
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", spec.Name, err)
	}
	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	// Nobody has waited for it yet, so even if it has ended already its number can not belong to another.
	if p.id, err = Identify(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	go p.wait()
	return p, nil
}

func (p *Process) wait() {
	err := p.cmd.Wait()
	// What it started dies with it, as the processes of a container do. The group can not have a new owner yet:
	// process numbers are handed out in turn.
	_ = syscall.Kill(-p.id.PID, syscall.SIGKILL)
	status := "exit status 0"
	if err != nil {
		status = err.Error()
	}
	p.err = fmt.Errorf("%s ended (%s); the end of its log:\n%s", p.spec.Name, status, indent(Tail(p.spec.Log, 20)))
	close(p.done)
}

// ID is the identity to record.
func (p *Process) ID() ID { return p.id }

// Name is the name given in the spec.
func (p *Process) Name() string { return p.spec.Name }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Err says how the process ended, with its name, its exit status and the end of its log. It may be called once Done
// is closed.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Expected says whether the end of the process was asked for by us. Otherwise it was a crash.
func (p *Process) Expected() bool { return p.expected.Load() }

// Stop asks the process to end and kills it after the grace, or as soon as the context is done.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	p.expected.Store(true)
	_ = p.id.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	case <-timer.C:
	}
	p.Kill()
}

// Kill kills the process with its group and returns when it is gone.
func (p *Process) Kill() {
	p.expected.Store(true)
	_ = p.id.Signal(syscall.SIGKILL)
	<-p.done
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
