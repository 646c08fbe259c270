// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package rollouts has the commands of captctl template that show and control staged rollouts. Their rules are in api/rollout.
package rollouts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// New returns the commands.
func New(environment *cli.Environment) []*cobra.Command {
	return []*cobra.Command{newStatus(environment), newApprove(environment), newApproveChange(environment), newPause(environment), newResume(environment), newRollback(environment)}
}

func newSelected(environment *cli.Environment) cli.Selected {
	return cli.Selected{Of: environment.Access, Kind: "NAME"}
}

// changeOptions are the options of a command that changes a WorkspaceTemplate or one of its users.
type changeOptions struct {
	*cli.Environment
	cli.Selected
	cli.Writes
	// revision is a number or a hash, which may be required.
	revision string
	required bool
	// confirms is true if the command always asks.
	confirms bool
	// decide returns what to change.
	decide func(o *changeOptions, s *staged) (*change, error)
}

// change is a change of an object.
type change struct {
	// summary shows what the change means. It may be nil.
	summary func(*output.Printer)
	// question is what to confirm; empty if nothing is to be confirmed.
	question string
	// patch of the object; nil if there is nothing to change.
	patch client.Patch
	// done describes the result.
	done string
}

func newChange(environment *cli.Environment, command *cobra.Command, decide func(*changeOptions, *staged) (*change, error)) (*cobra.Command, *changeOptions) {
	o := &changeOptions{Environment: environment, Selected: newSelected(environment), decide: decide}
	command.Args, command.ValidArgsFunction, command.RunE = cobra.ExactArgs(1), environment.Access.CompleteTemplates(), cli.Run(o)
	o.AddDryRun(command)
	return command, o
}

// addRevision adds the flag that names a revision.
func (o *changeOptions) addRevision(command *cobra.Command, flag, usage string) {
	command.Flags().StringVar(&o.revision, flag, "", usage)
	cli.CompleteFlag(command, flag, o.completeRevisions)
}

// completeRevisions completes with the numbers of the revisions of the template.
func (o *changeOptions) completeRevisions(command *cobra.Command, args []string, _ string) (numbers []cobra.Completion, _ cobra.ShellCompDirective) {
	ctx, cancel := o.Access.Patience(command.Context())
	defer cancel()
	if len(args) == 0 || o.Complete(args) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	connected, err := o.Access.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	s := &staged{template: &infrav1.WorkspaceTemplate{}}
	if s.readRevisions(ctx, connected, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}) == nil { // A shell shows no errors.
		for i := range s.history {
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(s.history[i].Number, 10), terraform.ShortRevision(s.history[i].Hash)))
		}
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp
}

// Validate checks the argument and the flags.
func (o *changeOptions) Validate() error {
	if err := errors.Join(o.Selected.Validate(), o.ValidateDryRun("")); err != nil {
		return err
	}
	switch {
	case o.required && o.revision == "":
		return errors.New("--revision is required: it names the revision by number or hash; captctl template status lists the revisions")
	case o.confirms && o.revision != "" && o.namesPartOfHash():
		return errors.New("--yes requires the whole hash in --revision: no user confirms the content, and another one can have the same first digits. It is in status.revision of the WorkspaceTemplate, or in status.change.revision of the WorkspaceTemplateApply")
	case o.confirms && o.Asks() && !o.Interactive:
		return cli.ErrNotInteractive
	}
	return nil
}

// namesPartOfHash reports whether the revision is part of a hash, and no user confirms what it means.
func (o *changeOptions) namesPartOfHash() bool {
	isPart := terraform.IsShortRevision(terraform.ShortRevision(o.revision)) && !terraform.IsWholeRevision(o.revision) // A number is shorter.
	return isPart && !o.Asks() && !o.DryRun()
}

// Run reads the template, and changes it.
func (o *changeOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	reader := &reader{Reader: connected, warnings: o.ErrOut}
	s, err := reader.read(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name})
	if err != nil {
		return err
	}
	if err := s.usable(); err != nil {
		return err
	}
	c, err := o.decide(o, s)
	if err != nil {
		return err
	}
	return o.perform(ctx, connected, s.template, s.String(), c)
}

// perform asks, writes, and prints what was done.
func (o *changeOptions) perform(ctx context.Context, connected client.Client, object client.Object, title string, c *change) error {
	p := o.Printer(output.Table)
	if c.patch == nil {
		p.Text("", output.Plain, title+": unchanged: "+c.done)
		return nil
	}
	if c.summary != nil {
		c.summary(p)
	}
	if c.question != "" && o.Asks() {
		if err := o.Confirm(fmt.Sprintf("Do you want to %s of %s in %s?", c.question, title, o.Access.Describe())); err != nil {
			return err
		}
	}
	var options []client.PatchOption
	if o.DryRun() {
		options, c.done = append(options, client.DryRunAll), c.done+" (dry run: nothing was written)"
	}
	if err := connected.Patch(ctx, object, c.patch, options...); err != nil {
		return fmt.Errorf("writing %s: %w", title, err)
	}
	p.Text("", output.Plain, title+": "+c.done)
	return nil
}

