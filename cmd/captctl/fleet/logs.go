// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// logsOptions are the options of logs.
type logsOptions struct {
	*cli.Environment
	selected
	follow bool
}

// NewLogs returns captctl logs.
func NewLogs(environment *cli.Environment) *cobra.Command {
	o := &logsOptions{Environment: environment, selected: selected{cluster.Selected{Of: environment.Access}}}
	command := &cobra.Command{
		Use:   "logs [NAMESPACE/]CLUSTER",
		Short: "Show the last errors of Terraform for a Cluster",
		Long: `Shows the last error of Terraform, without secrets, of each WorkspaceTemplateApply of a Cluster
whose last apply or destroy failed. The complete output of Terraform is in the log of
provider-terraform.

With --follow it then prints each further error, after the time (UTC) at which captctl observed it,
until it is interrupted or the Cluster is gone. An error that Terraform repeats is printed once.`,
		Example: `  captctl logs team-a/demo

  # While the Cluster is created, or deleted
  captctl logs team-a/demo --follow`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteClusters(),
		RunE:              cli.Run(o),
	}
	command.Flags().BoolVarP(&o.follow, "follow", "f", false, "Print further errors until interrupted, or until the Cluster is gone.")
	return command
}

// failure is the last error of Terraform for a WorkspaceTemplateApply.
type failure struct{ name, kind, message string }

// failuresOf returns the failures of a Cluster.
func failuresOf(objects *overview.Objects) (failures []failure) {
	for _, apply := range objects.Applies {
		kind, message := apply.Status.LastFailureClass, apply.Status.LastFailureMessage
		if destroy := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition); destroy != nil && destroy.Reason == infrav1.DestroyFailedReason {
			kind, message = destroy.Reason, destroy.Message
		}
		if message != "" {
			failures = append(failures, failure{apply.Name, kind, message})
		}
	}
	return failures
}

// print prints a failure. Of one that was there before captctl, the time is not known.
func (f *failure) print(p *output.Printer, observed time.Time) {
	at := ""
	if !observed.IsZero() {
		at = output.Moment(observed) + " "
	}
	p.Linef("%s%s (%s):", at, p.Paint(output.Strong, "WorkspaceTemplateApply "+f.name), p.Paint(output.Bad, f.kind))
	p.Text("  ", output.Plain, f.message)
}

// Run reads and prints.
func (o *logsOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	objects, err := o.objects(ctx, reader)
	if err != nil {
		return err
	}
	p := o.Printer(output.Table)
	failures := failuresOf(objects)
	for i := range failures {
		if i > 0 {
			p.Blank()
		}
		failures[i].print(p, time.Time{})
	}
	if len(failures) == 0 {
		p.Linef("The last runs of Terraform have reported no errors.")
	}
	if !o.follow {
		return nil
	}
	return o.followFailures(ctx, p, reader, failures)
}

// followFailures prints each failure that was not there before. A failure that has ended and comes back is printed again.
func (o *logsOptions) followFailures(ctx context.Context, p *output.Printer, reader client.WithWatch, before []failure) error {
	return cli.Follow(ctx, o.Environment, reader, watched(o.Namespace), func(ctx context.Context) (done bool, err error) {
		objects, err := o.find(ctx, reader)
		if err != nil {
			return false, err
		}
		if objects == nil {
			p.Blank()
			p.Linef("%s Cluster %s is gone.", output.Moment(o.Clock.Now()), o.Name)
			return true, nil
		}
		now := failuresOf(objects)
		for i := range now {
			if !slices.Contains(before, now[i]) {
				p.Blank()
				now[i].print(p, o.Clock.Now())
			}
		}
		before = now
		return false, nil
	})
}
