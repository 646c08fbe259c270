// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ReapVerb is the hidden subcommand of the sandbox program that runs the reaper.
const ReapVerb = "reap"

// released is the message of an owner that no longer needs the reaper.
const released = "released"

// Guard is the owner's end of the pipe.
type Guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// StartReaper starts a process that cleans up after the sandbox in dir when its owner, this process, has ended for whatever reason: then the
// kernel closes the pipe between them. The reaper stops the recorded processes. With remove, it also removes the directory.
func StartReaper(binary, dir string, remove bool) (*Guard, error) {
	cmd := exec.Command(binary, ReapVerb, "--dir", dir, "--remove="+strconv.FormatBool(remove))
	// In its own session, Ctrl-C does not end it together with the owner.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	// It must not inherit the owner's output: go test waits until all processes have closed it.
	log, err := os.OpenFile(filepath.Join(dir, "logs", "reaper.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the reaper: %w", err)
	}
	return &Guard{pipe: pipe, cmd: cmd}, nil
}

// Release ends the reaper without a cleanup, because everything is stopped or must continue. It returns when the reaper has
// ended.
func (g *Guard) Release() error {
	_, err := io.WriteString(g.pipe, released)
	return errors.Join(err, g.pipe.Close(), g.cmd.Wait())
}

// Reap waits until the pipe is closed and cleans up, unless the reaper was released.
func Reap(pipe io.Reader, out io.Writer, dir string, remove bool) error {
	said, err := io.ReadAll(pipe)
	if err != nil {
		return err
	}
	if string(said) == released {
		return nil
	}
	fmt.Fprintf(out, "%s the owner of the sandbox has ended: cleaning up\n", time.Now().Format(time.RFC3339))
	if remove {
		return Remove(dir, out)
	}
	return Stop(dir, out)
}
