// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// dropped matches the characters that GitHub omits from anchors.
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
)

// anchors returns the anchors of a document's headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(match[1], "$1")
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(title), ""), " ", "-")] = true
	}
	return found
}

func TestLinksAreValid(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"../*.md", "*.md", "decisions/*.md", "../config/samples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		documents = append(documents, found...)
	}
	links := 0
	for _, document := range documents {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(match[1], "#")
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", document, match[1], err)
				continue
			}
			if anchor == "" {
				continue
			}
			linked, err := os.ReadFile(target)
			require.NoError(t, err)
			if !anchors(string(linked))[anchor] {
				t.Errorf("%s: link to %s: no such heading", document, match[1])
			}
		}
	}
	require.Greater(t, links, 100)
}

// docs/README.md is the index.
func TestIndexListsEveryDocument(t *testing.T) {
	index, err := os.ReadFile("README.md")
	require.NoError(t, err)
	documents, err := filepath.Glob("*.md")
	require.NoError(t, err)
	for _, document := range documents {
		if document != "README.md" {
			require.Contains(t, string(index), "("+document+")")
		}
	}
}
