// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"
)

// Style is what a piece of text means to users. The zero value is plain.
type Style int

const (
	// Plain text.
	Plain Style = iota
	// Good news: done, added.
	Good
	// Bad news: blocked, failed, removed.
	Bad
	// Attention is asked for: ambiguous, a warning.
	Attention
	// Faint is of less interest.
	Faint
	// Strong begins a section.
	Strong
)

// colors is how many colors a terminal has.
type colors int

const (
	none colors = iota
	// eight are those of the theme. On many light backgrounds, yellow and green can hardly be read.
	eight
	// manyColors have values that no theme changes. Those that are used have nearly the same contrast with black as with white: 4 to 5.
	manyColors
)

// Palette paints text, or leaves it as it is.
type Palette struct{ colors colors }

// newPalette returns the colors of a terminal, or none.
func newPalette(on bool) Palette {
	switch {
	case !on:
		return Palette{}
	case strings.Contains(os.Getenv("TERM"), "256color"), os.Getenv("COLORTERM") != "":
		return Palette{manyColors}
	}
	return Palette{eight}
}

// sequence is the parameter of the escape sequence for a style.
func (p Palette) sequence(style Style) string {
	codes := map[Style][2]string{Good: {"32", "38;5;29"}, Bad: {"31", "38;5;196"}, Attention: {"33", "38;5;130"}, Faint: {"2", "38;5;243"}, Strong: {"1", "1"}}
	return codes[style][p.colors-eight]
}

// Paint gives text a style. It escapes control characters, because text from objects could otherwise control the terminal.
func (p Palette) Paint(style Style, text string) string {
	text = printers.EscapeTerminal(text)
	if p.colors == none || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + p.sequence(style) + "m" + text + "\x1b[0m"
}
