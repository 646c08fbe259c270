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

// TestEveryInvariantIsHeldByTests reads the table of doc.go.
func TestEveryInvariantIsHeldByTests(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	require.Len(t, regexp.MustCompile(`(?m)^//\t\d+ `).FindAll(doc, -1), 10)
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
