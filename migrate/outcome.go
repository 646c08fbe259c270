// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
)

// Outcome is the exit code of a command of captctl.
type Outcome int

// Exit codes.
const (
	Done          Outcome = 0 // Done, or nothing to do.
	Failed        Outcome = 1 // An error. Nothing was written, unless the message says so.
	Pending       Outcome = 2 // There are changes to make. Only with --detailed-exitcode.
	NeedsDecision Outcome = 3 // Something is ambiguous or blocked, and the user has to decide.
	Partly        Outcome = 4 // Partly done: running the same command again resumes.
)

// OutcomeError is an error with an exit code of its own.
type OutcomeError struct {
	Outcome Outcome
	Err     error
}

func (e *OutcomeError) Error() string { return e.Err.Error() }
func (e *OutcomeError) Unwrap() error { return e.Err }

// Errorf returns an OutcomeError.
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

// Progress reports the progress of a long operation. Implementations are safe for concurrent use.
type Progress interface {
	// Phase begins a phase of a number of objects; 0 if the number is not known.
	Phase(name string, total int)
	// Add reports that count more objects of the phase are done.
	Add(count int)
}

// Silent reports nothing.
type Silent struct{}

// Phase implements Progress.
func (Silent) Phase(string, int) {}

// Add implements Progress.
func (Silent) Add(int) {}
