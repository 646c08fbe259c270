// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"runtime"
	"slices"
	"strconv"
)

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
