// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The sandbox has the Terraform state: it is removed only if Terraform has destroyed everything, standalone objects included.
func TestQuickstartDownFailsAndKeepsTheSandboxIfSomethingIsLeft(t *testing.T) {
	script, err := filepath.Abs("quickstart.sh")
	require.NoError(t, err)
	for stuck, want := range map[string][]string{
		"none":                    {"sandbox status", "kubectl delete clusters", "kubectl delete workspacetemplateapplies", "sandbox down"},
		"delete clusters":         {"sandbox status", "kubectl delete clusters"},
		"delete workspacetemplat": {"sandbox status", "kubectl delete clusters", "kubectl delete workspacetemplateapplies"},
		"status":                  {"sandbox status"},
	} {
		t.Run(stuck, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
			require.NoError(t, os.Mkdir(filepath.Join(dir, ".sandbox"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".sandbox", "env"), []byte("PATH=$PWD/bin:$PATH\n"), 0o600))
			for _, name := range []string{"sandbox", "kubectl"} {
				fake := "#!/bin/sh\necho \"$(basename $0) $1 $2\" | sed 's/ $//' >> calls\ncase \"$*\" in '" + stuck + "'*) exit 1;; esac\n"
				require.NoError(t, os.WriteFile(filepath.Join(dir, "bin", name), []byte(fake), 0o700)) //nolint:gosec // It is run.
			}
			command := exec.CommandContext(t.Context(), "bash", script, "down")
			command.Dir = dir
			output, err := command.CombinedOutput()
			assert.Equal(t, stuck == "none", err == nil, string(output))
			assert.Equal(t, stuck != "none", strings.Contains(string(output), "Terraform did not destroy everything"))
			calls, err := os.ReadFile(filepath.Join(dir, "calls"))
			require.NoError(t, err)
			assert.Equal(t, want, strings.Split(strings.TrimSpace(string(calls)), "\n"))
		})
	}
}
