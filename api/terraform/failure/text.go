// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"regexp"
	"strings"

	"github.com/capt-provider/capt/api/redact"
)

var (
	// frame matches lines that only draw, and the characters before the text of a line: of the box of an error, and of the values in an excerpt.
	frame      = regexp.MustCompile(`(?m)^[ \t]*(?:[│╷╵├][ \t]*)*[╷╵├]─*[ \t]*(?:\n|\z)`)
	border     = regexp.MustCompile(`(?m)^│ ?`)
	valueMark  = regexp.MustCompile(`(?m)^([ \t]+)│ `)
	blankLines = regexp.MustCompile(`\n(?:[ \t]*\n){2,}`)
	trailing   = regexp.MustCompile(`(?m)[ \t\r]+$`)
)

// Text returns the complete text of Terraform in the message of condition Synced of a Workspace, as Terraform prints it, but without boxes
// and secrets; empty if some secrets are not known.
func Text(message string, secrets Secrets) string {
	readable := withoutTail(message)
	if secrets.Missing != nil && !isVarFileError(readable) {
		return ""
	}
	output, whole := unpack(message)
	if whole = whole && len(output) < maxUnpacked; !whole { // The end may be a part of a secret, which is not recognized.
		output = output[:strings.LastIndex(output, "\n")+1]
	}
	output = color.ReplaceAllString(redact.Text(output, secrets.Values), "")
	output = valueMark.ReplaceAllString(border.ReplaceAllString(frame.ReplaceAllString(output, ""), ""), "$1")
	var parts []string
	for _, part := range split(trailing.ReplaceAllString(output, "")) {
		if part = strings.Trim(redactWrapped(part, secrets.Values), "\n"); part != "" {
			parts = append(parts, blankLines.ReplaceAllString(part, "\n\n"))
		}
	}
	switch text := strings.Join(parts, "\n\n"); {
	case text == "":
		return causeOf(message, readable, secrets.Values)
	case !whole:
		return text + "\n…"
	default:
		return text
	}
}

// split splits an output before each error and warning, up to a limit.
func split(output string) (parts []string) {
	from := 0
	for _, at := range heading.FindAllStringIndex(output, maxErrors) {
		parts = append(parts, output[from:at[0]])
		from = at[0]
	}
	return append(parts, output[from:])
}

// redactWrapped redacts an error. One that has a secret across a line break becomes one line, as in the messages of the manager.
func redactWrapped(part string, secrets [][]byte) string {
	part = redact.Text(part, secrets)
	line := oneLine(part)
	if redacted := redact.Text(line, secrets); redacted != line {
		return redacted
	}
	return part
}
