// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// ErrNotInteractive is why a question cannot be asked.
var ErrNotInteractive = errors.New("standard input is not a terminal, so the run cannot be confirmed: add --yes")

// Confirm asks a question, as terraform does: only "yes" is accepted. It is asked on standard error, so that it is never part of the output.
func (e *Environment) Confirm(question string) error {
	if !e.Interactive {
		return ErrNotInteractive
	}
	fmt.Fprintf(e.ErrOut, "\n%s\n  Only \"yes\" is accepted to confirm.\n\n  Enter a value: ", question)
	answer, err := bufio.NewReader(e.In).ReadString('\n')
	if strings.TrimSpace(answer) == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(e.ErrOut) // The cursor is still behind the question.
	}
	return errors.New("canceled: nothing was written")
}
