// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli has what all commands of captctl share: their environment, their life cycle, prompts and completion.
package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
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
	"github.com/capt-provider/capt/migrate/installation"
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
	warned sets.Set[string]
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

// TypeMeta is that of a document of a kind.
func TypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: kind}
}

// Now is the time of a document.
func (e *Environment) Now() metav1.Time { return metav1.NewTime(e.Clock.Now()) }

// Warn prints a warning once, also if --watch reads often.
func (e *Environment) Warn(format string, args ...any) {
	text := fmt.Sprintf("Warning: "+format+"\n", args...)
	if e.warned == nil {
		e.warned = sets.New[string]()
	}
	if !e.warned.Has(text) {
		e.warned.Insert(text)
		fmt.Fprint(e.ErrOut, text)
	}
}

// Options are those that several commands have. A command embeds them, and adds flags and arguments with their functions.
type Options struct {
	*Environment
	// Namespace and Name are those of the object that the argument names.
	Namespace, Name string
	// Paths are the manifests, and Recursive is true if they include subdirectories.
	Paths     []string
	Recursive bool
	// Hint follows the error about a wrong name of the argument.
	Hint string

	kind          string // kind is how messages name the object of the argument; empty without one.
	format        output.Format
	formats       []output.Format
	pathsRequired bool
	watch, all    bool
	drawn         string // drawn is what the alternate screen of the terminal shows; empty before.
}

// AddOutput adds --output, for the usual formats and more.
func (o *Options) AddOutput(command *cobra.Command, more ...output.Format) {
	o.AddFormats(command, append([]output.Format{output.Table, output.Wide, output.JSON, output.YAML}, more...)...)
}

// AddFormats adds --output to a command that has formats of its own only; the first is the default.
func (o *Options) AddFormats(command *cobra.Command, formats ...output.Format) {
	o.formats = formats
	command.Flags().StringVarP((*string)(&o.format), "output", "o", string(formats[0]), "Output format: "+o.formatNames()+".")
	CompleteFlag(command, "output", cobra.FixedCompletions(strings.Split(o.formatNames(), ", "), cobra.ShellCompDirectiveNoFileComp))
}

func (o *Options) formatNames() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(o.formats), " ", ", "), "[]")
}

// AddView adds --watch and --output.
func (o *Options) AddView(command *cobra.Command, more ...output.Format) {
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Print the output again whenever it changes.")
	o.AddOutput(command, more...)
}

// AddAllNamespaces adds --all-namespaces, for users of kubectl: commands that have it read all namespaces without it, too.
func (o *Options) AddAllNamespaces(command *cobra.Command) {
	command.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "All namespaces, as without --namespace.")
}

// All reports whether --all-namespaces is set.
func (o *Options) All() bool { return o.all }

// Only is the namespace that is read; empty for all.
func (o *Options) Only() string {
	if o.all {
		return ""
	}
	return o.Access.Only()
}

// ReadNamespaces calls a function that reads the namespace of --namespace, or all if it is empty. A user who may not read all gets that of the kubeconfig's
// context, and a warning, unless all were requested.
func (o *Options) ReadNamespaces(read func(namespace string) error) error {
	err := read(o.Only())
	if o.Only() != "" || o.all || !apierrors.IsForbidden(err) {
		return err
	}
	namespace, _, loadErr := o.Access.ToRawKubeConfigLoader().Namespace()
	if loadErr != nil || read(namespace) != nil {
		return err
	}
	o.Warn("only namespace %s is read: %v", namespace, err)
	return nil
}

// AddFiles adds --filename and --recursive.
func (o *Options) AddFiles(command *cobra.Command, required bool) {
	command.Flags().StringArrayVarP(&o.Paths, "filename", "f", nil, `File or directory with manifests, or "-" for standard input. Can be repeated.`)
	command.Flags().BoolVarP(&o.Recursive, "recursive", "R", false, "Also read subdirectories.")
	CompleteFlag(command, "filename", Files("yaml", "yml", "json"))
	o.pathsRequired = required
}

// Takes lets a command take the name of an object. It is required, unless the command has other rules for its arguments.
func (o *Options) Takes(command *cobra.Command, kind string, complete cobra.CompletionFunc) {
	if o.kind, command.ValidArgsFunction = kind, complete; command.Args == nil {
		command.Args = cobra.ExactArgs(1)
	}
}

// Complete takes the argument. Without a namespace, that of --namespace or of the context is meant.
func (o *Options) Complete(args []string) (err error) {
	if len(args) == 0 || o.kind == "" {
		o.kind = ""
		return nil
	}
	namespace, name, qualified := strings.Cut(args[0], "/")
	if o.Namespace, o.Name = namespace, name; !qualified {
		o.Name = args[0]
		o.Namespace, _, err = o.Access.ToRawKubeConfigLoader().Namespace()
	}
	return err
}

