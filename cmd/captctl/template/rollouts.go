// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type changeOptions struct {
	cli.Options
	cli.Writes
	// revision is a number or a hash, which may be required.
	revision string
	required bool
	// confirms is true if the command always asks.
	confirms     bool
	allowDestroy bool
	decide       func(context.Context, client.Client) ([]*change, error)
}

type change struct {
	object client.Object
	title  string // title is how texts name the object.
	// summary shows what the change means. It may be nil.
	summary func(*output.Printer)
	// question is what to confirm; empty if nothing is to be confirmed.
	question string
	// refused is why nothing is written, after the summary; nil if it is not refused.
	refused error
	// patch of the object; nil if there is nothing to change.
	patch client.Patch
	// done describes the result.
	done string
}

func newChange(environment *cli.Environment, command *cobra.Command, decide func(*changeOptions, *rollout.Template) (*change, error)) (*cobra.Command, *changeOptions) {
	o := &changeOptions{Options: cli.Options{Environment: environment}}
	o.decide = func(ctx context.Context, connected client.Client) ([]*change, error) {
		t, err := read(ctx, &o.Options, connected)
		if err == nil {
			err = usable(t)
		}
		if err != nil {
			return nil, err
		}
		c, err := decide(o, t)
		if err != nil {
			return nil, err
		}
		c.object, c.title = t.WorkspaceTemplate, t.String()
		return []*change{c}, nil
	}
	o.Takes(command, "NAME", environment.Access.CompleteTemplates())
	o.AddDryRun(command)
	return cli.NewConnected(command, o), o
}

// usable returns an error if the template has no rollout that can be changed.
func usable(t *rollout.Template) error {
	switch {
	case t.Unreadable != nil:
		return t.Unreadable
	case !t.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s is being deleted", t)
	case !t.Policy.IsStaged():
		return fmt.Errorf("%s: spec.rollout.strategy is not Staged: edits reach all users at once, and there is no rollout to change", t)
	}
	return nil
}

func (o *changeOptions) addAllowDestroy(command *cobra.Command) {
	command.Flags().BoolVar(&o.allowDestroy, "allow-destroy", false, "Also approve that Terraform replaces or deletes the listed resources.")
}

func (o *changeOptions) addRevision(command *cobra.Command, flag, usage string) {
	command.Flags().StringVar(&o.revision, flag, "", usage)
	cli.CompleteFlag(command, flag, o.completeRevisions)
}

func (o *changeOptions) completeRevisions(command *cobra.Command, args []string, _ string) (numbers []cobra.Completion, _ cobra.ShellCompDirective) {
	ctx, cancel := o.Access.Patience(command.Context())
	defer cancel()
	if connected, err := o.Access.Client(); err == nil && len(args) > 0 && o.Complete(args) == nil {
		t, _ := readRevisions(ctx, &o.Options, connected) // A shell shows no errors.
		for i := range t.History {
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(t.History[i].Number, 10), terraform.ShortRevision(t.History[i].Hash)))
		}
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp
}

func (o *changeOptions) Validate() error {
	return cmp.Or(
		errors.Join(o.Options.Validate(), o.ValidateDryRun("")),
		cli.When(o.required && o.revision == "", "--revision is required: it names the revision by number or hash; captctl template status lists the revisions"),
		cli.When(o.confirms && isPartOfHash(o.revision) && !o.Asks() && !o.DryRun(), partOfHash),
		cli.When(o.confirms && o.Asks() && !o.Interactive, "%w", cli.ErrNotInteractive))
}

const partOfHash = "--yes requires the whole hash in --revision: no user confirms the content, and another one can have the same first digits. It is in status.revision of the WorkspaceTemplate, or in status.change.revision of the WorkspaceTemplateApply"

// isPartOfHash reports whether a revision is part of a hash. A number is shorter.
func isPartOfHash(revision string) bool {
	return terraform.IsShortRevision(terraform.ShortRevision(revision)) && !terraform.IsWholeRevision(revision)
}

