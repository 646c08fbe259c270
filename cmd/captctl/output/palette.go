// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"k8s.io/cli-runtime/pkg/printers"
)

// Style is what a piece of text means to users. The zero value is plain.
type Style string

const (
	// Plain text.
	Plain Style = ""
	// Good news: done, added.
	Good Style = "32"
	// Bad news: blocked, failed, removed.
	Bad Style = "31"
	// Attention is asked for: ambiguous, a warning.
	Attention Style = "33"
	// Faint is of less interest.
	Faint Style = "2"
	// Strong begins a section.
	Strong Style = "1"
)

// Palette paints text, or leaves it as it is.
type Palette struct{ on bool }

// Paint gives text a style. It escapes control characters, because text from objects could otherwise control the terminal.
func (p Palette) Paint(style Style, text string) string {
	text = printers.EscapeTerminal(text)
	if !p.on || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}
