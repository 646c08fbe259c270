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

// fakeServer serves until its context ends, and hands that context to requests, as that of controller-runtime does.
type fakeServer struct {
	webhook.Server
	handler http.Handler
	ctx     context.Context
}

func (s *fakeServer) Register(_ string, handler http.Handler) { s.handler = handler }

func (s *fakeServer) Start(ctx context.Context) error {
	s.ctx = ctx
	<-ctx.Done()
	return nil
}

func (s *fakeServer) call() *http.Response {
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(s.ctx, http.MethodPost, "/convert", nil))
	return recorder.Result()
}

// draining starts a server with a handler, in a bubble of its own time.
func draining(t *testing.T, handler http.HandlerFunc) (server *fakeServer, stop context.CancelFunc, ended <-chan error) {
	server = &fakeServer{}
	drained := &drainingServer{Server: server, linger: time.Second}
	drained.Register("/convert", handler)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- drained.Start(ctx) }()
	synctest.Wait()
	return server, cancel, result
}

func TestDrainingServerEndsConnectionsBeforeItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, stop, ended := draining(t, func(http.ResponseWriter, *http.Request) {})
		require.Empty(t, server.call().Header.Get("Connection"))

		began := time.Now()
		stop()
		synctest.Wait()
		require.Equal(t, "close", server.call().Header.Get("Connection"))
		require.NoError(t, <-ended)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestDrainingServerFinishesOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen error
		server, stop, ended := draining(t, func(_ http.ResponseWriter, r *http.Request) {
			time.Sleep(2 * time.Second)
			seen = r.Context().Err()
		})
		called := make(chan struct{})
		go func() {
			server.call()
			close(called)
		}()
		stop()
		require.NoError(t, <-ended)
		<-called
		require.NoError(t, seen)
	})
}
