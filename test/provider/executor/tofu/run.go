// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/capt-provider/capt/test/provider/executor"
)

// errStopped is provider-terraform's word for a command that was stopped by its deadline or by the provider's end.
const errStopped = "shutdown while running terraform command"

// cli runs tofu in one folder.
type cli struct {
	binary    string
	dir       string
	env       []string
	stopGrace time.Duration
	inits     chan struct{}
}

// run runs one command to its end and returns what it printed. A non-zero exit is an *exitError.
//
// The command gets a process group of its own. When ctx is done, the whole group is asked to stop, so that
// local-exec commands end and tofu still saves its state and unlocks it, and is killed after the grace period.
func (c *cli) run(ctx context.Context, args ...string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", errStopped, err)
	}
	g, err := newGroup()
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", args[0], err)
	}
	defer g.release()

	var stdout, stderr bytes.Buffer
	cmd := exec.Command(c.binary, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.dir, c.env, &stdout, &stderr
	// A process that stays behind on purpose may still hold our end of the pipes.
	cmd.WaitDelay = c.stopGrace
	g.add(cmd)

	done, err := start(cmd)
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", args[0], err)
	}
	select {
	case err := <-done:
		return result(&stdout, &stderr, err)
	case <-ctx.Done():
	}
	g.stop()
	select {
	case <-done:
		g.kill()
	case <-time.After(c.stopGrace):
		g.kill()
		<-done
	}
	return nil, fmt.Errorf("%s: %w", errStopped, ctx.Err())
}

// start starts a command and returns a channel that reports its end. The thread that started it waits for it: Linux sends the
// parent-death signal when that thread ends, which must not happen before the provider does.
func start(cmd *exec.Cmd) (<-chan error, error) {
	started, done := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			done <- cmd.Wait()
		}
	}()
	return done, <-started
}

// exitError is a command that ran and failed.
type exitError struct {
	code   int
	stderr string
}

func (e *exitError) Error() string { return executor.Failure(e.stderr).Error() }

func result(stdout, stderr *bytes.Buffer, err error) ([]byte, error) {
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return stdout.Bytes(), nil
	case errors.As(err, &exit):
		return stdout.Bytes(), &exitError{code: exit.ExitCode(), stderr: stderr.String()}
	default:
		return nil, err
	}
}

// guardScript waits for a line. The end of its input instead means that the provider is gone without having stopped
// its commands; then the guard takes its process group, itself included, down.
const guardScript = `trap "" TERM INT HUP; read -r line || kill -KILL 0`

// group is the process group of one command. A small shell, the guard, leads it, so that the group ends with the
// provider even when the provider is killed and cannot end it: local-exec commands too, which no parent-death signal
// reaches. Only a process that left the group (setsid) stays.
type group struct {
	guard *exec.Cmd
	// alive is held open by the provider alone. The kernel closes it when the provider dies.
	alive *os.File
}

func newGroup() (*group, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = read.Close() }()
	guard := exec.Command("/bin/sh", "-c", guardScript)
	guard.Stdin = read
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		return nil, errors.Join(err, write.Close())
	}
	return &group{guard: guard, alive: write}, nil
}

// add makes a command that is not started yet a member of the group.
func (g *group) add(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.guard.Process.Pid}
	dieWithProvider(cmd.SysProcAttr)
}

// stop asks every process of the group to end; the guard does not listen.
func (g *group) stop() { _ = syscall.Kill(-g.guard.Process.Pid, syscall.SIGTERM) }

// kill ends every process of the group. The guard is still in it, or a zombie until release: the group's number
// cannot have been given to another one.
func (g *group) kill() { _ = syscall.Kill(-g.guard.Process.Pid, syscall.SIGKILL) }

// release lets the guard end and leaves the rest of the group alone: a command that ended by itself may have left
// something running on purpose.
func (g *group) release() {
	_, _ = g.alive.WriteString("done\n")
	_ = g.alive.Close()
	_ = g.guard.Wait()
}
