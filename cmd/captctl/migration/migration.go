// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration is captctl migrate.
package migration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

const long = `Adopts clusters that CAPT v0.3 (API v1beta1) built, without a Terraform run, a recreated Workspace
or a changed cloud resource. It works cluster by cluster, while the manager of this version runs,
and each cluster can be rolled back.

check, plan, show and status write nothing. Where a command takes a plan file, it takes the ID of an
applied plan as well, and the other way round.

Exit codes:
  0  done, or nothing to do
  1  error; nothing was written unless the message says so
  2  changes are pending (only with --detailed-exitcode)
  3  something needs a decision
  4  partly done; run the same command again to resume`

const example = `  # What every Cluster will become, what blocks it, and the commands for the next steps
  captctl migrate check

  # Plan, and adopt one cluster, then the rest
  captctl migrate plan --out plan.json
  captctl migrate apply plan.json --cluster team-a/demo
  captctl migrate apply plan.json

  # Where every Cluster stands
  captctl migrate status`

// New returns the command migrate with its subcommands.
func New(environment *cli.Environment) *cobra.Command {
	command := &cobra.Command{
		Use:     "migrate",
		Short:   "Adopt clusters that CAPT v0.3 built",
		Long:    long,
		Example: example,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(
		newCheck(environment), newPlan(environment), newShow(environment), newApply(environment), newStatus(environment), newRollback(environment),
	)
	return command
}

// defaultJournalNamespace is the namespace of the Lease and the journal.
const defaultJournalNamespace = "capt-system"

var planID = regexp.MustCompile("^[0-9a-f]{12}$")

// common are the options of all subcommands.
type common struct {
	*cli.Environment
	output   *output.Flag
	name     string        // Of the plan: a file or an ID.
	clusters []string      // NAMESPACE/NAME of the Clusters of --cluster; all if it is empty.
	journal  string        // The namespace of the Lease and the journal.
	quiet    time.Duration // How long CAPT v0.3 must not have written anything to count as stopped.
}

func newCommon(environment *cli.Environment) common {
	return common{Environment: environment, output: output.NewFlag()}
}

func (c *common) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&c.clusters, "cluster", nil, "NAMESPACE/NAME of a Cluster. Can be repeated (default: all).")
	flags.StringVar(&c.journal, "journal-namespace", defaultJournalNamespace, "Namespace of captctl's Lease and journal.")
	// Tests cannot wait after each fixture.
	flags.DurationVar(&c.quiet, "quiet", time.Minute, "How long CAPT v0.3 must not have written anything to count as stopped.")
	flags.Lookup("quiet").Hidden = true
	c.output.Add(command)
	c.Access.AddRateFlags(flags)
	cli.CompleteFlag(command, "cluster", c.Access.CompleteClusters())
	cli.CompleteFlag(command, "journal-namespace", c.Access.CompleteNamespaces())
}

// Complete takes the name of the plan, where a command has one.
func (c *common) Complete(args []string) error {
	if len(args) > 0 {
		c.name = args[0]
	}
	return nil
}

// Validate checks the flags.
func (c *common) Validate() error {
	if err := c.output.Validate(); err != nil {
		return err
	}
	for _, cluster := range c.clusters {
		if namespace, name, _ := strings.Cut(cluster, "/"); namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("--cluster %q: must be NAMESPACE/NAME", cluster)
		}
	}
	return c.Access.ValidateRate()
}

// checks returns the options of the checks before a stage. If the stage is empty, the checks determine it from what is installed.
func (c *common) checks(before check.Stage) (check.Options, error) {
	config, err := c.Access.Config()
	return check.Options{Config: config, JournalNamespace: c.journal, Quiet: c.quiet, Clock: c.Clock, Before: before}, err
}

// readChecks runs some checks.
func (c *common) readChecks(ctx context.Context, names ...string) ([]check.Check, error) {
	checks, err := c.checks("")
	if err != nil {
		return nil, err
	}
	checks.Only = names
	report, err := c.Check(ctx, checks)
	if err != nil {
		return nil, err
	}
	return report.Checks, nil
}

