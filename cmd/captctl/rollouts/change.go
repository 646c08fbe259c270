// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// approveChangeOptions are the options of template approve-change.
type approveChangeOptions struct{ changeOptions }

func newApproveChange(environment *cli.Environment) *cobra.Command {
	o := &approveChangeOptions{changeOptions{Environment: environment, Selected: newSelected(environment), confirms: true}}
	command := &cobra.Command{
		Use:   "approve-change [NAMESPACE/]NAME [--revision HASH]",
		Short: "Approve a change of one WorkspaceTemplateApply, such as its version",
		Long: `Sets the annotation capt.cluster.x-k8s.io/approve of the WorkspaceTemplateApply to the hash of the
rendered Workspace that waits (status.change.revision). If spec.rollout of its template requires
previews or approvals, a change of the version or of variables is not applied before that.

Shows why the change waits, and asks. The approval is for exactly this content: if the spec changes
again, the content has another hash, and waits. An approval also passes if the plan fails.

captctl diff shows what changes in the Workspace. The webhooks record who approved it, and when.`,
		Example: `  captctl template approve-change team-a/demo-controlplane

  # In a pipeline: exactly the content that was reviewed, by its whole hash
  captctl template approve-change team-a/demo-controlplane --revision "$HASH" --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: environment.Access.CompleteApplies(),
		RunE:              cli.Run(o),
	}
	o.AddDryRun(command)
	o.AddYes(command)
	command.Flags().StringVar(&o.revision, "revision", "", "Hash of the content to approve: at least its first twelve digits. With --yes, the whole hash is required.")
	cli.CompleteFlag(command, "revision", cobra.NoFileCompletions)
	return command
}

// Validate checks the argument and the flags.
func (o *approveChangeOptions) Validate() error {
	if !o.Asks() && !o.DryRun() && o.revision == "" {
		return errors.New("--yes requires --revision: without a question, it must be known which content is approved. The condition Ready of the object names it")
	}
	return o.changeOptions.Validate()
}

// Run reads the WorkspaceTemplateApply, and approves its change.
func (o *approveChangeOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := connected.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, apply); err != nil {
		return err
	}
	title, waiting, c := fmt.Sprintf("WorkspaceTemplateApply %s/%s", o.Namespace, o.Name), apply.Status.Change.Revision, &change{}
	shown := terraform.ShortRevision(waiting)
	switch {
	case o.revision != "" && apply.Annotations[naming.ApproveAnnotation] == o.revision:
		c.done = fmt.Sprintf("content %s is approved already%s", terraform.ShortRevision(o.revision), by(rollout.ApprovalOf(apply)))
	case waiting == "" || apply.Status.ObservedGeneration != apply.Generation:
		return fmt.Errorf("%s: no change waits for an approval, or the manager has not observed the current spec yet", title)
	case o.revision != "" && (len(o.revision) < len(shown) || !strings.HasPrefix(waiting, o.revision)):
		return fmt.Errorf("%s: content %s is not the one that waits, which is %s", title, o.revision, waiting)
	default:
		c.summary = func(p *output.Printer) {
			p.Text("", output.Strong, title+": content "+shown)
			p.Text("", output.Plain, output.OneLine(conditions.GetMessage(apply, infrav1.ReadyCondition)))
			warnOfApproval(p, apply, "content")
		}
		c.question, c.done = "approve content "+shown, "content "+shown+" is approved"
		c.patch, err = approval(waiting)
	}
	if err != nil {
		return err
	}
	return o.perform(ctx, connected, apply, title, c)
}
