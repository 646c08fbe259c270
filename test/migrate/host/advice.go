// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

// advice is how commands print decisions: where to save them, what to run, and the document.
var advice = regexp.MustCompile(`(?s)\nDecisions[^:\n]*: [^\n]* as (\S+), and run: captctl migrate ([^\n]*)\n\n(.*?\n)(?:\n|$)`)

// Advised follows what a command printed: of each entry of the decisions the line that begins with a choice is uncommented, if they are not made
// already, and the document is saved. It returns the command to run.
func (h *Host) Advised(printed, choice string) []string {
	h.Helper()
	found := advice.FindStringSubmatch(printed)
	require.NotNil(h, found, printed)
	file, command, document := found[1], found[2], found[3]
	entries, made := strings.Count(document, "- uid: "), 0
	var saved strings.Builder
	for line := range strings.Lines(document) {
		if strings.HasPrefix(strings.Replace(line, "# ", "", 1), "  "+choice) {
			line = strings.Replace(line, "  # ", "  ", 1)
			made++
		}
		saved.WriteString(line)
	}
	require.Equal(h, entries, made, document)
	require.NoError(h, os.WriteFile(filepath.Join(h.Dir, file), []byte(saved.String()), 0o600))
	return strings.Fields(command)
}
