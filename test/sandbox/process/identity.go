// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package process starts, monitors and stops the programs of a sandbox, and identifies them later. A process is always
// identified by its process ID together with its start time, never by a name or the process ID alone.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ID identifies a process even after its process ID is reused.
type ID struct {
	PID int `json:"pid"`
	// Started is the start time in a system-specific format. It is only compared.
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

// Alive reports whether this process still runs. A zombie does not: in a container whose first process does not wait for
// its children, it would remain forever.
func (id ID) Alive() bool {
	if id.PID <= 1 || id.Started == "" {
		return false
	}
	started, zombie, err := inspect(id.PID)
	return err == nil && !zombie && started == id.Started
}

// Signal sends a signal to the process and its children: every process of the sandbox leads its own process group. A process
// that has ended is not an error.
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
		return fmt.Errorf("signaling process %d: %w", id.PID, err)
	}
	return nil
}

// Stop terminates the process, and kills it after the grace period; without one, it is killed at once. It returns when the process has ended.
func (id ID) Stop(grace time.Duration) error {
	if grace > 0 {
		if err := id.Signal(syscall.SIGTERM); err != nil || id.gone(grace) {
			return err
		}
	}
	if err := id.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !id.gone(killTimeout) {
		return fmt.Errorf("process %d still exists %s after it was killed", id.PID, killTimeout)
	}
	return nil
}

// killTimeout is how long a killed process may take to end on a busy machine: the kernel must release its memory and files.
const killTimeout = time.Minute

func (id ID) gone(timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		if !id.Alive() && !id.orphans() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// inspect returns the start time of a process, and whether it is a zombie.
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

// stat is the part of /proc/PID/stat that identifies a process.
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

// orphans reports whether the process has ended but its children still run, for example an apply of a killed provider. As
// long as a process group has members, its ID is not reused. So the members of the group and session with this ID are
// children of this process, unless a new process has the ID. Only Linux provides this information; elsewhere, orphans are
// left to end.
func (id ID) orphans() bool {
	born, err := strconv.ParseUint(id.Started, 10, 64)
	if runtime.GOOS != "linux" || id.PID <= 1 || err != nil {
		return false
	}
	if own, err := readStat(id.PID); err == nil && own.started != id.Started {
		return false
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		pid, err := strconv.Atoi(entry.Name())
		return err == nil && pid != id.PID && id.left(pid, born)
	})
}

// left reports whether a process is an orphan of the process with this ID, which was started at that tick.
func (id ID) left(pid int, born uint64) bool {
	member, err := readStat(pid)
	if err != nil || member.zombie || member.group != id.PID || member.session != id.PID {
		return false
	}
	started, err := strconv.ParseUint(member.started, 10, 64)
	return err == nil && started >= born
}
