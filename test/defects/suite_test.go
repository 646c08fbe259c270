// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package defects_test holds the faults of CAPT v0.3 that need a control plane to be seen: each test is named after the
// number of the fault in the project's list of them. Those that pure code shows are next to that code, under the same names.
package defects_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// inEitherScope runs a test with Workspaces of one scope, or of both (see fixture.Sample).
func inEitherScope(t *testing.T, test func(w *fixture.World)) {
	t.Helper()
	shared.InEitherScope(t, test)
}
