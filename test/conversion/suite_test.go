// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package conversion_test serves both API versions from a real API server, with CAPT's own definitions and converters. It covers
// what only an API server shows of conversion: pruning, defaulting, validation ratcheting, printed columns and warnings.
package conversion_test

import (
	"context"
	"os"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// shared is the API server of the tests that need nothing but our own definitions.
var shared *world

func TestMain(m *testing.M) { os.Exit(fixture.Suite{Start: start}.Run(m)) }

func start(ctx context.Context, _ string, keep func(*sandbox.Sandbox)) (err error) {
	options := sandbox.Options{
		Log: os.Stderr, NoCRDs: true,
		// A watch cache would convert everything once more that is written, for watchers that are not there.
		APIServerArgs: []string{"--watch-cache=false"},
	}
	if shared, err = newWorld(ctx, options); err != nil {
		return err
	}
	keep(shared.sandbox)
	if err = shared.createWithoutNetwork(ctx); err != nil {
		return err
	}
	return shared.installDefinitions(ctx)
}
