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

// Another process can take a port between the check that it is free and the start of the component. The test takes the ports
// first and marks them as free in the sandbox.
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
		port := s.port(name)
		listener, err := net.Listen("tcp", process.Loopback(port))
		require.NoError(t, err)
		defer func() { require.NoError(t, listener.Close()) }()
		taken[name] = port
	}

	require.NoError(t, s.start(t.Context()))

	for name, port := range taken {
		require.NotEqual(t, port, s.port(name))
	}
}
