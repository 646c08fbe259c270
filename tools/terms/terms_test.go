// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHitsAreWholeWordsThatAreNotAllowed(t *testing.T) {
	list := terms("# comment\nhouses?\tpackage\n[a-z]+ no [a-z]+\tnot a\tthere is no |^docs/\n")
	for line, hit := range map[string]bool{
		"Each House has one.": true,
		"a household":         false,
		"it is no list":       true,
		"there is no list":    false,
	} {
		assert.Equal(t, hit, len(inFile(list, words("houses?", "[a-z]+ no [a-z]+"), "api/a.go", []byte(line))) == 1, line)
	}
	assert.Empty(t, inFile(list, words("[a-z]+ no [a-z]+"), "docs/a.md", []byte("it is no list")))
	assert.Equal(t, []string{`a.go:2: "house": write package`}, inFile(list, words("houses?"), "a.go", []byte("\nhouse\n")))
}
