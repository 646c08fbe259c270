// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

func newApprove(environment *cli.Environment) *cobra.Command {
	command, o := newChange(environment, &cobra.Command{
		Use:   "approve [NAMESPACE/]NAME --revision NUMBER|HASH",
		Short: "Approve a revision of a WorkspaceTemplate, which starts its rollout",
		Long: `Sets the annotation capt.cluster.x-k8s.io/approve of the WorkspaceTemplate to the hash of a
revision. With spec.rollout.approval: Always, no user of the template gets a revision before that.

Shows first how the content of the revision differs from that of the revision to which a rollback
returns, and asks. Only the current content can be approved. If it changes at the same time, the
approval has no effect, because the new content has another hash.

The first twelve digits of the hash are enough to name the revision; the annotation gets the whole
hash. With --yes, no user confirms the content, so that the whole hash or the number is required.

The webhooks record who approved the revision, and when.`,
		Example: `  captctl template approve team-a/vpc --revision 4

  # In a pipeline: exactly the content that was reviewed, by its whole hash
  captctl template approve team-a/vpc --revision "$HASH" --yes`,
	}, decideApproval)
	o.AddYes(command)
	o.addRevision(command, "revision", "Number of the revision to approve, or its hash: at least the first twelve digits; all of them with --yes.")
	o.confirms, o.required = true, true
	return command
}

// decideApproval returns the approval of the current revision.
func decideApproval(o *changeOptions, s *staged) (*change, error) {
	revision, err := s.named(o.revision)
	if err != nil {
		return nil, err
	}
	target := s.target()
	decision := rollout.Next(rollout.FactsOf(s.template, s.policy, s.history, s.users, o.Clock.Now()))
	switch {
	case revision.Hash != target.Hash:
		return nil, fmt.Errorf("%s: %s is not the current content, which is %s. Only that can be approved. captctl template rollback %s --to-revision %d returns to %[2]s",
			s, name(revision), name(target), s.argument(), revision.Number)
	case !s.policy.RequiresApproval():
		return nil, fmt.Errorf("%s: spec.rollout.approval is None, so no revision needs an approval", s)
	case s.template.Annotations[naming.ApproveAnnotation] == target.Hash:
		return &change{done: name(target) + " is approved already" + by(target.Approval)}, nil
	case s.reported().Stage == infrav1.RolloutComplete:
		return &change{done: name(target) + " has been rolled out already"}, nil
	}
	patch, err := approval(target.Hash)
	if err != nil {
		return nil, err
	}
	before := s.history.Previous(target.Hash)
	changes, err := differences(before, target)
	return &change{
		summary: func(p *output.Printer) {
			p.Text("", output.Strong, fmt.Sprintf("%s: %s", s, name(target)))
			showChanges(p, before, changes)
			p.Text("", output.Plain, fmt.Sprintf("Users that get it: %d, %s", len(decision.Waiting), first(decision.Canaries)))
			warnOfApproval(p, s.template, "revision")
		},
		question: "approve " + name(target), patch: patch, done: name(target) + " is approved",
	}, err
}

// approval returns the patch that approves a content.
func approval(hash string) (client.Patch, error) {
	return merge(map[string]any{"metadata": map[string]any{"annotations": map[string]any{naming.ApproveAnnotation: hash}}})
}

// warnOfApproval warns if the approval of a content will be reverted.
func warnOfApproval(p *output.Printer, object metav1.Object, content string) {
	if isInGit(object, "metadata", "annotations", naming.ApproveAnnotation) {
		p.Text("", output.Attention, gitOpsTool(object)+" applies this annotation, and reverts it: approve the "+content+" in Git")
	}
}

// by is who approved a revision, and when, as the end of a sentence.
func by(approval rollout.Approval) (text string) {
	if approval.By != "" {
		text = ", by " + approval.By
	}
	if approval.At != "" {
		text += " at " + approval.At
	}
	return text
}

// first names the canaries.
func first(canaries []string) string {
	if len(canaries) == 0 {
		return "without canaries"
	}
	return fmt.Sprintf("first the canaries: %s", rollout.Names(canaries))
}

// differences returns how the contents of two revisions differ; nothing without an earlier one.
func differences(before, after *rollout.Revision) ([]render.Difference, error) {
	if before == nil {
		return nil, nil
	}
	return render.SpecDifferences(&before.Content.Spec, &after.Content.Spec)
}

// showChanges shows how the contents of two revisions differ; the first may be nil.
func showChanges(p *output.Printer, before *rollout.Revision, changes []render.Difference) {
	const indent = "    "
	if before == nil {
		p.Linef("No other revision is stored to compare it with. captctl diff shows what Terraform gets.")
		return
	}
	p.Linef("Changes since %s:", name(before))
	for _, change := range changes {
		p.Change(indent, strings.TrimPrefix(change.Field, "spec."), output.ValueOf(change.Live), output.ValueOf(change.Rendered))
	}
	if len(changes) == 0 {
		p.Linef("%snone", indent)
	}
}
