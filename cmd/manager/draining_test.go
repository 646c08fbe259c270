// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// fakeServer calls what is registered.
type fakeServer struct {
	webhook.Server
	handler http.Handler
}

func (s *fakeServer) Register(_ string, handler http.Handler) { s.handler = handler }

func (s *fakeServer) call(ctx context.Context) *http.Response {
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodPost, "/convert", nil))
	return recorder.Result()
}

func TestDrainingServerClosesConnectionsBeforeTheManagerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signal, stop := context.WithCancel(t.Context())
		running := delayed(signal, 5*time.Second)
		server := &fakeServer{}
		(&drainingServer{Server: server, signal: signal}).Register("/convert", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		require.Empty(t, server.call(running).Header.Get("Connection"))

		began := time.Now()
		stop()
		require.Equal(t, "close", server.call(running).Header.Get("Connection"))
		require.NoError(t, running.Err())
		<-running.Done()
		require.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestDrainingServerFinishesOpenRequests(t *testing.T) {
	running, stop := context.WithCancel(t.Context())
	server := &fakeServer{}
	var seen error
	(&drainingServer{Server: server, signal: t.Context()}).Register("/convert", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stop()
		seen = r.Context().Err()
	}))
	server.call(running)
	require.NoError(t, seen)
}
