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
// webhooks are at work.
const quiet = "--watch-filter=nobody"

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
