// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/test/sandbox"
	"github.com/capt-provider/capt/test/sandbox/state"
)

// Deadline and interval of waits.
const (
	wait = 30 * time.Second
	tick = 50 * time.Millisecond
)

// start starts a sandbox that is stopped when the test ends.
func start(t *testing.T, options sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	options.Log = testLog{t}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := sandbox.Start(ctx, options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	return s
}

// testLog writes a sandbox's progress to the log of the test.
type testLog struct{ t *testing.T }

func (l testLog) Write(data []byte) (int, error) {
	l.t.Logf("%s", data)
	return len(data), nil
}

func newClient(t *testing.T, s *sandbox.Sandbox) client.Client {
	t.Helper()
	c, err := client.New(s.Config(), client.Options{})
	require.NoError(t, err)
	return c
}

func TestStoppedSandboxLeavesNoProcessAndNoDirectory(t *testing.T) {
	t.Parallel()
	s := start(t, sandbox.Options{KubeControllerManager: true})
	require.NoError(t, newClient(t, s).Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}))
	recorded, err := state.Load(s.Dir())
	require.NoError(t, err)
	require.Len(t, recorded.Processes, 3)

	require.NoError(t, s.Stop(t.Context()))

	for _, p := range recorded.Processes {
		require.False(t, p.Alive(), "%s still runs", p.Name)
	}
	require.NoDirExists(t, s.Dir())
}