// failedChecks returns an error with the first sentence of each failed check; nil if none failed.
func failedChecks(report *check.Report) error {
	list := &cli.ListError{Title: "checks failed", Next: "captctl migrate check shows the commands, and with -o wide all details"}
	for _, one := range report.Failed() {
		sentence, _, _ := strings.Cut(strings.Join(strings.Fields(one.Message), " "), ". ")
		list.Items = append(list.Items, one.Name+": "+sentence)
		if one.Name == check.CheckPermissions { // A user who lacks permissions must request all at once.
			list.Items = append(list.Items, one.Objects...)
		}
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &migrate.OutcomeError{Outcome: migrate.Failed, Err: list}
}

// load reads a plan from a file, or from the cluster by its ID.
func (c *common) load(ctx context.Context) (*plan.Plan, error) {
	data, err := os.ReadFile(filepath.Clean(c.name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && planID.MatchString(c.name):
		connected, err := c.Access.Client()
		if err != nil {
			return nil, err
		}
		return apply.LoadPlan(ctx, connected, c.journal, c.name)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w, and %q is not a plan ID. captctl migrate plan --out FILE creates a plan, captctl migrate status lists the IDs of applied plans", err, c.name)
	case err != nil:
		return nil, err
	}
	p, err := plan.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return p, nil
}

// readDecisions reads the file of --decisions; nil without one.
func readDecisions(name string) (*migrate.Decisions, error) {
	if name == "" {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return nil, err
	}
	decisions, err := migrate.ParseDecisions(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return decisions, nil
}

// survey returns the options to read the state of the objects of --namespace and --cluster.
func (c *common) survey(reader client.Reader) status.Options {
	return status.Options{Reader: reader, JournalNamespace: c.journal, Namespace: c.Access.Only(), Units: c.clusters, Clock: c.Clock}
}

// complete completes the first argument with plan files and the IDs of applied plans.
func (c *common) complete(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	files, _ := filepath.Glob("*.json") // The pattern is valid.
	names := files
	ctx, cancel := c.Access.Patience(command.Context())
	defer cancel()
	if connected, err := c.Access.Client(); err == nil {
		states, _ := apply.Journals(ctx, connected, c.journal) // A shell shows no errors.
		for i := range states {
			names = append(names, states[i].PlanID)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// preparation has the steps of which checks have the commands, in the order in which they must be run: a tool that is not suspended starts CAPT
// v0.3 again, and CAPT v0.3 needs its definitions while it runs.
var preparation = []struct{ check, step string }{
	{checkInterrupted, "Resume the interrupted units, or roll them back."},
	{check.CheckPermissions, "Grant the missing permissions."},
	{check.CheckClusterAPI, "Upgrade Cluster API."},
	{check.CheckCertManager, "Install cert-manager."},
	{check.CheckInstallers, "Suspend the tools that installed CAPT v0.3, and make them keep its definitions."},
	{check.CheckLegacy, "Stop CAPT v0.3."},
	{check.CheckDefinitions, "Delete the kind CaptControlPlaneTemplate, which Cluster API could never use."},
	{check.CheckJournal, "Create the namespace of captctl's journal."},
	{check.CheckManager, "Start the manager."},
}

var install = view.Next{Step: "Install this version completely, in a clone of https://github.com/capt-provider/capt with the image that docs/install.md builds. " +
	"It does not modify objects of CAPT v0.3 before their adoption. From now on, every write to an object of CAPT requires its webhooks.", Commands: []string{
	`(cd config/manager && kustomize edit set image "capt-manager=${IMAGE:?set it to REGISTRY/capt-manager:TAG}") &&`,
	"kubectl apply --server-side --force-conflicts -k config/default &&",
	"kubectl -n capt-system rollout status deployment/capt-manager",
}}

// nextSteps are the steps from what was found to the end of the migration, in order. The fleet is nil if it could not be read.
func (c *common) nextSteps(report *check.Report, fleet *status.Fleet) []view.Next {
	steps := prepare(report)
	if fleet == nil || len(report.Failed()) > 0 {
		return append(steps, view.Next{Step: "Resolve the failed checks, and run the check again.", Commands: []string{"captctl migrate check"}})
	}
	left, repairs := view.InState(fleet.Plan, plan.Adoptable, plan.NeedsDecision, plan.Blocked), view.Repairs(fleet.Plan)
	if left+view.InState(fleet.Plan, plan.Adopted) == 0 {
		return append(steps, view.Next{Step: "There is nothing to adopt."})
	}
	if left+repairs > 0 && report.Stage == check.Untouched {
		steps = append(steps, install)
	}
	switch {
	case left > 0:
		return append(steps, c.adopt(fleet)...)
	case repairs > 0:
		steps = append(steps, c.planning(fleet), view.Next{Step: "Repair the endpoints of Clusters, see InvalidClusterEndpoint.", Commands: view.ApplyCommands(fleet, "plan.json")})
	}
	return append(steps,
		view.Next{Step: "Nothing is left to adopt, except what decisions skip. Convert the manifests in Git, and resume the tools that apply them.", Commands: []string{"captctl convert -f manifests/ -R --from-cluster --write"}},
		view.Next{Step: "Check the status again later.", Commands: []string{"captctl migrate status"}},
	)
}

// prepare returns the steps for which the checks have commands. They concern all namespaces.
func prepare(report *check.Report) (steps []view.Next) {
	for _, known := range preparation {
		var commands []string
		for _, c := range report.Checks {
			if c.Name == known.check && c.Status != check.OK {
				commands = append(commands, c.Commands...)
			}
		}
		if len(commands) > 0 {
			steps = append(steps, view.Next{Step: known.step, Commands: commands})
		}
	}
	return steps
}

// adopt returns the steps from a plan to the end of the migration.
func (c *common) adopt(fleet *status.Fleet) (steps []view.Next) {
	rest := fleet.NotYetApplied()
	if len(rest) > 0 {
		steps = append(steps, view.Next{
			Step:     fmt.Sprintf("Plan %s is partly applied: %s left. Apply the rest.", fleet.Last.ID, output.Count(len(rest), "unit")),
			Commands: []string{"captctl migrate apply " + fleet.Last.ID, "captctl migrate status"},
		})
		if len(rest) == view.InState(fleet.Plan, plan.Adoptable) && len(fleet.Undecided()) == 0 {
			return steps
		}
	}
	steps = append(steps, c.planning(fleet))
	commands := view.ApplyCommands(fleet, "plan.json")
	if len(commands) > 1 {
		steps = append(steps, view.Next{Step: "Adopt one Cluster. A backup is taken first.", Commands: commands[:1]})
	}
	return append(steps, view.Next{Step: "Adopt the rest.", Commands: []string{commands[len(commands)-1], "captctl migrate status"}})
}

// planning is the step that creates a plan. It needs the decisions that were made for earlier plans, too.
func (c *common) planning(fleet *status.Fleet) view.Next {
	step, decisions := "Create a plan, and review what it will write.", ""
	if len(fleet.Undecided()) > 0 || view.NeedsDecisionsAgain(fleet.Plan) {
		step, decisions = "Save the decisions above as decisions.yaml, and create a plan. Without the file, only units that need no decision are planned.", "decisions.yaml"
	}
	return view.Next{Step: step, Commands: []string{c.planCommand(decisions) + " --out plan.json"}}
}

// planCommand is the command that plans the same, with the file of decisions.
func (c *common) planCommand(decisions string) string {
	command := "captctl migrate plan"
	for _, flag := range []struct{ name, value, usual string }{
		{"namespace", c.Access.Only(), ""}, {"decisions", decisions, ""}, {"journal-namespace", c.journal, defaultJournalNamespace},
	} {
		if flag.value != flag.usual {
			command += " --" + flag.name + " " + flag.value
		}
	}
	for _, cluster := range c.clusters {
		command += view.Selection(cluster)
	}
	return command
}

// planOptions are the options of plan.
type planOptions struct {
	common
	out, decisionsFile string
	detailedExitCode   bool

	decisions *migrate.Decisions
}

func newPlan(environment *cli.Environment) *cobra.Command {
	o := &planOptions{common: newCommon(environment)}
	command := &cobra.Command{
		Use:   "plan",
		Short: "Plan what to write, and save the plan in a file",
		Long: `Plans which fields of which objects have to be written so that the manager adopts each Cluster.
Nothing is written into the management cluster. captctl migrate show prints a plan field by field,
captctl migrate apply applies it.

A Cluster is planned only if the evidence decides what belongs to it, and if the manager would
change nothing in its Workspaces. Other Clusters are in the plan too, with a finding that says what
to decide; they do not hold up the rest. Decisions are made by UID in a file, which captctl migrate
check prints for what it found, with all that can be decided.

A plan is for one management cluster; it does not expire, because each Cluster is checked again
right before it is written.

Exit codes: 0 planned; 2 there are changes, or a run was interrupted (with --detailed-exitcode
only); 3 something needs a decision. The plan is saved in each case.`,
		Example: `  captctl migrate plan --out plan.json

  # With decisions
  captctl migrate plan --decisions decisions.yaml --out plan.json

  # Is there anything left to adopt? Exit code 2 means yes
  captctl migrate plan --detailed-exitcode`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	flags := command.Flags()
	flags.StringVar(&o.out, "out", "", "File to save the plan in. An existing file is replaced.")
	flags.StringVar(&o.decisionsFile, "decisions", "", "File with decisions, in YAML or JSON.")
	flags.BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if there are changes to apply.")
	o.addFlags(command)
	cli.CompleteFlag(command, "out", cli.Files("json"))
	cli.CompleteFlag(command, "decisions", cli.Files("yaml", "yml", "json"))
	return command
}

// Complete reads the decisions.
func (o *planOptions) Complete([]string) (err error) {
	o.decisions, err = readDecisions(o.decisionsFile)
	return err
}

// Run plans, saves and prints.
func (o *planOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	progress := o.Progress(o.output.Format())
	defer progress.Stop()
	survey := o.survey(reader)
	survey.Decisions, survey.Progress = o.decisions, progress
	fleet, err := status.Survey(ctx, survey)
	if err != nil {
		return err
	}
	progress.Stop()
	p := fleet.Plan
	if o.out != "" {
		if err := cli.Save(o.out, p.Write); err != nil {
			return err
		}
	}
	if err := o.Printer(o.output.Format()).Document(p, func(to *output.Printer) {
		view.Plan(to, p, fleet)
		view.AfterPlan(to, fleet, o.out, o.planCommand(o.decisionsFile), installed(reader))
	}); err != nil {
		return err
	}
	switch {
	case len(p.Undecided()) > 0:
		return migrate.NeedsDecision.Errorf("%s", view.Undecided(p, o.out != ""))
	case o.detailedExitCode && (view.Writes(p) > 0 || len(view.Resume(fleet.Statuses)) > 0):
		return migrate.Pending.Errorf("there are changes to apply")
	}
	return nil
}

// installed reports whether this version is installed: the API server serves v1beta2.
func installed(connected client.Client) bool {
	kind := infrav1.GroupVersion.WithKind("WorkspaceTemplateApply")
	_, err := connected.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	return err == nil
}

// checkOptions are the options of check.
type checkOptions struct {
	common
}

func newCheck(environment *cli.Environment) *cobra.Command {
	o := &checkOptions{newCommon(environment)}
	command := &cobra.Command{
		Use:   "check",
		Short: "Show what a migration would do, what blocks it, and the next steps",
		Long: `Looks at a management cluster and shows what every Cluster will become, what has to be decided, what
is wrong, and the commands for the next steps with the names that were found. It works before,
during and after a migration; nothing of this version of CAPT has to be installed. It writes
nothing.

A unit is a Cluster with all that belongs to it, or a WorkspaceTemplateApply that belongs to none.
WRITES is how many objects a plan writes for it.

Each conflict is one finding, with the evidence. After the findings, check prints a file with the
decisions to make: uncomment one line of each entry, and pass the file to captctl migrate plan with
--decisions. Decisions of plans that were applied still count; a later plan replaces those of an
earlier one about the same object.

Exit codes: 0 ready, or nothing to do; 1 a check failed; 3 something needs a decision.`,
		Example: `  # The whole fleet
  captctl migrate check

  # One namespace, with all checks and all evidence
  captctl migrate check -n team-a -o wide

  # The Clusters that need a decision, for a program
  captctl migrate check -o json | jq -r '.units[] | select(.state == "NeedsDecision").unit'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.addFlags(command)
	return command
}

// Run checks and prints. The report is printed also if the fleet cannot be read: it says why.
func (o *checkOptions) Run(ctx context.Context) error {
	checks, err := o.checks("")
	if err != nil {
		return err
	}
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	progress := o.Progress(o.output.Format())
	defer progress.Stop()
	survey := o.survey(reader)
	survey.UseEarlierDecisions, survey.NoJournal, survey.Progress = true, true, progress // The checks report missing rights.
	var checking errgroup.Group
	var report *check.Report
	checking.Go(func() (err error) {
		report, err = o.Check(ctx, checks)
		return err
	})
	fleet, err := status.Survey(ctx, survey)
	if failed := checking.Wait(); failed != nil {
		return failed
	}
	progress.Stop()
	if fleet != nil {
		report.Checks = append(append(report.Checks, check.Workspaces(fleet.Snapshot)), interrupted(fleet)...)
	}
	if errors.Is(err, plan.ErrUnknownUnit) {
		return err
	}
	found := view.NewCheck(report, fleet, o.nextSteps(report, fleet))
	printed := o.Printer(o.output.Format()).Document(found, func(p *output.Printer) { view.ShowCheck(p, found) })
	switch {
	case len(report.Failed()) > 0:
		return migrate.Failed.Errorf("%s failed", output.Count(len(report.Failed()), "check")) // What they found is above.
	case err != nil:
		return err
	case printed != nil:
		return printed
	case len(fleet.Undecided()) > 0:
		return migrate.NeedsDecision.Errorf("%s", view.Undecided(fleet.Plan, false))
	}
	return nil
}

// interrupted returns a failed check if a run was interrupted while it wrote units, which must be completed or rolled back first; else none.
func interrupted(fleet *status.Fleet) []check.Check {
	found := check.Check{
		Name: checkInterrupted, Status: check.Failed, Commands: view.Resume(fleet.Statuses),
		Message: "a run was interrupted while it wrote these units, and the manager does not reconcile paused objects. Resume them, or roll them back",
	}
	for _, unit := range fleet.Statuses {
		if unit.State == plan.Interrupted {
			found.Objects = append(found.Objects, unit.Unit+": plan "+unit.PlanID)
		}
	}
	if len(found.Objects) == 0 {
		return nil
	}
	return []check.Check{found}
}

const checkInterrupted = "interrupted units"

// refresh is how often --watch reads at most.
const refresh = 5 * time.Second

// statusOptions are the options of status.
type statusOptions struct {
	common
	watch, detailedExitCode bool
}

func newStatus(environment *cli.Environment) *cobra.Command {
	o := &statusOptions{common: newCommon(environment)}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show where every Cluster stands",
		Long: `Shows for every Cluster whether it is adopted, which plan wrote it last and how far that came, and
whether the manager would change a Workspace. Also shows the plans that were applied, a run in
progress, and the stored versions. It writes nothing.

Decisions of plans that were applied still count; a later plan replaces those of an earlier one
about the same object.

Exit codes: 0; with --detailed-exitcode 2 if something can be adopted or resumed, a decision skips
an object, the manager would change a Workspace or CAPT v0.3 runs, and 3 if something needs a
decision.`,
		Example: `  captctl migrate status

  # Until interrupted
  captctl migrate status --watch

  # In CI: is everything adopted?
  captctl migrate status --detailed-exitcode

  # The Workspaces that the manager would change
  captctl migrate status -o json | jq -r '.units[] | select(.pendingChange) | .unit, .pendingChange'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Show the status again whenever it changes.")
	command.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if something is left to do, and with code 3 if something needs a decision.")
	o.addFlags(command)
	return command
}

// Validate checks the flags.
func (o *statusOptions) Validate() error {
	if o.watch && o.detailedExitCode {
		return errors.New("--watch cannot be combined with --detailed-exitcode")
	}
	return o.common.Validate()
}

// Run reads and prints, once or until it is interrupted.
func (o *statusOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	read := func() (*status.Status, error) {
		found, err := o.Status(ctx, o.survey(reader))
		if err == nil {
			found.Checks, err = o.readChecks(ctx, check.CheckLegacy, check.CheckStored) // CAPT v0.3 would revert what is adopted.
		}
		return found, err
	}
	if o.watch {
		watched := cli.Watched{Kinds: append(migrate.ReadOrWritten(), apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))}
		return o.follow(ctx, read, cli.Changes(ctx, reader, refresh, watched))
	}
	found, err := read()
	if err != nil {
		return err
	}
	if err := o.print(o.Printer(o.output.Format()), found); err != nil || !o.detailedExitCode {
		return err
	}
	return leftToDo(found)
}

func (o *statusOptions) print(to *output.Printer, found *status.Status) error {
	return to.Document(found, func(p *output.Printer) { view.Status(p, found, o.Clock.Now()) })
}

// follow prints the status whenever it changes. While a run is in progress it reads every refresh, since the Lease is not watched; otherwise
// only when an object has changed.
func (o *statusOptions) follow(ctx context.Context, read func() (*status.Status, error), changed <-chan struct{}) error {
	ticker := o.Clock.NewTicker(refresh)
	defer ticker.Stop()
	var last *status.Status
	for {
		found, err := read()
		if ctx.Err() != nil {
			return nil // That is how watching ends.
		}
		if err != nil {
			return err
		}
		if !same(last, found) {
			last = found
			if err := o.Redraw(o.output.Format(), func(to *output.Printer) error { return o.print(to, found) }); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		if found.Lock != nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// same reports whether nothing changed. Ages are not in the documents, and a renewed Lease is not a change.
func same(last, found *status.Status) bool {
	if last == nil {
		return false
	}
	before, now := *last, *found
	if before.Lock != nil && now.Lock != nil {
		renewed := *now.Lock
		renewed.Until = before.Lock.Until
		now.Lock = &renewed
	}
	return equality.Semantic.DeepEqual(before, now)
}

// leftToDo is the exit code for --detailed-exitcode.
func leftToDo(found *status.Status) error {
	undecided, left := view.Left(found)
	switch {
	case undecided > 0:
		return migrate.NeedsDecision.Errorf("%s to decide. captctl migrate check shows the findings", output.Count(undecided, "unit"))
	case left > 0:
		return migrate.Pending.Errorf("%s left to do", output.Count(left, "unit"))
	}
	for _, one := range found.Checks {
		if one.Status != check.OK {
			return migrate.Pending.Errorf("%s", one.Message)
		}
	}
	return nil
}

// showOptions are the options of show.
type showOptions struct {
	common
	diff bool
}

func newShow(environment *cli.Environment) *cobra.Command {
	o := &showOptions{common: newCommon(environment)}
	command := &cobra.Command{
		Use:   "show PLAN|PLAN_ID",
		Short: "Show a plan, from a file or from the cluster",
		Long: `Shows what a plan writes. PLAN is a file; the management cluster is not needed for it. PLAN_ID
is the ID of a plan that was applied: the management cluster keeps a copy.

With --diff, every field is shown before (-) and after (+). With -o json the plan itself is printed,
which apply accepts.`,
		Example: `  captctl migrate show plan.json

  # Field by field
  captctl migrate show plan.json --diff

  # Get a plan back whose file is lost
  captctl migrate show 0123456789ab -o json > plan.json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.complete,
		RunE:              cli.Run(o),
	}
	command.Flags().BoolVar(&o.diff, "diff", false, "Show every field before and after.")
	o.addFlags(command)
	return command
}

// Run reads and prints.
func (o *showOptions) Run(ctx context.Context) error {
	p, err := o.load(ctx)
	if err != nil {
		return err
	}
	if len(o.clusters) > 0 && o.output.Format().ForMachines() {
		return errors.New("--cluster cannot be combined with -o json or -o yaml, because apply only accepts a complete plan")
	}
	if err := p.Only(o.clusters); err != nil {
		return err
	}
	return o.Printer(o.output.Format()).Document(p, func(to *output.Printer) {
		if o.diff {
			view.Diff(to, p)
			return
		}
		view.Plan(to, p, nil)
	})
}
