// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/sandbox/process"
)

// Between the moment a port is found free and the moment a component listens on it, another process may take it. That
// is played here by taking the ports first and making the sandbox believe that they are free.
func TestPortsTakenByOthersAreAvoided(t *testing.T) {
	t.Parallel()
	options := Options{}
	options.complete()
	require.NoError(t, Build(t.Context(), options.Log, options.binaries()...))
	s, err := newSandbox(options)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.WithoutCancel(t.Context()))) })
	taken := map[string]int{}
	for _, name := range []string{"etcd-client", "apiserver"} {
		port, err := s.port(name)
		require.NoError(t, err)
		listener, err := net.Listen("tcp", process.Loopback(port))
		require.NoError(t, err)
		defer func() { require.NoError(t, listener.Close()) }()
		taken[name] = port
	}

	require.NoError(t, s.start(t.Context()))

	for name, port := range taken {
		now, err := s.port(name)
		require.NoError(t, err)
		require.NotEqual(t, port, now)
	}
}
