// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/process"
)

func TestCrashIsReportedWithItsLogAndCanBeRestarted(t *testing.T) {
	t.Parallel()
	log := &lines{}
	s := start(t, sandbox.Options{Fsync: true, Log: log})
	require.NoError(t, syscall.Kill(processOf(t, s, sandbox.APIServer).PID, syscall.SIGKILL))
	const crash = "kube-apiserver ended (signal: killed); last lines of its log:\n    "
	require.Eventually(t, func() bool { return strings.Contains(log.String(), crash) }, wait, tick)

	// It is restarted at the same address with its data.
	require.NoError(t, s.StartComponent(t.Context(), sandbox.APIServer))
	require.NoError(t, newClient(t, s).Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}))

	// A requested kill is not a crash.
	require.NoError(t, s.Kill(sandbox.APIServer))
	require.Equal(t, 1, strings.Count(log.String(), " ended ("))
}

// lines is a log that can be read while it is written.
type lines struct {
	lock sync.Mutex
	text strings.Builder
}

func (l *lines) Write(text []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

func TestFailedStartNamesTheComponentAndCleansUp(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sandbox")
	_, err := sandbox.Start(t.Context(), sandbox.Options{Dir: dir, APIServerArgs: []string{"--no-such-flag"}})
	require.ErrorContains(t, err, "kube-apiserver ended (exit status 1)")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
	require.NoDirExists(t, dir)
}

func TestCanceledStartCleansUp(t *testing.T) {
	t.Parallel()
	require.NoError(t, sandbox.Build(t.Context(), t.Output(), "sandbox", "etcd", "kube-apiserver"))
	dir := filepath.Join(t.TempDir(), "sandbox")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var recorded *process.State
	go func() {
		defer cancel()
		for recorded == nil || len(recorded.Processes) < 2 {
			recorded, _ = process.Load(dir)
			time.Sleep(tick)
		}
	}()
	_, err := sandbox.Start(ctx, sandbox.Options{Dir: dir})
	require.ErrorIs(t, err, context.Canceled)
	<-ctx.Done()
	requireGone(t, recorded, dir)
}

// ownerEnv makes the test binary the owner of a sandbox. TestReaperCleansUpAfterAKilledOwner kills it.
const ownerEnv = "SANDBOX_TEST_OWNER_DIR"

func TestReaperCleansUpAfterAKilledOwner(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv(ownerEnv); dir != "" {
		_, err := sandbox.Start(t.Context(), sandbox.Options{Dir: dir})
		require.NoError(t, err)
		select {} // Until it is killed.
	}
	dir := filepath.Join(t.TempDir(), "sandbox")
	owner := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	owner.Env = append(os.Environ(), ownerEnv+"="+dir)
	require.NoError(t, owner.Start())
	recorded := &process.State{}
	require.Eventually(t, func() bool {
		loaded, err := process.Load(dir)
		if err == nil {
			recorded = loaded
		}
		return recorded.Ready
	}, wait, tick)

	require.NoError(t, owner.Process.Kill())
	_ = owner.Wait()

	require.Eventually(t, func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	}, wait, tick, "the reaper did not remove the directory")
	requireGone(t, recorded, dir)
}

func requireGone(t *testing.T, recorded *process.State, dir string) {
	t.Helper()
	require.NotNil(t, recorded)
	require.Len(t, recorded.Processes, 2)
	for _, p := range recorded.Processes {
		require.False(t, p.Alive(), "%s still runs", p.Name)
	}
	require.NoDirExists(t, dir)
}
