// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package deletion_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheDocumentationHasTheMatrix compares docs/deletion.md with the tables of the tests.
func TestTheDocumentationHasTheMatrix(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "deletion.md"))
	require.NoError(t, err)
	for _, table := range []string{statesTable(), matrixTable(), helpTable()} {
		require.Contains(t, string(text), table, "docs/deletion.md must hold this table:\n\n%s", table)
	}
}

// statesTable lists how the tests create each state.
func statesTable() string {
	lines := []string{"| state | how the test creates it |", "|---|---|"}
	for _, r := range rows {
		lines = append(lines, fmt.Sprintf("| `%s` | %s |", r.name, r.history))
	}
	return strings.Join(lines, "\n") + "\n"
}

// matrixTable lists the result of the deletion for each state and obstacle.
func matrixTable() string {
	head, rule := "| obstacle |", "|---|"
	for _, r := range rows {
		head, rule = head+" "+r.name+" |", rule+"---|"
	}
	lines := []string{head, rule}
	for _, c := range append(columns, providerDown) {
		line := "| " + c.name + " |"
		for _, r := range rows {
			line += " " + outcome(r, c) + " |"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n"
}

func outcome(r row, c column) string {
	switch {
	case c.report == nil:
		return "gone"
	case c.mayEnd:
		return "gone, or `" + c.report(r).reason + "`"
	}
	return "`" + c.report(r).reason + "`"
}

// helpTable lists where an obstacle is reported, and what resolves it.
func helpTable() string {
	lines := []string{"| obstacle | reported in | message contains | how to resolve it |", "|---|---|---|---|"}
	for _, c := range append(columns, providerDown) {
		if c.report == nil {
			continue
		}
		report := c.report(row{held: true})
		lines = append(lines, fmt.Sprintf("| %s | condition `%s` of the %s | %s | %s |", c.name, report.condition, report.kind, report.message, c.helpText))
	}
	return strings.Join(lines, "\n") + "\n"
}
