// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// logsOptions are the options of logs.
type logsOptions struct {
	*cli.Environment
	selected
}

// NewLogs returns captctl logs.
func NewLogs(environment *cli.Environment) *cobra.Command {
	o := &logsOptions{environment, selected{cluster.Selected{Of: environment.Access}}}
	return &cobra.Command{
		Use:   "logs [NAMESPACE/]CLUSTER",
		Short: "Show the last errors of Terraform for a Cluster",
		Long: `Shows the last error of Terraform, without secrets, of each WorkspaceTemplateApply of a Cluster
whose last apply or destroy failed. The complete output of Terraform is in the log of
provider-terraform.`,
		Example:           "  captctl logs team-a/demo",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteClusters(),
		RunE:              cli.Run(o),
	}
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
	failed := 0
	for _, apply := range objects.Applies {
		kind, message := apply.Status.LastFailureClass, apply.Status.LastFailureMessage
		if destroy := meta.FindStatusCondition(apply.Status.Conditions, infrav1.DeletingCondition); destroy != nil && destroy.Reason == infrav1.DestroyFailedReason {
			kind, message = destroy.Reason, destroy.Message
		}
		if message == "" {
			continue
		}
		if failed++; failed > 1 {
			p.Blank()
		}
		p.Linef("%s (%s):", p.Paint(output.Strong, "WorkspaceTemplateApply "+apply.Name), p.Paint(output.Bad, kind))
		p.Text("  ", output.Plain, message)
	}
	if failed == 0 {
		p.Linef("The last runs of Terraform have reported no errors.")
	}
	return nil
}
