// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// maxRequestDuration is the maximum time that the API server waits for a response: 30 seconds for a conversion, less for all other requests.
const maxRequestDuration = 30 * time.Second

// delayed returns a context that is canceled when the time has passed after the cancellation of the given one. Until then, Services learn that
// this replica ends, and the API server closes its connections (see drainingServer).
func delayed(ctx context.Context, delay time.Duration) context.Context {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(delay, stop) })
	return running
}

// drainingServer is a webhook server that rarely loses a request on shutdown. The API server reuses connections, and does not retry a request
// on a connection that is closed at the same moment. So responses close their connections from the signal on, and only connections that were idle
// for the whole delay are closed at its end. HTTP/1.1, which the API server uses, cannot exclude a request on one of them at that moment.
type drainingServer struct {
	webhook.Server
	// signal is canceled by the signal to stop, before the server is.
	signal context.Context
}

// Register serves a path.
func (s *drainingServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.signal.Err() != nil {
			w.Header().Set("Connection", "close")
		}
		// The context of the server cancels the context of the request. Requests that were accepted must still be completed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), maxRequestDuration)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}