func (o *changeOptions) Run(ctx context.Context, connected client.WithWatch) error {
	changes, err := o.decide(ctx, connected)
	if err != nil {
		return err
	}
	p := o.Printer()
	changes = slices.DeleteFunc(changes, func(c *change) bool {
		if c.patch == nil {
			p.Text("", output.Plain, c.title+": unchanged: "+c.done)
		}
		return c.patch == nil
	})
	for _, c := range changes {
		if c.summary != nil {
			c.summary(p)
		}
	}
	if err := refusedOf(changes); err != nil {
		return err
	}
	if question := questionOf(changes, o.Access.Describe()); question != "" && o.Asks() {
		if err := o.Confirm(question); err != nil {
			return err
		}
	}
	return o.write(ctx, connected, changes)
}

func (o *changeOptions) write(ctx context.Context, connected client.Client, changes []*change) error {
	p := o.Printer()
	var options []client.PatchOption
	if o.DryRun() {
		options = append(options, client.DryRunAll)
	}
	for _, c := range changes {
		if err := connected.Patch(ctx, c.object, c.patch, options...); err != nil {
			return fmt.Errorf("writing %s: %w", c.title, err)
		}
		if o.DryRun() {
			c.done += " (dry run: nothing was written)"
		}
		p.Text("", output.Plain, c.title+": "+c.done)
	}
	return nil
}

// refusedOf returns why nothing is written: one change that is refused refuses all, because the user confirms all.
func refusedOf(changes []*change) error {
	var others []string
	all := &cli.ListError{Title: "nothing was written"}
	for _, c := range changes {
		if c.refused == nil {
			others = append(others, c.object.GetNamespace()+"/"+c.object.GetName())
		} else if all.Items = append(all.Items, c.refused.Error()); len(changes) == 1 {
			return c.refused
		}
	}
	switch {
	case len(all.Items) == 0:
		return nil
	case len(others) > 0:
		all.Next = "Without them: name only " + strings.Join(others, " ")
	}
	return all
}

// questionOf asks to confirm all changes at once; empty if nothing is to be confirmed.
func questionOf(changes []*change, where string) string {
	var all []string
	for _, c := range changes {
		if c.question != "" {
			all = append(all, c.question+" of "+c.title)
		}
	}
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("Do you want to %s in %s?", all[0], where)
	}
	return fmt.Sprintf("Do you want to do all of this in %s?\n  %s", where, strings.Join(all, "\n  "))
}

func name(r *rollout.Revision) string {
	return fmt.Sprintf("revision %d (%s)", r.Number, terraform.ShortRevision(r.Hash))
}

