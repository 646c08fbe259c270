// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package webhooks_test shows what users notice of CAPT's webhooks when these are away, when they hang, when their
// certificates are renewed and when the replicas that serve them are replaced. It runs on a real API server.
package webhooks_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
	"github.com/capt-provider/capt/test/sandbox"
)

// quiet keeps the controllers away from the objects of the tests: nothing changes but what a test changes, and only the
// webhooks are active.
const quiet = "--watch-filter=none"

// keepsVersions keeps the manager from rewriting what a test has stored in v1beta1.
const keepsVersions = "--skip-crd-migration-phases=StorageVersionMigration"

// shared is the control plane of all tests of the package. Tests stop its manager, so they run one after the other.
var shared *fixture.Server

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, &shared, func(options *sandbox.Options) {
		options.Installation = "" // The names of config/default.
		options.Provider, options.ManagerArgs = false, []string{quiet, keepsVersions}
	}))
}
