// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package migration is captctl migrate and captctl convert.
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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
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
	return cli.NewGroup(environment, &cobra.Command{Use: "migrate", Short: "Adopt clusters that CAPT v0.3 built", Long: long, Example: example},
		newCheck, newPlan, newShow, newApply, newStatus, newRollback)
}

const defaultJournalNamespace = "capt-system"

var planID = regexp.MustCompile("^[0-9a-f]{12}$")

type common struct {
	cli.Options
	name     string        // Of the plan: a file or an ID.
	clusters []string      // NAMESPACE/NAME of the Clusters of --cluster; all if it is empty.
	journal  string        // The namespace of the Lease and the journal.
	quiet    time.Duration // How long CAPT v0.3 must not have written anything to count as stopped.
}

func newCommon(environment *cli.Environment) common {
	return common{Options: cli.Options{Environment: environment}}
}

func (c *common) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringArrayVar(&c.clusters, "cluster", nil, "NAMESPACE/NAME of a Cluster. Can be repeated (default: all).")
	flags.StringVar(&c.journal, "journal-namespace", defaultJournalNamespace, "Namespace of captctl's Lease and journal.")
	// Tests cannot wait after each fixture.
	flags.DurationVar(&c.quiet, "quiet", time.Minute, "How long CAPT v0.3 must not have written anything to count as stopped.")
	flags.Lookup("quiet").Hidden = true
	c.AddOutput(command)
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

func (c *common) Validate() error {
	if err := c.Options.Validate(); err != nil {
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

var install = overview.Next{Step: "Install this version completely, in a clone of https://github.com/capt-provider/capt with the image that docs/install.md builds. " +
	"It does not modify objects of CAPT v0.3 before their adoption. From now on, every write to an object of CAPT requires its webhooks.", Commands: []string{
	`(cd config/manager && kustomize edit set image "capt-manager=${IMAGE:?set it to REGISTRY/capt-manager:TAG}") &&`,
	"kubectl apply --server-side --force-conflicts -k config/default &&",
	"kubectl -n capt-system rollout status deployment/capt-manager",
}}

// nextSteps are the steps from what was found to the end of the migration, in order. The fleet is nil if it could not be read.
func (c *common) nextSteps(report *check.Report, fleet *status.Fleet) []overview.Next {
	steps := prepare(report)
	if fleet == nil || len(report.Failed()) > 0 {
		return append(steps, overview.Next{Step: "Resolve the failed checks, and run the check again.", Commands: []string{"captctl migrate check"}})
	}
	left, repairs := inState(fleet.Plan, plan.Adoptable, plan.NeedsDecision, plan.Blocked), repairsOf(fleet.Plan)
	if left+inState(fleet.Plan, plan.Adopted) == 0 {
		return append(steps, overview.Next{Step: "There is nothing to adopt."})
	}
	if left+repairs > 0 && report.Stage == check.Untouched {
		steps = append(steps, install)
	}
	switch {
	case left > 0:
		return append(steps, c.adopt(fleet)...)
	case repairs > 0:
		steps = append(steps, c.planning(fleet), overview.Next{Step: "Repair the endpoints of Clusters, see InvalidClusterEndpoint.", Commands: applyCommands(fleet, "plan.json")})
	}
	return append(steps,
		overview.Next{Step: "Nothing is left to adopt, except what decisions skip. Convert the manifests in Git, and resume the tools that apply them.", Commands: []string{"captctl convert -f manifests/ -R --from-cluster --write"}},
		overview.Next{Step: "Check the status again later.", Commands: []string{"captctl migrate status"}},
	)
}

// prepare returns the steps for which the checks have commands. They concern all namespaces.
func prepare(report *check.Report) (steps []overview.Next) {
	for _, known := range preparation {
		var commands []string
		for _, c := range report.Checks {
			if c.Name == known.check && c.Status != check.OK {
				commands = append(commands, c.Commands...)
			}
		}
		if len(commands) > 0 {
			steps = append(steps, overview.Next{Step: known.step, Commands: commands})
		}
	}
	return steps
}

// adopt returns the steps from a plan to the end of the migration.
func (c *common) adopt(fleet *status.Fleet) (steps []overview.Next) {
	rest := fleet.NotYetApplied()
	if len(rest) > 0 {
		steps = append(steps, overview.Next{
			Step:     fmt.Sprintf("Plan %s is partly applied: %s left. Apply the rest.", fleet.Last.ID, output.Count(len(rest), "unit")),
			Commands: []string{"captctl migrate apply " + fleet.Last.ID, "captctl migrate status"},
		})
		if len(rest) == inState(fleet.Plan, plan.Adoptable) && len(fleet.Undecided()) == 0 {
			return steps
		}
	}
	steps = append(steps, c.planning(fleet))
	commands := applyCommands(fleet, "plan.json")
	if len(commands) > 1 {
		steps = append(steps, overview.Next{Step: "Adopt one Cluster. A backup is taken first.", Commands: commands[:1]})
	}
	return append(steps, overview.Next{Step: "Adopt the rest.", Commands: []string{commands[len(commands)-1], "captctl migrate status"}})
}

// planning is the step that creates a plan. It needs the decisions that were made for earlier plans, too.
func (c *common) planning(fleet *status.Fleet) overview.Next {
	step, decisions := "Create a plan, and review what it will write.", ""
	if len(fleet.Undecided()) > 0 || needsDecisionsAgain(fleet.Plan) {
		step, decisions = "Save the decisions above as decisions.yaml, and create a plan. Without the file, only units that need no decision are planned.", "decisions.yaml"
	}
	return overview.Next{Step: step, Commands: []string{c.planCommand(decisions) + " --out plan.json"}}
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
		command += selection(cluster)
	}
	return command
}
