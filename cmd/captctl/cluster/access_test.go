// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAllClientsKeepTheLimitTogether, those of each kind of object and those of preflight.
func TestAllClientsKeepTheLimitTogether(t *testing.T) {
	server := "https://127.0.0.1:1"
	access := New(io.Discard)
	access.APIServer, access.QPS, access.Burst = &server, 0.001, 2
	first, err := access.Config()
	require.NoError(t, err)
	second, err := access.Config()
	require.NoError(t, err)
	assert.True(t, first.RateLimiter.TryAccept())
	assert.True(t, second.RateLimiter.TryAccept())
	assert.False(t, first.RateLimiter.TryAccept(), "the burst is used up")
}

func TestARefusedConnectionIsNotRetried(t *testing.T) {
	server := "http://127.0.0.1:1"
	access := New(io.Discard)
	access.APIServer = &server
	_, err := access.Client()
	require.ErrorContains(t, err, "connection refused; check --kubeconfig, --context and --server")
}
