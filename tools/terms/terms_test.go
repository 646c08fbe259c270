// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHitsAreWholeWordsThatAreNotAllowed(t *testing.T) {
	list := terms("# comment\nzebras?\thorse\nis wrong [a-z]+\tright\tthere is wrong |^docs/\n")
	for line, hit := range map[string]bool{
		"Each Zebra has one.": true,
		"a zebralike":         false,
		"it is wrong list":    true,
		"there is wrong list": false,
	} {
		assert.Equal(t, hit, len(inFile(list, words("zebras?", "is wrong [a-z]+"), "api/a.go", []byte(line))) == 1, line)
	}
	assert.Empty(t, inFile(list, words("is wrong [a-z]+"), "docs/a.md", []byte("it is wrong list")))
	assert.Equal(t, []string{`a.go:2: "zebra": write horse`}, inFile(list, words("zebras?"), "a.go", []byte("\nzebra\n")))
}
