// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package kubelet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const log = `I1128 17:00:00 a line of another writer
{"level":"info","ts":"2026-11-28T17:00:01.500Z","msg":"one"}
2026-11-28T18:00:02.000+0100	INFO	provider-terraform	two
	lines
{"level":"info","ts":"2026-11-28T17:00:03.000Z","msg":"three"}
`

func TestOptionsOfKubectlLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "provider.log")
	require.NoError(t, os.WriteFile(path, []byte(log), 0o600))
	lines := strings.SplitAfter(log, "\n")
	for query, want := range map[string]string{
		"": log, "sinceTime=2026-11-28T17:00:02Z": strings.Join(lines[2:], ""), "sinceSeconds=1": "",
		"tailLines=1": lines[4], "tailLines=0": "", "tailLines=2&sinceTime=2026-11-28T17:00:03Z": lines[4],
		"limitBytes=50": log[:50], "limitBytes=5&timestamps=true&tailLines=1": "2026-",
		"timestamps=true&tailLines=2": "2026-11-28T17:00:02.000000000Z " + lines[3] + "2026-11-28T17:00:03.000000000Z " + lines[4],
	} {
		o, err := parse(httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		require.NoError(t, err)
		out := &strings.Builder{}
		require.NoError(t, write(t.Context(), out, path, o))
		require.Equal(t, want, out.String(), query)
	}
	for _, query := range []string{"limitBytes=x", "tailLines=x", "sinceTime=x", "sinceSeconds=x"} {
		_, err := parse(httptest.NewRequest(http.MethodGet, "/?"+query, nil))
		require.Error(t, err, query)
	}
	require.Error(t, write(t.Context(), &strings.Builder{}, path+"x", options{limit: -1, tail: -1}))
}

func TestALogIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "provider.log")
	require.NoError(t, os.WriteFile(path, []byte(log+"half"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 3*followInterval)
	defer cancel()
	time.AfterFunc(followInterval/2, func() {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, _ = file.WriteString(" of a line\n")
			_ = file.Close()
		}
	})
	out := &strings.Builder{}
	require.NoError(t, write(ctx, out, path, options{limit: -1, tail: 1, follow: true}))
	require.Equal(t, "half of a line\n", out.String())
}
