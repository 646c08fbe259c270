// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/capt-provider/capt/api/redact"
	"github.com/capt-provider/capt/test/provider/executor"
	"github.com/capt-provider/capt/test/provider/failures"
)

// printed are the ways in which an output of Terraform can contain a value.
var printed = []func(value string) string{
	func(value string) string { return value },
	func(value string) string { return "\x1b[31m" + value + "\x1b[0m" },
	func(value string) string { return "\x1b[1m" + value[:len(value)/2] + "\x1b[0m" + value[len(value)/2:] },
	func(value string) string { return strings.ReplaceAll(value, " ", "\n│ ") }, // As Terraform breaks lines.
	func(value string) string {
		return "\n│   │ " + strings.ReplaceAll(value, "\n", "\n│   │ ") + "\n"
	},
	func(value string) string { data, _ := json.Marshal(value); return string(data) },
}

// Modules and providers of Terraform decide what is printed around a secret, and the API server may truncate the message.
func FuzzNoGivenSecretSurvives(f *testing.F) {
	for i, sample := range failures.Samples() {
		middle := len(sample.Stderr) / 2
		f.Add(sample.Stderr[:middle], "hunter2 hunter3", sample.Stderr[middle:], uint8(i), uint16(0))
		f.Add("Error: ", `{"a": "b c"}`, "\n"+sample.Stderr, uint8(i), uint16(i))
	}
	f.Add(`Error: x. To see the full error run: echo "`, `" | base64`, `Error: echo "`, uint8(0), uint16(0))
	f.Add("Error: \xff│╷", "é\n\t│ x", "╵\x1b[", uint8(3), uint16(9))
	f.Fuzz(func(t *testing.T, before, secret, after string, form uint8, truncated uint16) {
		secret = "zQ7" + secret + "9xW" // It is not a part of CAPT's texts.
		if !utf8.ValidString(secret) || strings.Contains(secret, redact.Placeholder) {
			t.Skip("a placeholder, or no text")
		}
		known := Secrets{Values: [][]byte{[]byte(secret)}}
		message := phases[2] + executor.Failure(before+printed[int(form)%len(printed)](secret)+after).Error()
		message = message[:len(message)-int(truncated)%len(message)]

		report, text := Explain(message, known, "").Message, Text(message, known)
		assert.LessOrEqual(t, len(report), maxMessageLength)
		assert.LessOrEqual(t, len(text), 3*maxUnpacked+3*len(message)+len(redact.Placeholder))
		for _, shown := range []string{report, text} {
			for _, piece := range strings.Split(shown, redact.Placeholder) {
				assert.NotContains(t, piece, secret)
				assert.NotContains(t, piece, oneLine(secret))
			}
		}
	})
}
