// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli has what all commands of captctl share: their environment, their life cycle, prompts and completion.
package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/clock"

	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// Environment has everything outside of the process that commands use, so that tests can replace it.
type Environment struct {
	genericiooptions.IOStreams
	Access *cluster.Access
	Clock  clock.WithTicker
	// NoColor is --no-color.
	NoColor bool
	// Interactive is true if questions can be asked: standard input and standard error are terminals.
	Interactive bool
	Migration
}

// Migration has the functions that need a real API server and a running manager. Tests of commands replace them.
type Migration struct {
	Check           func(context.Context, check.Options) (*check.Report, error)
	Apply, Rollback func(context.Context, *plan.Plan, apply.Options) (*apply.Result, error)
	Status          func(context.Context, status.Options) (*status.Status, error)
}

// NewEnvironment returns the environment of the process.
func NewEnvironment(streams genericiooptions.IOStreams) *Environment {
	return &Environment{
		IOStreams: streams, Access: cluster.New(streams.ErrOut), Clock: clock.RealClock{},
		Interactive: isTerminal(streams.In) && printers.IsTerminal(streams.ErrOut),
		Migration:   Migration{Check: check.Run, Apply: apply.Apply, Rollback: apply.Rollback, Status: status.Read},
	}
}

func isTerminal(in io.Reader) bool {
	file, ok := in.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// Now is the time of a document.
func (e *Environment) Now() metav1.Time { return metav1.NewTime(e.Clock.Now()) }

// Printer prints to standard output.
func (e *Environment) Printer(format output.Format) *output.Printer {
	return output.NewPrinter(e.Out, format, e.NoColor)
}

// clearScreen moves the cursor to the upper left corner of a terminal and clears it.
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// Redraw prints a new version of the same output: on a terminal over the previous one, elsewhere below it. Text output also has the time.
func (e *Environment) Redraw(format output.Format, draw func(*output.Printer) error) error {
	var text bytes.Buffer
	if err := draw(e.Printer(format).To(&text)); err != nil {
		return err
	}
	switch {
	case printers.IsTerminal(e.Out):
		fmt.Fprint(e.Out, clearScreen)
	case format == output.YAML:
		fmt.Fprintln(e.Out, "---")
	}
	if !format.ForMachines() {
		fmt.Fprintf(e.Out, "%s\n\n", e.Clock.Now().UTC().Format(time.RFC3339))
	}
	_, err := e.Out.Write(text.Bytes())
	return err
}

// Progress is shown on standard error, so that it is never part of the output. With an output for machines it is shown on a terminal only.
func (e *Environment) Progress(format output.Format) *output.Progress {
	if format.ForMachines() && !printers.IsTerminal(e.ErrOut) {
		return output.NewProgress(nil, e.Clock)
	}
	return output.NewProgress(e.ErrOut, e.Clock)
}

// Command is the life cycle of every command: fill in what was not given, check the flags, run.
type Command interface {
	Complete(args []string) error
	Validate() error
	Run(ctx context.Context) error
}

// Run is the RunE of a command.
func Run(options Command) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		if err := options.Complete(args); err != nil {
			return err
		}
		if err := options.Validate(); err != nil {
			return err
		}
		return explained(command, options.Run(command.Context()))
	}
}

// AllNamespaces is the flag --all-namespaces, for users of kubectl: commands that have it read all namespaces without it, too.
type AllNamespaces struct{ all bool }

// AddFlags adds the flag.
func (a *AllNamespaces) AddFlags(command *cobra.Command) {
	command.Flags().BoolVarP(&a.all, "all-namespaces", "A", false, "All namespaces, as without --namespace.")
}

// Only is the namespace that is read; empty for all.
func (a *AllNamespaces) Only(access *cluster.Access) string {
	if a.all {
		return ""
	}
	return access.Only()
}
