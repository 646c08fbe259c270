// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli has what all commands of captctl share: their environment, their life cycle, prompts and completion.
package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

// Environment has everything outside of the process that commands use, so that tests can replace it.
type Environment struct {
	genericiooptions.IOStreams
	Access *Access
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
		IOStreams: streams, Access: NewAccess(streams.ErrOut), Clock: clock.RealClock{},
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
func (a *AllNamespaces) Only(access *Access) string {
	if a.all {
		return ""
	}
	return access.Only()
}

// explained adds to errors of the API server what to do about them. Only a migration has a list of the permissions that it needs.
func explained(command *cobra.Command, err error) error {
	var known *migrate.OutcomeError
	var undiscovered *apiutil.ErrResourceDiscoveryFailed
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case apierrors.IsUnauthorized(err):
		return migrate.Failed.Errorf("the API server rejects the credentials of the kubeconfig: %w; log in again, or choose others with --context or --user", err)
	case apierrors.IsForbidden(err):
		return migrate.Failed.Errorf("%w; %s", err, adviceIfForbidden(command, err))
	case meta.IsNoMatchError(err), errors.As(err, &undiscovered):
		return migrate.Failed.Errorf("Cluster API or CAPT is not installed in the management cluster, or is older than captctl: %w. Check --context; captctl migrate check shows what is missing", err)
	case utilnet.IsTimeout(err), utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err):
		return migrate.Failed.Errorf("%w; check that the API server runs, and --context", err)
	}
	return err
}

// adviceIfForbidden returns what to do if the user lacks a permission.
func adviceIfForbidden(command *cobra.Command, err error) string {
	switch {
	case strings.Contains(command.CommandPath(), " migrate "):
		return "captctl migrate check lists the missing permissions"
	case isNamespaced(err) && strings.Contains(err.Error(), "at the cluster scope"):
		return "to read one namespace, set --namespace"
	case isNamespaced(err):
		return "ask for a role in the namespace that grants this: CAPT's installation has the ClusterRoles capt-tenant, capt-view and capt-template-author"
	}
	return "ask for a role that grants this"
}

// isNamespaced reports whether an error of the API server is about Clusters or a kind of CAPT, which all have namespaces.
func isNamespaced(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	group := status.Status().Details.Group
	return group == clusterv1.GroupVersion.Group || group == infrav1.GroupVersion.Group || group == controlplanev1.GroupVersion.Group
}

// ListError is an error with several lines, which Line keeps.
type ListError struct {
	Title string
	Items []string
	// Next says what to do.
	Next string
}

func (e *ListError) Error() string {
	text := e.Title + ":\n  " + strings.Join(e.Items, "\n  ")
	if e.Next != "" {
		text += "\n" + e.Next
	}
	return text
}

// Line is an error as one line; a ListError keeps its lines.
func Line(err error) string {
	var list *ListError
	if errors.As(err, &list) {
		return err.Error()
	}
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }) {
		switch written := b.String(); {
		case written == "":
		case strings.HasSuffix(written, ":"):
			b.WriteString(" ")
		default:
			b.WriteString("; ")
		}
		b.WriteString(strings.TrimSpace(line))
	}
	return b.String()
}

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

const (
	// refresh is how often --watch draws at least: estimates move without a change.
	refresh = 5 * time.Second
	// readInterval is how long --watch waits between two reads: while a fleet changes, each read would find the next change.
	readInterval = time.Second
)

// View are the options of commands that print what they read, once or whenever it changes.
type View struct {
	*Environment
	Output *output.Flag
	watch  bool
}

// NewView returns the options for the usual formats and more.
func NewView(environment *Environment, more ...output.Format) View {
	return View{Environment: environment, Output: output.NewFlag(more...)}
}

// AddFlags adds --watch and --output.
func (v *View) AddFlags(command *cobra.Command) {
	command.Flags().BoolVarP(&v.watch, "watch", "w", false, "Print the output again whenever it changes.")
	v.Output.Add(command)
}

// Validate checks the flags.
func (v *View) Validate() error { return v.Output.Validate() }

// spaced sends signals on, each at least readInterval after the one before.
func spaced(ctx context.Context, c clock.Clock, changed <-chan struct{}) <-chan struct{} {
	due := make(chan struct{})
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.After(readInterval):
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			select {
			case <-ctx.Done():
				return
			case due <- struct{}{}:
			}
		}
	}()
	return due
}

// Show reads and prints. With --watch it reads when an object has changed, and prints when that, or the time, changes what is printed.
func Show[T any](ctx context.Context, v *View, reader client.WithWatch, watched Watched, read func(context.Context) (T, error), draw func(*output.Printer, T) error) error {
	found, err := read(ctx)
	if err != nil || !v.watch {
		if err == nil {
			err = draw(v.Printer(v.Output.Format()), found)
		}
		return err
	}
	ticker := v.Clock.NewTicker(refresh)
	defer ticker.Stop()
	changed := spaced(ctx, v.Clock, Changes(ctx, reader, refresh, watched))
	for last := ""; ; {
		var text bytes.Buffer
		if err := draw(v.Printer(v.Output.Format()).To(&text), found); err != nil {
			return err
		}
		if text.String() != last {
			last = text.String()
			if err := v.Redraw(v.Output.Format(), func(to *output.Printer) error { return draw(to, found) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil // That is how watching ends.
		case <-ticker.C():
		case <-changed:
			next, err := read(ctx)
			if err != nil { // The API server may restart. What was read last is still shown.
				fmt.Fprintf(v.ErrOut, "Warning: %v\n", err)
				continue
			}
			found = next
		}
	}
}

// Follow calls a function when an object may have changed, until it returns that it is done, or the context is canceled. Its errors are warnings:
// the API server may restart.
func Follow(ctx context.Context, e *Environment, reader client.WithWatch, watched Watched, changed func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := spaced(ctx, e.Clock, Changes(ctx, reader, refresh, watched))
	for {
		select {
		case <-ctx.Done():
			return nil // That is how following ends.
		case <-due:
			switch done, err := changed(ctx); {
			case done:
				return nil
			case err != nil && ctx.Err() == nil:
				fmt.Fprintf(e.ErrOut, "Warning: %v\n", err)
			}
		}
	}
}
