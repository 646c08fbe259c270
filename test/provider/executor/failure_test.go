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

func TestFailureSummarisesAndPacksTheWholeError(t *testing.T) {
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
