// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

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

	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/apply"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

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
		states, _ := apply.States(ctx, connected, c.journal) // A shell shows no errors.
		for i := range states {
			names = append(names, states[i].PlanID)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}
