// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/reasons"
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

// A reason without a row would fail no new object, and docs/reasons.md would not have it.
func TestTheTableHasEveryReasonOnce(t *testing.T) {
	entries := map[string]int{}
	for _, row := range reasons.Rows() {
		for _, reason := range row.Reasons {
			entries[reason]++
		}
		if row.Actor == reasons.User || row.Actor == reasons.Waiting {
			assert.NotEmpty(t, row.Action, "what to do about %s", row.Reasons)
		}
		assert.True(t, row.Actor == reasons.User || row.Effect == reasons.Waits, "only a reason about which a user must act is a problem: %s", row.Reasons)
	}
	for reason := range reasonsOfAPI(t) {
		assert.Equal(t, 1, entries[reason], "api/reasons has %d entries for the reason %s", entries[reason], reason)
	}
}

// A condition whose reason is a text in the code would not be in the table.
func TestConditionsHaveReasonsOfTheTable(t *testing.T) {
	calls := 0
	for _, folder := range []string{"controllers", "api", "migrate"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			require.NoError(t, err)
			ast.Inspect(file, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok || len(call.Args) < 2 {
					return true
				}
				name, ok := call.Fun.(*ast.SelectorExpr)
				if from, isPackage := nameOf(name), ok; isPackage && (from == "engine.True" || from == "engine.False" || from == "engine.Unknown") {
					calls++
					_, literal := call.Args[1].(*ast.BasicLit)
					assert.False(t, literal, "%s: the reason of a condition is a constant of the API", path)
				}
				return true
			})
			return nil
		}))
	}
	assert.Greater(t, calls, 50)
}

func nameOf(selector *ast.SelectorExpr) string {
	if selector == nil {
		return ""
	}
	from, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return from.Name + "." + selector.Sel.Name
}
