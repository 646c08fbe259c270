// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reasonsOfAPI returns the reasons of conditions: the constants whose names end with Reason.
func reasonsOfAPI(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "api", "*", "v1beta2", "*.go"))
	require.NoError(t, err)
	reasons := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && strings.HasSuffix(spec.Names[0].Name, "Reason") {
				reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				reasons[reason] = true
			}
			return true
		})
	}
	require.Greater(t, len(reasons), 80)
	return reasons
}

// The section "By reason" of docs/troubleshooting.md has each reason once: in a row with cause and action, or among those that need none.
func TestTroubleshootingHasEveryReasonOnce(t *testing.T) {
	text, err := os.ReadFile("troubleshooting.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## By reason\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	reasons, entries := reasonsOfAPI(t), map[string]int{}
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if strings.HasPrefix(line, "| `") {
			require.Len(t, cells, 3, "not a row of reasons, cause and action: %s", line)
		}
		for _, name := range regexp.MustCompile("`([A-Z][A-Za-z]+)`").FindAllStringSubmatch(cells[0], -1) {
			entries[name[1]]++
			assert.True(t, reasons[name[1]], "%s is not a reason", name[1])
		}
	}
	for reason := range reasons {
		assert.Equal(t, 1, entries[reason], "docs/troubleshooting.md has %d entries for the reason %s: add it to a row, or to those that need no action", entries[reason], reason)
	}
}
