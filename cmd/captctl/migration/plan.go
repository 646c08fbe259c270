// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/status"
)

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