// Keys are the objects that several arguments name, as Complete takes one.
func (o *Options) Keys(args []string) (keys []client.ObjectKey, err error) {
	for _, arg := range args {
		one := Options{Environment: o.Environment, kind: "CLUSTER"}
		if err := errors.Join(one.Complete([]string{arg}), one.Validate()); err != nil {
			return nil, err
		}
		keys = append(keys, client.ObjectKey{Namespace: one.Namespace, Name: one.Name})
	}
	return keys, nil
}

// Validate checks the argument and the flags.
func (o *Options) Validate() error {
	var errs []error
	if o.kind != "" && (o.Namespace == "" || o.Name == "" || strings.Contains(o.Name, "/")) {
		errs = append(errs, fmt.Errorf("%q: must be %s or NAMESPACE/%[2]s%s", o.Namespace+"/"+o.Name, o.kind, o.Hint))
	}
	if o.pathsRequired && len(o.Paths) == 0 {
		errs = append(errs, errors.New("--filename is required: it names the manifests"))
	}
	if o.formats != nil && !slices.Contains(o.formats, o.format) {
		errs = append(errs, fmt.Errorf("there is no output format %q; use one of %s", o.format, o.formatNames()))
	}
	return errors.Join(errs...)
}

// Format is that of --output; a table without it.
func (o *Options) Format() output.Format { return cmp.Or(o.format, output.Table) }

// Printer prints to standard output.
func (o *Options) Printer() *output.Printer { return output.NewPrinter(o.Out, o.Format(), o.NoColor) }

// Sequences of a terminal. The alternate screen keeps what was on the terminal before, and its scrollback.
const (
	enterAlternateScreen, leaveAlternateScreen = "\x1b[?1049h", "\x1b[?1049l"
	clearScreen                                = "\x1b[H\x1b[2J" // The cursor is in the upper left corner afterwards.
)

// Redraw prints a new version of the same output: on the alternate screen of a terminal over the previous one, elsewhere below it. Text output also has
// the time.
func (o *Options) Redraw(draw func(*output.Printer) error) error {
	var text bytes.Buffer
	if !o.Format().ForMachines() {
		fmt.Fprintf(&text, "%s\n\n", o.Clock.Now().UTC().Format(time.RFC3339))
	}
	if err := draw(o.Printer().To(&text)); err != nil {
		return err
	}
	begin, shown := "", text.String()
	if lines, is := output.HeightOf(o.Out); is {
		if o.drawn == "" {
			begin = enterAlternateScreen
		}
		begin, o.drawn, shown = begin+clearScreen, shown, output.Cropped(shown, lines)
	} else if o.Format() == output.YAML {
		begin = "---\n"
	}
	_, err := io.WriteString(o.Out, begin+shown)
	return err
}

// EndRedraw leaves the alternate screen, if any, and prints what was shown last, completely.
func (o *Options) EndRedraw() {
	if o.drawn != "" {
		fmt.Fprint(o.Out, leaveAlternateScreen+o.drawn)
		o.drawn = ""
	}
}

// Progress is shown on standard error, so that it is never part of the output. With an output for machines it is shown on a terminal only.
func (o *Options) Progress() *output.Progress {
	if o.Format().ForMachines() && !printers.IsTerminal(o.ErrOut) {
		return output.NewProgress(nil, o.Clock)
	}
	return output.NewProgress(o.ErrOut, o.Clock)
}

// Command is the life cycle of every command: fill in what was not given, check the flags, run.
type Command interface {
	Complete(args []string) error
	Validate() error
	Run(ctx context.Context) error
}

// Connected is a Command that needs the management cluster.
type Connected interface {
	Complete(args []string) error
	Validate() error
	Run(ctx context.Context, connected client.WithWatch) error
	Client() (client.WithWatch, error)
}

// Client of the management cluster.
func (e *Environment) Client() (client.WithWatch, error) { return e.Access.Client() }

// New completes a command: it runs the options and, unless it has others, takes no arguments.
func New(command *cobra.Command, options Command) *cobra.Command {
	return complete(command, options, options.Run)
}

// NewConnected is New for a command that needs the management cluster.
func NewConnected(command *cobra.Command, options Connected) *cobra.Command {
	return complete(command, options, func(ctx context.Context) error {
		connected, err := options.Client()
		if err != nil {
			return err
		}
		return options.Run(ctx, connected)
	})
}

func complete(command *cobra.Command, options interface {
	Complete(args []string) error
	Validate() error
}, run func(context.Context) error) *cobra.Command {
	if command.Args == nil {
		command.Args, command.ValidArgsFunction = cobra.NoArgs, cobra.NoFileCompletions
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if err := options.Complete(args); err != nil {
			return err
		}
		if err := options.Validate(); err != nil {
			return err
		}
		return explained(command, run(command.Context()))
	}
	return command
}

