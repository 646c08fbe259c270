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

// linger is how long the webhooks are still served after the manager was asked to end. The API server keeps connections and
// uses them again; one that is closed at the moment in which the next request is sent on it loses this request, which is
// never sent a second time. So connections in use are ended with an answer, and what is closed in the end was not used for
// that long. It is short, because another replica can lead only afterwards.
const linger = 500 * time.Millisecond

// longest is how long the API server waits for an answer at most: half a minute for a conversion, less for everything else.
const longest = 30 * time.Second

// drainingServer is a webhook server that ends without losing requests.
type drainingServer struct {
	webhook.Server
	linger   time.Duration
	draining atomic.Bool
}

// Start serves until the context ends, and a moment longer.
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
		// The context of a request ends with that of the server. What was begun is finished all the same.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), longest)
		defer cancel()
		handler.ServeHTTP(w, r.WithContext(ctx))
	}))
}
