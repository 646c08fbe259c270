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
	return w.begin(sandbox.Captctl, args...).ends(want).out.String()
}

// execution is a command of captctl migrate.
type execution struct {
	*world
	*exec.Cmd
	out, complaints bytes.Buffer
}

// begin starts a command of captctl migrate, or captctl convert, as one of the identities of the sandbox, and does not wait for it.
func (w *world) begin(identity string, args ...string) *execution {
	w.Helper()
	return w.beginWith(w.KubeconfigOf(identity), args...)
}

func (w *world) beginWith(kubeconfig string, args ...string) *execution {
	w.Helper()
	if args[0] != "convert" {
		args = append([]string{"migrate"}, args...)
	}
	e := &execution{world: w, Cmd: exec.CommandContext(w.Context(), w.Binary(sandbox.Captctl), append([]string{"--kubeconfig=" + kubeconfig}, args...)...)}
	e.Stdout, e.Stderr = &e.out, &e.complaints
	require.NoError(w, e.Start())
	return e
}

// ends waits for the command, and returns it. An outcome of killed is that of one that ended by a signal.
func (e *execution) ends(want migrate.Outcome) *execution {
	e.Helper()
	err := e.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(e, err)
	}
	require.Equal(e, int(want), e.ProcessState.ExitCode(), "captctl %s: %s %s", strings.Join(e.Args[1:], " "), &e.out, &e.complaints)
	return e
}

// killed is what the system says of a process that ended by a signal.
const killed migrate.Outcome = -1

// buildCaptctl builds it, as far as it has changed.
func buildCaptctl(ctx context.Context, t *testing.T) {
	t.Helper()
	require.NoError(t, sandbox.Build(ctx, t.Output(), sandbox.Captctl))
}
