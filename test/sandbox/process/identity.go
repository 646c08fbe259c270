// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package process starts, watches and stops the programs of a sandbox, and knows them again later: a process is
// always addressed by its number together with the moment it started, never by a name and never by a number alone.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ID tells one process from every other that had or will have the same number.
type ID struct {
	PID int `json:"pid"`
	// Started is when the process started, in whatever form the system gives it: it is only compared.
	Started string `json:"started"`
}

// Identify returns the identity of a running process.
func Identify(pid int) (ID, error) {
	started, _, err := inspect(pid)
	if err != nil {
		return ID{}, fmt.Errorf("process %d: %w", pid, err)
	}
	return ID{PID: pid, Started: started}, nil
}

// Alive says whether this very process still runs. A zombie does not: it is only waiting for its parent to look,
// and where the first process of a container does not look, it stays one for ever.
func (id ID) Alive() bool {
	if id.PID <= 1 || id.Started == "" {
		return false
	}
	started, zombie, err := inspect(id.PID)
	return err == nil && !zombie && started == id.Started
}

// Signal sends a signal to the process and its group. Every process of the sandbox leads a group of its own, so this
// reaches what it started too (an apply of the provider, for one). A process that is gone is not an error.
func (id ID) Signal(signal syscall.Signal) error {
	target := id.PID
	switch {
	case id.Alive():
		if group, err := syscall.Getpgid(id.PID); err == nil && group == id.PID {
			target = -id.PID
		}
	case id.orphans():
		target = -id.PID
	default:
		return nil
	}
	if err := syscall.Kill(target, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signalling process %d: %w", id.PID, err)
	}
	return nil
}

// Stop asks the process to end and, when it has not ended after the grace, kills it. It returns when it is gone.
func (id ID) Stop(grace time.Duration) error {
	if err := id.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if id.gone(grace) {
		return nil
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !id.gone(killPatience) {
		return fmt.Errorf("process %d is still there %s after it was killed", id.PID, killPatience)
	}
	return nil
}

// killPatience is how long a killed process may take to disappear: the kernel has memory and files to give back.
const killPatience = 10 * time.Second

func (id ID) gone(patience time.Duration) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if !id.Alive() && !id.orphans() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// inspect returns when a process started, and whether it is a zombie.
func inspect(pid int) (started string, zombie bool, err error) {
	if runtime.GOOS == "linux" {
		own, err := readStat(pid)
		return own.started, own.zombie, err
	}
	output, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", false, err
	}
	state, started, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	return strings.TrimSpace(started), strings.HasPrefix(state, "Z"), nil
}

// stat is the part of /proc/PID/stat that tells processes apart.
type stat struct {
	zombie         bool
	group, session int
	started        string
}

// readStat reads /proc/PID/stat. The second field is the name of the program in brackets and may itself hold spaces
// and brackets, so fields are counted from the last closing one: state is the first after it (3 in proc(5)), group and
// session the third and fourth, and the start time, in ticks since boot, the twentieth (22).
func readStat(pid int) (stat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	group, err := strconv.Atoi(fields[2])
	if err != nil {
		return stat{}, err
	}
	session, err := strconv.Atoi(fields[3])
	return stat{
		zombie:  fields[0] == "Z" || fields[0] == "X",
		group:   group,
		session: session,
		started: fields[19],
	}, err
}
