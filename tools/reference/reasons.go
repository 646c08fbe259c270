// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed" // For the first part of docs/reasons.md.
	"fmt"
	"strings"

	"github.com/capt-provider/capt/api/reasons"
)

//go:embed reasons.md.tmpl
var aboutReasons string

// reasonsDocument has the table of all reasons.
func reasonsDocument() string {
	var b strings.Builder
	b.WriteString(aboutReasons)
	for _, actor := range []struct {
		reasons.Actor
		title string
	}{{reasons.User, "A user must act"}, {reasons.Waiting, "Something is expected to happen"}, {reasons.CAPT, "CAPT is at work"}, {"", "Nothing is to be done"}} {
		fmt.Fprintf(&b, "\n## %s\n\n| reason | cause | action | a new object is |\n|---|---|---|---|\n", actor.title)
		for _, row := range reasons.Rows() {
			if row.Actor == actor.Actor {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", strings.Join(row.Reasons, "`, `"), row.Cause, row.Action, effectText(row.Effect))
			}
		}
	}
	return b.String()
}

func effectText(effect reasons.Effect) string {
	switch effect {
	case reasons.FailsAfterGrace:
		return fmt.Sprintf("Failed after %.0f minutes", reasons.Grace.Minutes())
	case reasons.FailsAtOnce:
		return "Failed"
	case reasons.FailsByClass:
		return "Failed, by [class of the error](status.md#errors-that-fail-a-new-control-plane)"
	case reasons.Degrades, reasons.Waits:
	}
	return ""
}
