// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package docs checks statements of the documentation about the code.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	declared = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	named    = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
)

// testsOfRepository returns the names of all tests below the root of the repository.
func testsOfRepository(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			found[string(match[1])] = true
		}
		return err
	})
	require.NoError(t, err)
	return found
}

func threats(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("threats.md")
	require.NoError(t, err)
	return string(text)
}

func TestTestsNamedInThreatsExist(t *testing.T) {
	exists := testsOfRepository(t)
	names := named.FindAllStringSubmatch(threats(t), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		assert.True(t, exists[name[1]], "docs/threats.md names %s, which does not exist", name[1])
	}
}

func TestEveryRuleNamesItsTests(t *testing.T) {
	rows := section(t, "The rules", "The matrix")
	require.NotEmpty(t, rows)
	for i, row := range slices.DeleteFunc(rows, func(row []string) bool { return strings.TrimSpace(row[0]) == "#" }) {
		assert.Equal(t, strconv.Itoa(i+1), strings.TrimSpace(row[0]))
		assert.Regexp(t, named, row[len(row)-1], "rule %d names no test", i+1)
	}
}

// section returns the rows of the tables of a section, without their heads.
func section(t *testing.T, from, to string) (rows [][]string) {
	t.Helper()
	_, text, found := strings.Cut(threats(t), "\n## "+from)
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n## "+to)
	require.True(t, found)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| |") && !strings.HasPrefix(line, "| input |") {
			rows = append(rows, strings.Split(strings.Trim(line, "|"), "|"))
		}
	}
	return rows
}

// A cell without a test must contain "not covered", or a dash if the combination does not exist.
func TestEveryCellOfTheThreatMatrixNamesATestOrIsNotCovered(t *testing.T) {
	covered := func(row []string, column int) {
		cell := row[column]
		ok := named.MatchString(cell) || strings.Contains(cell, "not covered") || strings.TrimSpace(cell) == "–"
		assert.True(t, ok, "row %q, column %d: %q names no test and does not say that it is not covered", strings.TrimSpace(row[0]), column, cell)
	}
	matrix, inputs := section(t, "The matrix", "Inputs"), section(t, "Inputs", "Not covered")
	for _, row := range matrix {
		for column := 1; column < len(row); column++ {
			covered(row, column)
		}
	}
	for _, row := range inputs {
		require.Len(t, row, 4, row[0])
		covered(row, 3)
	}
	assert.GreaterOrEqual(t, len(matrix), 15)
	assert.GreaterOrEqual(t, len(inputs), 50)
}
