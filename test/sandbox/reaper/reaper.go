// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package reaper cleans up after a sandbox whose owner has ended. The owner, a test or a command, starts the reaper as a
// separate process and holds a pipe to it. When the owner ends, for whatever reason, the kernel closes the pipe. The reaper
// then stops the processes that the sandbox has recorded and removes its directory.
package reaper

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

	"github.com/capt-provider/capt/test/sandbox/teardown"
)

// Verb is the hidden subcommand of the sandbox program that runs the reaper.
const Verb = "reap"

// released is the message of an owner that no longer needs the reaper.
const released = "released"

// Guard is the owner's end of the pipe.
type Guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// Start starts a reaper for the sandbox in dir. With remove, it also removes the directory.
func Start(binary, dir string, remove bool) (*Guard, error) {
	cmd := exec.Command(binary, Verb, "--dir", dir, "--remove="+strconv.FormatBool(remove))
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

// Run waits until the pipe is closed and cleans up, unless the reaper was released.
func Run(pipe io.Reader, out io.Writer, dir string, remove bool) error {
	said, err := io.ReadAll(pipe)
	if err != nil {
		return err
	}
	if string(said) == released {
		return nil
	}
	fmt.Fprintf(out, "%s the owner of the sandbox has ended: cleaning up\n", time.Now().Format(time.RFC3339))
	if remove {
		return teardown.Remove(dir, out)
	}
	return teardown.Recorded(dir, out)
}
