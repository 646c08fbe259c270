/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package output

import (
	"k8s.io/cli-runtime/pkg/printers"
)

// Style is what a piece of text means to people. The zero value is plain.
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

// Paint gives text a style. Control characters that are in it, since it comes from objects, do not reach the terminal.
func (p Palette) Paint(style Style, text string) string {
	text = printers.EscapeTerminal(text)
	if !p.on || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}
