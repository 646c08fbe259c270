// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"runtime"
	"slices"
	"strconv"
)

// orphans says whether the process is gone but something it had started still runs: an apply, when the provider was
// killed and nobody was there to end its group. As long as a group has members, its number is not given to another
// process, so members of a group that carries the number, in the session of that number, are ours; unless a process
// has the number, which then is a new one. Only Linux tells; elsewhere orphans end by themselves.
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

// left says whether a process is one that the process of this identity, born at that tick, has left behind.
func (id ID) left(pid int, born uint64) bool {
	member, err := readStat(pid)
	if err != nil || member.zombie || member.group != id.PID || member.session != id.PID {
		return false
	}
	started, err := strconv.ParseUint(member.started, 10, 64)
	return err == nil && started >= born
}
