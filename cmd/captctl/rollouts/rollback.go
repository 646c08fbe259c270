// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

func newRollback(environment *cli.Environment) *cobra.Command {
	command, o := newChange(environment, &cobra.Command{
		Use:   "rollback [NAMESPACE/]NAME",
		Short: "Return a WorkspaceTemplate to the content of an earlier revision, in stages",
		Long: `Writes the content of an earlier revision (spec.template.spec) into the WorkspaceTemplate. It is
rolled out as any other edit is: to the canaries first, and after an approval if the policy requires
one. Users that never left that revision are not touched.

Without --to-revision, the newest other revision that was rolled out to all users is restored, or
else the newest other one. Shows first what changes, and asks.

A GitOps tool reverts a rollback to what is in Git: revert the commit as well.`,
		Example: `  captctl template rollback team-a/vpc
  captctl template rollback team-a/vpc --to-revision 2 --yes

  # What would it change?
  captctl template rollback team-a/vpc --dry-run=server`,
	}, decideRollback)
	o.AddYes(command)
	o.addRevision(command, "to-revision", "Number or hash of the revision to restore.")
	o.confirms = true
	return command
}

// decideRollback returns the edit that restores a revision.
func decideRollback(o *changeOptions, s *staged) (*change, error) {
	target := s.target()
	revision := s.history.Previous(target.Hash)
	if o.revision != "" {
		var err error
		if revision, err = s.named(o.revision); err != nil {
			return nil, err
		}
	}
	switch {
	case revision == nil:
		return nil, fmt.Errorf("%s has no other revision than %s: there is nothing to return to", s, name(target))
	case revision.Hash == target.Hash:
		return &change{done: name(target) + " is the current content already"}, nil
	case revision.Content.Scope != target.Content.Scope:
		return nil, fmt.Errorf("%s: %s is for Workspaces of scope %s, and the template has scope %s: a Workspace cannot change its scope", s, name(revision), revision.Content.Scope, target.Content.Scope)
	}
	after := revision.At(s.template)
	if hash := rollout.HashOf(after); hash != revision.Hash {
		return nil, fmt.Errorf("%s: the restored content would have hash %s instead of %s. Edit the template instead", s, terraform.ShortRevision(hash), terraform.ShortRevision(revision.Hash))
	}
	changes, err := differences(target, revision)
	c := &change{
		summary: func(p *output.Printer) {
			p.Text("", output.Strong, fmt.Sprintf("%s: back from %s to the content of %s", s, name(target), name(revision)))
			showChanges(p, target, changes)
			s.showReturning(p, revision)
		},
		question: "restore " + name(revision), done: "the content is that of " + name(revision) + " again",
		// Between reading and writing, another client may have edited the template: its edit must not be lost.
		patch: client.MergeFromWithOptions(s.template.DeepCopy(), client.MergeFromWithOptimisticLock{}),
	}
	if s.policy.RequiresApproval() {
		c.done += fmt.Sprintf("; to approve it, run captctl template approve %s --revision %s", s.argument(), revision.Hash)
	}
	s.template = after
	return c, err
}

// showReturning shows how users return to a revision, and what can prevent that.
func (s *staged) showReturning(p *output.Printer, revision *rollout.Revision) {
	returning := 0
	for i := range s.users {
		if user := &s.users[i]; user.Created && user.Assigned != revision.Hash {
			returning++
		}
	}
	p.Linef("Users that return to it: %d. Users that have it: %d.", returning, len(s.users)-returning)
	if s.policy.State == infrav1.RolloutPaused {
		p.Text("", output.Attention, "The rollout is paused: captctl template resume "+s.argument()+" starts it")
	}
	if tool := gitOpsTool(s.template); tool != "" {
		p.Text("", output.Attention, tool+" applies this template, and reverts the rollback unless the content is changed in Git as well")
	}
}
