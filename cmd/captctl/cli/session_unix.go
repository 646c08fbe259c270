// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownSession gives a command its own session, all processes of which are interrupted when its context is done. The function that it returns kills them.
func ownSession(command *exec.Cmd) (kill func()) {
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signal := func(signal syscall.Signal) error {
		if command.Process == nil {
			return nil
		}
		return syscall.Kill(-command.Process.Pid, signal)
	}
	command.Cancel = func() error { return signal(syscall.SIGINT) }
	return func() { _ = signal(syscall.SIGKILL) } // An error means that none is left.
}
