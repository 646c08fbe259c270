// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	lineOfTests = regexp.MustCompile(`(?m)^//\t    ([\w/]+): (.+)$`)
	nameOfTest  = regexp.MustCompile(`(?:Test|Benchmark)\w+`)
)

// TestEveryInvariantIsTested checks that the tests in the table of doc_test.go exist.
func TestEveryInvariantIsTested(t *testing.T) {
	doc, err := os.ReadFile("doc_test.go")
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`(?m)^//\t\d+ `).FindAll(doc, -1), 11)
	lines := lineOfTests.FindAllSubmatch(doc, -1)
	require.NotEmpty(t, lines)
	for _, line := range lines {
		dir := string(line[1])
		files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		require.NoError(t, err)
		var source []byte
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			source = append(source, text...)
		}
		for _, name := range nameOfTest.FindAll(line[2], -1) {
			assert.True(t, bytes.Contains(source, []byte("func "+string(name)+"(")), "%s has no %s", dir, name)
		}
	}
}
