// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhooks_test shows what users notice of CAPT's webhooks when these are away, when they hang, when their
// certificates are renewed and when the replicas that serve them are replaced. It runs on a real API server.
package webhooks_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/capt-provider/capt/test/sandbox"
)

// quiet keeps the controllers away from the objects of the tests: nothing changes but what a test changes, and only the
// webhooks are active.
const quiet = "--watch-filter=none"

// keepsVersions keeps the manager from rewriting what a test has stored in v1beta1.
const keepsVersions = "--skip-crd-migration-phases=StorageVersionMigration"

// shared is the control plane of all tests of the package. Tests take its manager away, so they run one after the other.
var shared *sandbox.Sandbox

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	shared, err = sandbox.Start(ctx, sandbox.Options{
		Log: os.Stderr, ClusterAPI: true, KubeControllerManager: true, Manager: true, ManagerArgs: []string{quiet, keepsVersions},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "Starting the sandbox:", err)
		return 1
	}
	defer func() {
		if err := shared.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "Stopping the sandbox:", err)
		}
	}()
	code := m.Run()
	if code != 0 {
		fmt.Fprintln(os.Stderr, shared.Logs(sandbox.Manager, 60))
	}
	return code
}
