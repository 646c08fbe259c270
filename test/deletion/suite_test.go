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

// Package deletion_test deletes a Cluster in every state of its control plane, whatever stands in the way. Each cell of the
// matrix ends, or says within a minute what it waits for and who can help; and it ends when that help comes.
// docs/deletion.md holds the matrix as a table.
package deletion_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/stage"
)

// shared is the stage of all tests of the package.
var shared *stage.Stage

func TestMain(m *testing.M) { os.Exit(stage.Run(m, &shared)) }