// merge returns a merge patch. It changes only the fields that it has, whatever other clients have written since the template was read.
func merge(fields map[string]any) (client.Patch, error) {
	data, err := json.Marshal(fields)
	return client.RawPatch(types.MergePatchType, data), err
}

// name is how texts name a revision.
func name(r *rollout.Revision) string {
	return fmt.Sprintf("revision %d (%s)", r.Number, terraform.ShortRevision(r.Hash))
}

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

func newPause(environment *cli.Environment) *cobra.Command {
	command, _ := newChange(environment, &cobra.Command{
		Use:   "pause [NAMESPACE/]NAME",
		Short: "Pause the rollout of a WorkspaceTemplate: no further user gets the revision",
		Long: `Sets spec.rollout.state of the WorkspaceTemplate to Paused. Users that Terraform is updating finish.
The others keep their revision until captctl template resume. If the template has the default policy
of the manager (--default-rollout), that policy is written to spec.rollout.`,
		Example: "  captctl template pause team-a/vpc",
	}, decidePause)
	return command
}

func newResume(environment *cli.Environment) *cobra.Command {
	command, o := newChange(environment, &cobra.Command{
		Use:   "resume [NAMESPACE/]NAME",
		Short: "Resume the rollout of a WorkspaceTemplate that is paused, or that a failure stopped",
		Long: `Sets spec.rollout.state of the WorkspaceTemplate to Running. If the rollout stopped because the
revision fails for users or users do not finish the update, or if it waits for users that cannot be
previewed or for canaries, also sets the annotation capt.cluster.x-k8s.io/resume to the hash of the
revision, after a question: then no failure of this revision stops its rollout, canaries that fail
or do not finish are skipped, and users that cannot be previewed are left behind.`,
		Example: `  captctl template resume team-a/vpc

  # Although the revision fails for users, without a question
  captctl template resume team-a/vpc --yes`,
	}, decideResume)
	o.AddYes(command)
	return command
}

func decidePause(_ *changeOptions, s *staged) (*change, error) {
	if s.policy.State == infrav1.RolloutPaused {
		return &change{done: "the rollout is paused already"}, nil
	}
	fields := stateIs(infrav1.RolloutPaused)
	if s.byDefault { // With a state alone, the template would have another policy.
		policy := s.policy
		policy.State = infrav1.RolloutPaused
		fields = map[string]any{"rollout": policy}
	}
	patch, err := merge(map[string]any{"spec": fields})
	return &change{summary: s.warnOfState, patch: patch, done: "the rollout is paused; users that Terraform is updating finish"}, err
}

func stateIs(state infrav1.RolloutState) map[string]any {
	return map[string]any{"rollout": map[string]any{"state": string(state)}}
}

// warnOfState warns if the change of spec.rollout.state will be reverted.
func (s *staged) warnOfState(p *output.Printer) {
	if isInGit(s.template, "spec", "rollout", "state") {
		p.Text("", output.Attention, gitOpsTool(s.template)+" applies spec.rollout.state, and reverts it unless it is changed in Git as well")
	}
}

func decideResume(o *changeOptions, s *staged) (*change, error) {
	decision := rollout.Next(rollout.FactsOf(s.template, s.policy, s.history, s.users, o.Clock.Now()))
	paused, stopped := s.policy.State == infrav1.RolloutPaused, s.isStopped(decision)
	if !paused && !stopped {
		return &change{done: "the rollout is neither paused nor stopped"}, nil
	}
	fields := map[string]any{}
	c := &change{summary: s.warnOfState, done: "the rollout is not paused"}
	if paused {
		fields["spec"] = stateIs(infrav1.RolloutRunning)
	}
	if target := s.target(); stopped {
		fields["metadata"] = map[string]any{"annotations": map[string]any{naming.ResumeAnnotation: target.Hash}}
		c.summary = func(p *output.Printer) {
			p.Text("", output.Bad, fmt.Sprintf("%s: %s", s, s.whyStopped(decision)))
			p.Linef("If it continues, no failure of this revision stops it. Waiting: %s.", output.Count(len(decision.Waiting), "user"))
			if paused {
				s.warnOfState(p)
			}
		}
		c.question, c.done = "continue the rollout of "+name(target)+" "+despite(decision), "the rollout of "+name(target)+" continues, whatever fails"
	}
	var err error
	c.patch, err = merge(fields)
	return c, err
}

// fails reports whether the revision fails for users, which the user of the command may not see, rather than that the rollout waits for them.
func fails(decision rollout.Decision) bool { return len(decision.Failed) > 0 || !decision.Resumable }

// whyStopped is why the rollout does not continue without a resume.
func (s *staged) whyStopped(decision rollout.Decision) string {
	if !fails(decision) {
		return decision.Message
	}
	return fmt.Sprintf("%s fails for %s", name(s.target()), cmp.Or(rollout.Names(decision.Failed), "users that you may not read"))
}

// despite is what a resume ignores.
func despite(decision rollout.Decision) string {
	if fails(decision) {
		return "although it fails for users"
	}
	return "without what it waits for"
}
