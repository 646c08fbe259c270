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

package migrate_test

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/test/sandbox"
)

// captctl runs a command of captctl migrate as the user that the sandbox has for it, and returns what it printed for machines.
func (w *world) captctl(want migrate.Outcome, args ...string) string {
	w.Helper()
	command := exec.CommandContext(w.Context(), w.Binary(sandbox.Captctl), append([]string{"migrate", "--kubeconfig=" + w.KubeconfigOf(sandbox.Captctl)}, args...)...)
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	err := command.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(w, err)
	}
	require.Equal(w, int(want), command.ProcessState.ExitCode(), "captctl migrate %s: %s", strings.Join(args, " "), complaints.String())
	return out.String()
}

// buildCaptctl builds it, as far as it has changed.
func buildCaptctl(ctx context.Context, t *testing.T) {
	t.Helper()
	require.NoError(t, sandbox.Build(ctx, t.Output(), sandbox.Captctl))
}
