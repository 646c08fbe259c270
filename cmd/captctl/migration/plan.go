// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

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
	}
	flags := command.Flags()
	flags.StringVar(&o.out, "out", "", "File to save the plan in. An existing file is replaced.")
	flags.StringVar(&o.decisionsFile, "decisions", "", "File with decisions, in YAML or JSON.")
	flags.BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if there are changes to apply.")
	o.addFlags(command)
	cli.CompleteFlag(command, "out", cli.Files("json"))
	cli.CompleteFlag(command, "decisions", cli.Files("yaml", "yml", "json"))
	return cli.NewConnected(command, o)
}

// Complete reads the decisions.
func (o *planOptions) Complete([]string) (err error) {
	o.decisions, err = readDecisions(o.decisionsFile)
	return err
}

func (o *planOptions) Run(ctx context.Context, reader client.WithWatch) error {
	progress := o.Progress()
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
	if err := o.Printer().Document(p, func(to *output.Printer) {
		showPlan(to, p, fleet)
		afterPlan(to, fleet, o.out, o.planCommand(o.decisionsFile), installed(reader))
	}); err != nil {
		return err
	}
	switch {
	case len(p.Undecided()) > 0:
		return migrate.NeedsDecision.Errorf("%s", undecidedText(p, o.out != ""))
	case o.detailedExitCode && (hasWrites(p) || len(resumeCommands(fleet.Statuses)) > 0):
		return migrate.Pending.Errorf("there are changes to apply")
	}
	return nil
}

// installed reports whether this version is installed: the API server serves v1beta2.
func installed(connected client.Client) bool {
	served, err := migrate.Serves(connected, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	return served && err == nil
}

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
	}
	o.addFlags(command)
	return cli.New(command, o)
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
	progress := o.Progress()
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
	found := newCheckDocument(report, fleet, o.nextSteps(report, fleet))
	printed := o.Printer().Document(found, func(p *output.Printer) { showCheck(p, found) })
	switch {
	case len(report.Failed()) > 0:
		return migrate.Failed.Errorf("%s failed", output.Count(len(report.Failed()), "check")) // What they found is above.
	case err != nil:
		return err
	case printed != nil:
		return printed
	case len(fleet.Undecided()) > 0:
		return migrate.NeedsDecision.Errorf("%s", undecidedText(fleet.Plan, false))
	}
	return nil
}

// interrupted returns a failed check if a run was interrupted while it wrote units, which must be completed or rolled back first; else none.
func interrupted(fleet *status.Fleet) []check.Check {
	found := check.Check{
		Name: checkInterrupted, Status: check.Failed, Commands: resumeCommands(fleet.Statuses),
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
	}
	command.Flags().BoolVarP(&o.watch, "watch", "w", false, "Show the status again whenever it changes.")
	command.Flags().BoolVar(&o.detailedExitCode, "detailed-exitcode", false, "Exit with code 2 if something is left to do, and with code 3 if something needs a decision.")
	o.addFlags(command)
	return cli.NewConnected(command, o)
}

func (o *statusOptions) Validate() error {
	return cmp.Or(cli.When(o.watch && o.detailedExitCode, "--watch cannot be combined with --detailed-exitcode"), o.common.Validate())
}

func (o *statusOptions) Run(ctx context.Context, reader client.WithWatch) error {
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
	if err := o.print(o.Printer(), found); err != nil || !o.detailedExitCode {
		return err
	}
	undecided, left := countLeft(found)
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

func (o *statusOptions) print(to *output.Printer, found *status.Status) error {
	return to.Document(found, func(p *output.Printer) { showStatus(p, found, o.Clock.Now()) })
}

// follow prints the status whenever it changes. While a run is in progress it reads every refresh, since the Lease is not watched; otherwise
// only when an object has changed.
func (o *statusOptions) follow(ctx context.Context, read func() (*status.Status, error), changed <-chan struct{}) error {
	ticker := o.Clock.NewTicker(refresh)
	defer ticker.Stop()
	defer o.EndRedraw()
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
			if err := o.Redraw(func(to *output.Printer) error { return o.print(to, found) }); err != nil {
				return err
			}
		}
		if !cli.Received(ctx, ticker.C()) || found.Lock == nil && !cli.Received(ctx, changed) {
			return nil
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
	}
	command.Flags().BoolVar(&o.diff, "diff", false, "Show every field before and after.")
	o.addFlags(command)
	return cli.New(command, o)
}

func (o *showOptions) Run(ctx context.Context) error {
	p, err := o.load(ctx)
	if err != nil {
		return err
	}
	if len(o.clusters) > 0 && o.Format().ForMachines() {
		return errors.New("--cluster cannot be combined with -o json or -o yaml, because apply only accepts a complete plan")
	}
	if err := p.Only(o.clusters); err != nil {
		return err
	}
	return o.Printer().Document(p, func(to *output.Printer) {
		if o.diff {
			showDiff(to, p)
			return
		}
		showPlan(to, p, nil)
	})
}
