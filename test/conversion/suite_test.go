/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Package conversion_test serves both API versions from a real API server, with CAPT's own definitions and converters:
// upgrades of definitions in place, thousands of objects written in one version and read in the other, and files applied
// in every order.
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
		err = shared.installDefinitions(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the API server:", err)
		return 1
	}
	return m.Run()
}
