//go:build unix

// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tofu

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

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
