// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package deletion_test deletes a Cluster in every state of its control plane, with every obstacle. Each cell of the
// matrix ends, or says what it waits for and who can help; and it ends when that help comes.
// docs/deletion.md holds the matrix as a table.
package deletion_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/fixture"
)

// shared is the control plane of all tests of the package.
var shared *fixture.Server

func TestMain(m *testing.M) { os.Exit(fixture.Main(m, &shared)) }
