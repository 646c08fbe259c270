// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package reaper cleans up after a sandbox whose owner is gone. The owner, a test or a command, starts it as a small
// process of its own and holds a pipe to it. However the owner ends, the kernel closes the pipe; then the reaper stops
// what the sandbox has recorded and removes its folder.
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

// Verb is the hidden verb of the sandbox command that runs the reaper.
const Verb = "reap"

// released is what the owner writes when the reaper is no longer needed.
const released = "released"

// Guard is the owner's end of the pipe.
type Guard struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// Start starts a reaper for the sandbox in dir. With remove, it removes the whole folder in the end.
func Start(binary, dir string, remove bool) (*Guard, error) {
	cmd := exec.Command(binary, Verb, "--dir", dir, "--remove="+strconv.FormatBool(remove))
	// Its own session, so that Ctrl-C ends the owner but not the one who cleans up after it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o700); err != nil {
		return nil, err
	}
	// Not our output: go test waits until everyone who holds it has ended.
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

// Release sends the reaper home: everything is stopped, or shall go on without us. It returns when the reaper is gone.
func (g *Guard) Release() error {
	_, err := io.WriteString(g.pipe, released)
	return errors.Join(err, g.pipe.Close(), g.cmd.Wait())
}

// Run is the reaper: it waits for the pipe to be closed and cleans up, unless it was released.
func Run(pipe io.Reader, out io.Writer, dir string, remove bool) error {
	said, err := io.ReadAll(pipe)
	if err != nil {
		return err
	}
	if string(said) == released {
		return nil
	}
	fmt.Fprintf(out, "%s the owner of the sandbox is gone: cleaning up\n", time.Now().Format(time.RFC3339))
	if remove {
		return teardown.Remove(dir, out)
	}
	return teardown.Recorded(dir, out)
}
