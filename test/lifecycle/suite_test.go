// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle_test tests what users do with whole clusters, on the shared control plane.
package lifecycle_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }
