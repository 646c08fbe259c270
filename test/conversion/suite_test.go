// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion_test serves both API versions from a real API server, with CAPT's own definitions and converters. It covers
// what only an API server shows of conversion: pruning, defaulting, validation ratcheting, printed columns and warnings.
package conversion_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/capt-provider/capt/test/sandbox"
)

// shared is the API server of the tests that need nothing but our own definitions.
var shared *world

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	options := sandbox.Options{
		Log: os.Stderr, NoCRDs: true,
		// A watch cache would convert everything once more that is written, for watchers that are not there.
		APIServerArgs: []string{"--watch-cache=false"},
	}
	if shared, err = newWorld(ctx, options); err == nil {
		defer shared.stop()
		if err = shared.createWithoutNetwork(ctx); err == nil {
			err = shared.installDefinitions(ctx)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the API server:", err)
		return 1
	}
	return m.Run()
}
