// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// linger is how long webhooks are served after the manager receives the signal to stop. The API server reuses connections, and does not retry
// a request on a connection that is closed at the same moment. So during this time, responses close their connections, and only connections
// that were idle for this time are closed at the end. It is short, because another replica can become leader only afterwards.
const linger = 500 * time.Millisecond

// longest is the maximum time that the API server waits for a response: 30 seconds for a conversion, less for all other requests.
const longest = 30 * time.Second

// drainingServer is a webhook server that does not lose requests on shutdown.
type drainingServer struct {
	webhook.Server
	linger   time.Duration
	draining atomic.Bool
}

// Start serves until the context is canceled, and for the duration linger after that.
func (s *drainingServer) Start(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	cancel := context.AfterFunc(ctx, func() {
		s.draining.Store(true)
		time.Sleep(s.linger)
		stop()
	})
	defer cancel()
	return s.Server.Start(serving)
}

// Register serves a path.
func (s *drainingServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		// The context of the server cancels the context of the request. Requests that were accepted must still be completed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), longest)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}
