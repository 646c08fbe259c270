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

// Package fargate_test plays the life of Fargate profiles on whole clusters: Cluster API, CAPT and Kubernetes are real, and
// Terraform follows a script.
package fargate_test

import (
	"os"
	"testing"

	"github.com/capt-provider/capt/test/stage"
)

// shared is the stage of all tests of the package.
var shared *stage.Stage

func TestMain(m *testing.M) { os.Exit(stage.Run(m, &shared)) }

// inBothScopes runs a test with Workspaces of either scope.
func inBothScopes(t *testing.T, test func(w *world)) {
	t.Helper()
	shared.InBothScopes(t, func(w *stage.World) { test(&world{w}) })
}