// NewGroup completes a command that only has subcommands.
func NewGroup(environment *Environment, command *cobra.Command, subcommands ...func(*Environment) *cobra.Command) *cobra.Command {
	command.Args, command.RunE = cobra.NoArgs, func(command *cobra.Command, _ []string) error { return command.Help() }
	for _, add := range subcommands {
		command.AddCommand(add(environment))
	}
	return command
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
		return forbidden(command, err)
	case meta.IsNoMatchError(err), errors.As(err, &undiscovered):
		return migrate.Failed.Errorf("Cluster API or CAPT is not installed in the management cluster, or is older than captctl: %w. Check --context; captctl migrate check shows what is missing", err)
	case utilnet.IsTimeout(err), utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err):
		return migrate.Failed.Errorf("%w; check that the API server runs, and --context", err)
	}
	return err
}

// forbidden says which rights are missing, and which role has them. Only commands that read everything report several.
func forbidden(command *cobra.Command, err error) error {
	if rights := installation.MissingRights(err); len(rights) > 1 {
		err = fmt.Errorf("rights are missing: %s", strings.Join(rights, ", "))
	}
	return migrate.Failed.Errorf("%w; %s", err, adviceIfForbidden(command, err))
}

func adviceIfForbidden(command *cobra.Command, err error) string {
	switch path := command.CommandPath(); {
	case strings.Contains(err.Error(), "planrequests"):
		return "ask for CAPT's ClusterRole capt-plan-requester in the namespace"
	case strings.Contains(path, " migrate "):
		return "captctl migrate check lists the missing permissions, and the roles that have them"
	case strings.Contains(err.Error(), "controllerrevisions"):
		return "ask for CAPT's ClusterRole capt-template-author in the namespace of the template"
	case strings.Contains(path, " adopt "):
		return "ask for CAPT's ClusterRole capt-adopter, with a ClusterRoleBinding"
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

// When returns an error if the arguments or flags are wrong.
func When(wrong bool, format string, args ...any) error {
	if !wrong {
		return nil
	}
	return fmt.Errorf(format, args...)
}

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
var ErrNotInteractive = errors.New("standard input is not a terminal, so the question cannot be answered: add --yes")

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

// Received waits for a signal; it returns false if the context ends first.
func Received[T any](ctx context.Context, signals <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-signals:
		return true
	}
}

// spaced sends signals on, each at least readInterval after the one before.
func spaced(ctx context.Context, c clock.Clock, changed <-chan struct{}) <-chan struct{} {
	due := make(chan struct{})
	go func() {
		for Received(ctx, c.After(readInterval)) && Received(ctx, changed) {
			select {
			case <-ctx.Done():
			case due <- struct{}{}:
			}
		}
	}()
	return due
}

// Show reads and prints. With --watch it reads when an object has changed, and prints when that, or the time, changes what is printed.
func Show[T any](ctx context.Context, o *Options, reader client.WithWatch, watched Watched, read func(context.Context) (T, error), draw func(*output.Printer, T) error) error {
	found, err := read(ctx)
	switch {
	case err != nil:
		return err
	case !o.watch:
		return draw(o.Printer(), found)
	}
	return follow(ctx, o, reader, watched, found, read, draw)
}

func follow[T any](
	ctx context.Context, o *Options, reader client.WithWatch, watched Watched, found T, read func(context.Context) (T, error), draw func(*output.Printer, T) error,
) error {
	ticker := o.Clock.NewTicker(refresh)
	defer ticker.Stop()
	defer o.EndRedraw()
	changed := spaced(ctx, o.Clock, Changes(ctx, reader, refresh, watched))
	for last := ""; ; {
		var text bytes.Buffer
		if err := draw(o.Printer().To(&text), found); err != nil {
			return err
		}
		if text.String() != last {
			last = text.String()
			if err := o.Redraw(func(to *output.Printer) error { return draw(to, found) }); err != nil {
				return err
			}
		}
		if watched.Until != nil && watched.Until() {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil // That is how watching ends.
		case <-ticker.C():
		case <-changed:
			next, err := read(ctx)
			if err != nil { // The API server may restart. What was read last is still shown.
				fmt.Fprintf(o.ErrOut, "Warning: %v\n", err)
				continue
			}
			found = next
		}
	}
}

// Follow calls a function when an object may have changed, until it returns that it is done, or the context is canceled. Its errors are warnings:
// the API server may restart.
func (o *Options) Follow(ctx context.Context, reader client.WithWatch, watched Watched, changed func(context.Context) (done bool, err error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	due := spaced(ctx, o.Clock, Changes(ctx, reader, refresh, watched))
	for Received(ctx, due) {
		switch done, err := changed(ctx); {
		case done:
			return nil
		case err != nil && ctx.Err() == nil:
			fmt.Fprintf(o.ErrOut, "Warning: %v\n", err)
		}
	}
	return nil // That is how following ends.
}
