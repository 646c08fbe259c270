// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
)

// Outcome is how a command of captctl ended: its exit code.
type Outcome int

const (
	// Done, or nothing to do.
	Done Outcome = 0
	// Failed: an error. Nothing was written, unless the message says so.
	Failed Outcome = 1
	// Pending: there are changes to make. Only with --detailed-exitcode.
	Pending Outcome = 2
	// NeedsDecision: something is ambiguous or blocked, and the user has to decide.
	NeedsDecision Outcome = 3
	// Partly done: running the same command again resumes.
	Partly Outcome = 4
)

// OutcomeError is an error with an exit code of its own.
type OutcomeError struct {
	Outcome Outcome
	Err     error
}

func (e *OutcomeError) Error() string { return e.Err.Error() }
func (e *OutcomeError) Unwrap() error { return e.Err }

// Errorf makes an OutcomeError.
func (o Outcome) Errorf(format string, args ...any) error {
	return &OutcomeError{Outcome: o, Err: fmt.Errorf(format, args...)}
}

// OutcomeOf is the exit code for an error; Failed for one without a code of its own.
func OutcomeOf(err error) Outcome {
	var known *OutcomeError
	switch {
	case err == nil:
		return Done
	case errors.As(err, &known):
		return known.Outcome
	}
	return Failed
}
