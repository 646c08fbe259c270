// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package reasons has the table of all reasons of conditions: who must act, and what an object becomes. Controllers, captctl, metrics and docs/reasons.md use it.
package reasons

import (
	"regexp"
	"time"
)

// Actor is who must act, so that something continues.
type Actor string

// Actors. It is empty for a reason with which nothing is to be done.
const (
	User    Actor = "User"    // Nothing continues without a user.
	Waiting Actor = "Waiting" // Something is expected to happen.
	CAPT    Actor = "CAPT"    // CAPT is at work.
)

// Effect is what an object becomes for this reason.
type Effect string

// Effects. An object that was ready for use is Degraded by all but Waits, and never Failed.
const (
	Waits           Effect = ""
	Degrades        Effect = "Degrades"        // It does not fail a new object, or cannot occur for one.
	FailsAfterGrace Effect = "FailsAfterGrace" // A new object is Failed after Grace.
	FailsAtOnce     Effect = "FailsAtOnce"     // A new object is Failed: the reason was confirmed before it was reported, or only a user can end it.
	FailsByClass    Effect = "FailsByClass"    // Whether and when a new object is Failed depends on the class of Terraform's error.
)

// Grace is how long a reason must persist before a new object is Failed: objects are often created in any order, and corrected soon.
const Grace = 2 * time.Minute

// Row is a row of the table. Cause and Action are Markdown.
type Row struct {
	Actor         Actor
	Effect        Effect
	Reasons       []string
	Cause, Action string
}

var byReason = func() map[string]*Row {
	all := map[string]*Row{}
	for i := range rows {
		for _, reason := range rows[i].Reasons {
			all[reason] = &rows[i]
		}
	}
	return all
}()

// Of returns the row of a reason. A user has to look at one that is not in the table, such as the reason of another program; it fails no object.
func Of(reason string) Row {
	if row := byReason[reason]; row != nil {
		return *row
	}
	return Row{Actor: User, Effect: Degrades}
}

// IsProblem reports whether the user must act, or at least check: it makes an object that was ready Degraded.
func IsProblem(reason string) bool {
	return byReason[reason] != nil && byReason[reason].Effect != Waits
}

// IsWaiting reports whether work is in progress, or something is expected to happen.
func IsWaiting(reason string) bool {
	return byReason[reason] != nil && byReason[reason].Effect == Waits
}

var links = regexp.MustCompile(`\[([^\]]*)\]\(([^)]*)\)`)

// Advice is the action of a reason as plain text; empty if none is needed or known. Links become the names of files.
func Advice(reason string) string {
	return links.ReplaceAllStringFunc(Of(reason).Action, func(link string) string {
		parts := links.FindStringSubmatch(link)
		return parts[1] + " (docs/" + parts[2] + ")"
	})
}
