// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package executor_test

import (
	"compress/gzip"
	"encoding/base64"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/test/provider/executor"
)

func TestFailureSummarizesAndPacksTheWholeError(t *testing.T) {
	stderr := "\nError: Invalid reference\n\n  on main.tf line 1:\n\nError: Another one\n"

	text := executor.Failure(stderr).Error()

	require.True(t, strings.HasPrefix(text, "Terraform encountered an error. Summary: Invalid reference. To see the full error run: echo \""))
	match := regexp.MustCompile(`echo "([A-Za-z0-9+/=]+)" \| base64 -d \| gunzip$`).FindStringSubmatch(text)
	require.NotNil(t, match)
	require.Equal(t, stderr, unpack(t, match[1]))
}

func TestFailureWithoutSummaryLine(t *testing.T) {
	require.Contains(t, executor.Failure("killed").Error(), "Summary: . To see")
}

func unpack(t *testing.T, blob string) string {
	t.Helper()
	r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(blob)))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
