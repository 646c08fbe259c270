// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package process_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox/process"
)

const (
	wait = time.Minute
	tick = 20 * time.Millisecond
)

// shell starts a shell script as a process of the sandbox. The log has its output.
func shell(t *testing.T, script string) (*process.Process, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	p, err := process.Start(process.Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: log})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p, log
}

// childOf waits until the script has printed the process ID of its child.
func childOf(t *testing.T, log string) process.ID {
	t.Helper()
	pid := 0
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(log)
		require.NoError(t, err)
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil
	}, wait, tick)
	id, err := process.Identify(pid)
	require.NoError(t, err)
	return id
}

func TestReusedProcessIDIsNotSignalled(t *testing.T) {
	p, _ := shell(t, "sleep 60")
	other := process.ID{PID: p.ID().PID, Started: "1"}

	require.False(t, other.Alive())
	require.NoError(t, other.Stop(time.Second))
	require.True(t, p.ID().Alive(), "another process was stopped")
}

func TestZombieIsNotAlive(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "exit 0")
	require.NoError(t, cmd.Start())
	id, err := process.Identify(cmd.Process.Pid)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !id.Alive() }, wait, tick)
	require.NoError(t, cmd.Wait())
}

func TestEndIsReportedWithStatusAndLog(t *testing.T) {
	p, _ := shell(t, "echo what went wrong; exit 7")
	<-p.Done()
	require.EqualError(t, p.Err(), "script ended (exit status 7); last lines of its log:\n    what went wrong")
	require.False(t, p.Expected())
}

func TestProcessThatIgnoresTerminationIsKilledAfterTheGracePeriod(t *testing.T) {
	p, log := shell(t, "trap '' TERM; echo $$; while true; do sleep 1; done")
	childOf(t, log)
	p.Stop(50 * time.Millisecond)
	require.ErrorContains(t, p.Err(), "signal: killed")
	require.True(t, p.Expected())
}

func TestChildrenAreKilledWithTheirProcess(t *testing.T) {
	p, log := shell(t, "sleep 60 & echo $!; wait")
	child := childOf(t, log)
	require.NoError(t, syscall.Kill(p.ID().PID, syscall.SIGKILL))
	<-p.Done()
	require.Eventually(t, func() bool { return !child.Alive() }, wait, tick)
}

func TestOrphansOfARecordedProcessAreStopped(t *testing.T) {
	// The shell in between prevents this process from noticing the end of the leader, as with a detached sandbox.
	pids := filepath.Join(t.TempDir(), "pids")
	script := `setsid sh -c 'sleep 60 & echo $$ $! >` + pids + `.part; mv ` + pids + `.part ` + pids + `; read line' </dev/zero & wait`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	var fields []string
	require.Eventually(t, func() bool {
		data, _ := os.ReadFile(pids)
		fields = strings.Fields(string(data))
		return len(fields) == 2
	}, wait, tick)
	var ids [2]process.ID
	for i, field := range fields {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		ids[i], err = process.Identify(pid)
		require.NoError(t, err)
	}
	leader, orphan := ids[0], ids[1]
	require.NoError(t, syscall.Kill(leader.PID, syscall.SIGKILL))
	require.Eventually(t, func() bool { return !leader.Alive() }, wait, tick)
	require.True(t, orphan.Alive())

	require.NoError(t, leader.Stop(time.Second))

	require.False(t, orphan.Alive(), "an orphan still runs")
}

func TestFreePortIsFree(t *testing.T) {
	port, err := process.FreePort()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", process.Loopback(port))
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	again, err := process.FreePort()
	require.NoError(t, err)
	require.NotEqual(t, port, again)
}

func TestTailShowsTheLastLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	require.Equal(t, "(no log)", process.Tail(path, 2))
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.Equal(t, "(the log is empty)", process.Tail(path, 2))
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("a line\n", 100_000)+"one\ntwo\n"), 0o600))
	require.Equal(t, "one\ntwo", process.Tail(path, 2))
}
