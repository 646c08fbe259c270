// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// The command measure runs another command and writes into a file, as JSON, what it took: measure FILE COMMAND [ARGUMENTS...]. It
// exits as the command did.
//
// Linux counts the memory of the parent process as the memory of the new process, until that has become the other program
// (setmax_mm_hiwater_rss in exec_mmap). A benchmark that holds a fleet in memory would measure its own memory instead of
// the command's. This program is small.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

type cost struct {
	// Wall, User and System are seconds.
	Wall, User, System float64
	// Memory is the most that was resident, in bytes.
	Memory int64
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "Usage: measure FILE COMMAND [ARGUMENTS...]")
		os.Exit(1)
	}
	command := exec.Command(os.Args[2], os.Args[3:]...) // #nosec G204 G702 -- The user of this program names the command.
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	began := time.Now()
	err := command.Run()
	wall := time.Since(began)
	var exit *exec.ExitError
	if err == nil || errors.As(err, &exit) {
		err = write(os.Args[1], cost{
			Wall: wall.Seconds(), User: command.ProcessState.UserTime().Seconds(), System: command.ProcessState.SystemTime().Seconds(),
			Memory: command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10,
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
	os.Exit(command.ProcessState.ExitCode())
}

func write(file string, c cost) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
