// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fargate_test plays the life of Fargate profiles on whole clusters: Cluster API, CAPT and Kubernetes are real, and
// Terraform follows a script.
package fargate_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }

// inEitherScope runs a test with Workspaces of one scope, or of both (see fixture.Sample).
func inEitherScope(t *testing.T, test func(w *world)) {
	t.Helper()
	shared.InEitherScope(t, func(w *fixture.World) { test(&world{w}) })
}
