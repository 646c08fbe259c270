// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// statesOf returns the states of an object that nothing else prevents from being created, by what its WorkspaceTemplateApply reports: of a new one, and of
// one that was ready before. It reads the table of states of a controller.
func statesOf(t *testing.T, controller string) map[string][2]string {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(controller, "testdata", "status.golden"))
	require.NoError(t, err)
	states := map[string][2]string{}
	for _, row := range regexp.MustCompile(`(?m)^(?:living|everything there); (.*)\n  new:    \w+, (\w+).*\n  before: \w+, (\w+)`).FindAllStringSubmatch(string(table), -1) {
		states[row[1]] = [2]string{row[2], row[3]}
	}
	return states
}

// The VPC, the control plane and the machine pool have one implementation of states: what Terraform reports means the same for each.
func TestOwnersHaveTheSameStates(t *testing.T) {
	controlPlane, compared := statesOf(t, "captcontrolplane"), 0
	for _, controller := range []string{"captcluster", "captmachinepool"} {
		for what, states := range statesOf(t, controller) {
			if want, ok := controlPlane[what]; ok {
				compared++
				if what == "Terraform running" { // Only in the table of the control plane, it was applied before.
					want[1] = string(infrav1.StateProvisioning)
				}
				assert.Equal(t, want, states, "%s: %s", controller, what)
			}
		}
	}
	assert.GreaterOrEqual(t, compared, 18, "rows of the tables have the same names")
}
