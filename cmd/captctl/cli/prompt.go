// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capt-provider/capt/cmd/captctl/output"
)

// dryRunNone and dryRunServer are the values of --dry-run.
const dryRunNone, dryRunServer = "none", "server"

// Writes are the options of commands that write objects.
type Writes struct {
	dryRun string
	yes    bool
}

// AddDryRun adds --dry-run.
func (w *Writes) AddDryRun(command *cobra.Command) {
	command.Flags().StringVar(&w.dryRun, "dry-run", dryRunNone, `"server": the API server validates each write, and persists none.`)
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunServer
	CompleteFlag(command, "dry-run", cobra.FixedCompletions([]cobra.Completion{dryRunNone, dryRunServer}, cobra.ShellCompDirectiveNoFileComp))
}

// AddYes adds --yes.
func (w *Writes) AddYes(command *cobra.Command) {
	command.Flags().BoolVarP(&w.yes, "yes", "y", false, "Do not ask for confirmation.")
}

// ValidateDryRun checks --dry-run; instead says what to use for --dry-run=client.
func (w *Writes) ValidateDryRun(instead string) error {
	switch w.dryRun {
	case dryRunNone, dryRunServer:
		return nil
	case "client":
		return errors.New("--dry-run=client is not supported. Use " + instead + "--dry-run=server")
	}
	return fmt.Errorf("--dry-run must be none or server, not %q", w.dryRun)
}

// DryRun reports whether nothing is persisted.
func (w *Writes) DryRun() bool { return w.dryRun == dryRunServer }

// Asks reports whether the user must confirm the writes.
func (w *Writes) Asks() bool { return !w.yes && !w.DryRun() }

// ErrNotInteractive is why a question cannot be asked.
var ErrNotInteractive = errors.New("standard input is not a terminal, so the run cannot be confirmed: add --yes")

// Confirm asks a question, as terraform does: only "yes" is accepted. It is asked on standard error, so that it is never part of the output.
func (e *Environment) Confirm(question string) error {
	if !e.Interactive {
		return ErrNotInteractive
	}
	output.NewPrinter(e.ErrOut, output.Table, e.NoColor).Text("", output.Plain, "\n"+question)
	fmt.Fprint(e.ErrOut, "  Only \"yes\" is accepted to confirm.\n\n  Enter a value: ")
	answer, err := bufio.NewReader(e.In).ReadString('\n')
	if strings.TrimSpace(answer) == "yes" {
		return nil
	}
	if err != nil {
		fmt.Fprintln(e.ErrOut) // The cursor is still behind the question.
	}
	return errors.New("canceled: nothing was written")
}