// named returns a revision of a template by its number or hash.
func named(t *rollout.Template, revision string) (*rollout.Revision, error) {
	found := t.History.Named(revision)
	if found == nil {
		return nil, fmt.Errorf("%s has no revision %s, or more than one; captctl template status %s lists its revisions", t, revision, t.Argument())
	}
	return found, nil
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

Lists the resources that Terraform would replace or delete, and approves nothing without
--allow-destroy if there are any. With it, also sets the annotation
capt.cluster.x-k8s.io/approve-destroy. With spec.rollout.approval: OnDestroy, changes that are not
known count as destructive. captctl template plan shows all that would change.

The webhooks record who approved the revision, and when.`,
		Example: `  captctl template approve team-a/vpc --revision 4

  # In a pipeline: exactly the content that was reviewed, by its whole hash
  captctl template approve team-a/vpc --revision "$HASH" --yes

  # Also what it replaces and deletes, after a question
  captctl template approve team-a/vpc --revision 4 --allow-destroy`,
	}, decideApproval)
	o.AddYes(command)
	o.addAllowDestroy(command)
	o.addRevision(command, "revision", "Number of the revision to approve, or its hash: at least the first twelve digits; all of them with --yes.")
	o.confirms, o.required = true, true
	return command
}

func decideApproval(o *changeOptions, t *rollout.Template) (*change, error) {
	revision, err := named(t, o.revision)
	if err != nil {
		return nil, err
	}
	target := t.Target()
	decision := t.Next(o.Clock.Now())
	r := &released{policy: t.Policy, hash: target.Hash, plans: slices.DeleteFunc(plansOf(t), func(p overview.Plan) bool { return p.Change != "" }), hidden: hiddenDestroys(t)}
	switch {
	case revision.Hash != target.Hash:
		return nil, fmt.Errorf("%s: %s is not the current content, which is %s. Only that can be approved. captctl template rollback %s --to-revision %d returns to %[2]s",
			t, name(revision), name(target), t.Argument(), revision.Number)
	case !t.Policy.RequiresApproval():
		return nil, fmt.Errorf("%s: spec.rollout.approval is None, so no revision needs an approval", t)
	case r.isApproved(o, t):
		return &change{done: name(target) + " is approved already" + by(target.Approval)}, nil
	case t.Reported().Stage == infrav1.RolloutComplete:
		return &change{done: name(target) + " has been rolled out already"}, nil
	}
	before := t.History.Previous(target.Hash)
	changes, err := differences(before, target)
	if err != nil {
		return nil, err
	}
	c := &change{
		summary: func(p *output.Printer) {
			p.Text("", output.Strong, fmt.Sprintf("%s: %s", t, name(target)))
			showChanges(p, before, changes)
			p.Text("", output.Plain, fmt.Sprintf("Users that get it: %d, %s", len(decision.Waiting), first(decision.Canaries)))
			if t.Policy.IsPreviewed() {
				p.Text("", output.Plain, "Plans: "+newPlanOf(t, r.plans, o.Clock.Now()).total())
			}
			warnOfApproval(p, t.WorkspaceTemplate, "revision")
		},
		question: "approve " + name(target), done: name(target) + " is approved",
	}
	r.approve(o, c, t.String())
	return c, nil
}

// released is what an approval of a content lets Terraform do.
type released struct {
	policy infrav1.WorkspaceTemplateRollout
	hash   string
	plans  []overview.Plan
	// hidden is how many plans that replace or delete resources the user of the command may not read.
	hidden int
	// unplanned is true while Terraform has not planned the change of one object. An approval waits for the plan, unless it includes what is destroyed.
	unplanned bool
}

// hiddenDestroys returns for how many users that the user of the command may not read the manager reports that resources would be replaced or deleted.
func hiddenDestroys(t *rollout.Template) int {
	known := 0
	for i := range t.Users {
		if preview := &t.Users[i].Preview; preview.TemplateRevision == t.Target().Hash && preview.IsDestructive() {
			known++
		}
	}
	return max(0, int(ptr.Deref(t.Reported().PreviewedDestroy, 0))-known)
}

// heldAfter returns the plans that the manager holds although their content is approved, and with it, or not, what they destroy.
func (r *released) heldAfter(approveDestroy string) (plans []overview.Plan) {
	return slices.DeleteFunc(slices.Clone(r.plans), func(plan overview.Plan) bool { return !r.isHeld(&plan, approveDestroy) })
}

func (r *released) isHeld(plan *overview.Plan, approveDestroy string) bool {
	change := rollout.Change{Policy: r.policy, Revision: r.hash, Approve: r.hash, ApproveDestroy: approveDestroy}
	isLeftBehind := plan.Change == "" && plan.Preview.Result == infrav1.PreviewUnavailable // By a rollout, until it can be planned.
	return !isLeftBehind && change.HeldBy(plan.Preview) != ""
}

// needsDestroy is for how many users the approval must include what is replaced or deleted.
func (r *released) needsDestroy() int { return r.hidden + len(r.heldAfter("")) }

// isApproved reports whether the annotations of an object approve the content, and what its plans destroy.
func (r *released) isApproved(o *changeOptions, object metav1.Object) bool {
	annotations := object.GetAnnotations()
	needsDestroy := r.needsDestroy() > 0 || r.unplanned && o.allowDestroy
	return annotations[naming.ApproveAnnotation] == r.hash && (annotations[naming.ApproveDestroyAnnotation] == r.hash || !needsDestroy)
}

// approve completes the approval of the content: what its plans destroy is shown, and must be allowed.
func (r *released) approve(o *changeOptions, c *change, title string) {
	approved, summary, users := map[string]any{naming.ApproveAnnotation: r.hash}, c.summary, r.needsDestroy()
	c.summary = func(p *output.Printer) {
		summary(p)
		r.showDestroyed(p)
		if users == 0 && o.allowDestroy && approved[naming.ApproveDestroyAnnotation] == nil {
			p.Text("", output.Plain, "No plan needs --allow-destroy: it has no effect")
		}
	}
	switch {
	case r.unplanned && o.allowDestroy:
		approved[naming.ApproveDestroyAnnotation] = r.hash
		c.question += " without a plan, which may replace or delete resources,"
	case users > 0 && !o.allowDestroy:
		c.refused = fmt.Errorf("%s: Terraform would replace or delete resources of %s, or may do so: see the list. To approve that as well, add --allow-destroy", title, output.Count(users, "user"))
	case users > 0:
		approved[naming.ApproveDestroyAnnotation] = r.hash
		c.question += ", which may replace or delete resources of " + output.Count(users, "user") + ","
	}
	c.patch = cli.MergePatch{"metadata": map[string]any{"annotations": approved}}
}

// showDestroyed lists what would be replaced or deleted, or may be, and which users keep their revision nevertheless.
func (r *released) showDestroyed(p *output.Printer) {
	output.ShowPlans(p, r.plans, func(plan *overview.Plan) []string {
		if !plan.Destroys && r.isHeld(plan, "") {
			return plan.Lines(output.AllResources) // There is no plan: the lines say why.
		}
		return plan.Destroyed(output.AllResources)
	})
	if r.hidden > 0 {
		p.Text("", output.Attention, "Terraform would replace or delete resources of "+output.Count(r.hidden, "user")+" that you may not read")
	}
	var names []string
	for _, plan := range r.heldAfter(r.hash) {
		names = append(names, output.NameOfPlan(&plan))
	}
	if len(names) > 0 {
		p.Text("", output.Attention, "Not released by any approval, because of spec.rollout.neverDestroy: "+rollout.Names(names))
	}
	if r.needsDestroy() > 0 {
		p.Blank()
	}
}

// warnOfApproval warns if the approval of a content will be reverted.
func warnOfApproval(p *output.Printer, object metav1.Object, content string) {
	if isInGit(object, "metadata", "annotations", naming.ApproveAnnotation) || isInGit(object, "metadata", "annotations", naming.ApproveDestroyAnnotation) {
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
	changes, err := render.SpecDifferences(&before.Content.Spec, &after.Content.Spec)
	inputs := func(r *rollout.Revision) string { // The zero value has no inputs.
		if len(r.Content.Inputs) == 0 {
			return ""
		}
		text, _ := json.Marshal(r.Content.Inputs) // They were decoded from JSON.
		return string(text)
	}
	for _, of := range []struct{ field, is, want string }{
		{"spec.substitution", string(before.Content.Substitution), string(after.Content.Substitution)},
		{"spec.passVariables", string(before.Content.PassVariables), string(after.Content.PassVariables)},
		{"spec.inputs", inputs(before), inputs(after)},
	} {
		if of.is == of.want {
			continue
		}
		change := render.Difference{Field: of.field}
		if of.is != "" {
			change.Live = of.is
		}
		if of.want != "" {
			change.Rendered = of.want
		}
		changes = append(changes, change)
	}
	return changes, err
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

func decideRollback(o *changeOptions, t *rollout.Template) (*change, error) {
	target := t.Target()
	revision := t.History.Previous(target.Hash)
	if o.revision != "" {
		var err error
		if revision, err = named(t, o.revision); err != nil {
			return nil, err
		}
	}
	switch {
	case revision == nil:
		return nil, fmt.Errorf("%s has no other revision than %s: there is nothing to return to", t, name(target))
	case revision.Hash == target.Hash:
		return &change{done: name(target) + " is the current content already"}, nil
	case revision.Content.Scope != target.Content.Scope:
		return nil, fmt.Errorf("%s: %s is for Workspaces of scope %s, and the template has scope %s: a Workspace cannot change its scope", t, name(revision), revision.Content.Scope, target.Content.Scope)
	}
	after := revision.At(t.WorkspaceTemplate)
	if hash := rollout.HashOf(after); hash != revision.Hash {
		return nil, fmt.Errorf("%s: the restored content would have hash %s instead of %s. Edit the template instead", t, terraform.ShortRevision(hash), terraform.ShortRevision(revision.Hash))
	}
	if after.Spec.Substitution == "" && t.Spec.Substitution != "" {
		return nil, fmt.Errorf("%s: %s is from before spec.substitution, which cannot be removed, and has a text $${name}, which was no escape. Edit the template instead", t, name(revision))
	}
	changes, err := differences(target, revision)
	c := &change{
		summary: func(p *output.Printer) {
			p.Text("", output.Strong, fmt.Sprintf("%s: back from %s to the content of %s", t, name(target), name(revision)))
			showChanges(p, target, changes)
			showReturning(p, t, revision)
		},
		question: "restore " + name(revision), done: "the content is that of " + name(revision) + " again",
		// Between reading and writing, another client may have edited the template: its edit must not be lost.
		patch: client.MergeFromWithOptions(t.DeepCopy(), client.MergeFromWithOptimisticLock{}),
	}
	if t.Policy.RequiresApproval() {
		c.done += fmt.Sprintf("; to approve it, run captctl template approve %s --revision %s", t.Argument(), revision.Hash)
	}
	t.WorkspaceTemplate = after
	return c, err
}

// showReturning shows how users return to a revision, and what can prevent that.
func showReturning(p *output.Printer, t *rollout.Template, revision *rollout.Revision) {
	returning := 0
	for i := range t.Users {
		if user := &t.Users[i]; user.Created && user.Assigned != revision.Hash {
			returning++
		}
	}
	p.Linef("Users that return to it: %d. Users that have it: %d.", returning, len(t.Users)-returning)
	if t.Policy.State == infrav1.RolloutPaused {
		p.Text("", output.Attention, "The rollout is paused: captctl template resume "+t.Argument()+" starts it")
	}
	if tool := gitOpsTool(t.WorkspaceTemplate); tool != "" {
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

func decidePause(_ *changeOptions, t *rollout.Template) (*change, error) {
	if t.Policy.State == infrav1.RolloutPaused {
		return &change{done: "the rollout is paused already"}, nil
	}
	fields := stateIs(infrav1.RolloutPaused)
	if t.Spec.Rollout.Strategy == "" && t.Status.Rollout.DefaultPolicy.Strategy != "" { // With a state alone, the template would have another policy.
		policy := t.Policy
		policy.State = infrav1.RolloutPaused
		fields = map[string]any{"rollout": policy}
	}
	return &change{summary: warnOfState(t), patch: cli.MergePatch{"spec": fields}, done: "the rollout is paused; users that Terraform is updating finish"}, nil
}

func stateIs(state infrav1.RolloutState) map[string]any {
	return map[string]any{"rollout": map[string]any{"state": string(state)}}
}

// warnOfState warns if the change of spec.rollout.state will be reverted.
func warnOfState(t *rollout.Template) func(*output.Printer) {
	return func(p *output.Printer) {
		if isInGit(t, "spec", "rollout", "state") {
			p.Text("", output.Attention, gitOpsTool(t)+" applies spec.rollout.state, and reverts it unless it is changed in Git as well")
		}
	}
}

func decideResume(o *changeOptions, t *rollout.Template) (*change, error) {
	decision := t.Next(o.Clock.Now())
	paused, stopped := t.Policy.State == infrav1.RolloutPaused, t.IsStopped(decision)
	if !paused && !stopped {
		return &change{done: "the rollout is neither paused nor stopped"}, nil
	}
	fields := cli.MergePatch{}
	c := &change{summary: warnOfState(t), done: "the rollout is resumed"}
	if paused {
		fields["spec"] = stateIs(infrav1.RolloutRunning)
	}
	if target := t.Target(); stopped {
		fields["metadata"] = map[string]any{"annotations": map[string]any{naming.ResumeAnnotation: target.Hash}}
		c.summary = func(p *output.Printer) {
			p.Text("", output.Bad, fmt.Sprintf("%s: %s", t, whyStopped(t, decision)))
			p.Linef("If it continues, no failure of this revision stops it. Waiting: %s.", output.Count(len(decision.Waiting), "user"))
			if paused {
				warnOfState(t)(p)
			}
		}
		c.question, c.done = "continue the rollout of "+name(target)+" "+despite(decision), "the rollout of "+name(target)+" continues, whatever fails"
	}
	c.patch = fields
	return c, nil
}

// fails reports whether the revision fails for users, which the user of the command may not see, rather than that the rollout waits for them.
func fails(decision rollout.Decision) bool { return len(decision.Failed) > 0 || !decision.Resumable }

// whyStopped is why the rollout does not continue without a resume.
func whyStopped(t *rollout.Template, decision rollout.Decision) string {
	if !fails(decision) {
		return decision.Message
	}
	return fmt.Sprintf("%s fails for %s", name(t.Target()), cmp.Or(rollout.Names(decision.Failed), "users that you may not read"))
}

func despite(decision rollout.Decision) string {
	if fails(decision) {
		return "although it fails for users"
	}
	return "without what it waits for"
}
