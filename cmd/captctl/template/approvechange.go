// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/fleet"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// approveOptions are those of the command that approves changes of WorkspaceTemplateApplies.
type approveOptions struct {
	changeOptions
	keys []client.ObjectKey
	all  bool
	// selector selects Clusters by their labels.
	selector string
	selects  labels.Selector
	// contents are hashes, or beginnings of them; none for each that waits.
	contents []string
}

func newApproveChange(environment *cli.Environment) *cobra.Command {
	o := &approveOptions{changeOptions: changeOptions{Options: cli.Options{Environment: environment}}}
	o.decide = o.decideAll
	command := &cobra.Command{
		Use:   "approve-change [NAMESPACE/]NAME... | --all | --selector LABELS",
		Short: "Approve changes of WorkspaceTemplateApplies, such as their version",
		Long: `NAME is that of a WorkspaceTemplateApply or, if there is none of this name, of a Cluster, which
means all its changes that wait. --all means all that wait in the namespace, and --selector those
of the Clusters in the namespace with these labels.

Sets the annotation capt.cluster.x-k8s.io/approve of the WorkspaceTemplateApply to the hash of the
rendered Workspace that waits (status.change.revision). If spec.rollout of its template requires
previews or approvals, a change of the version or of variables is not applied before that.

Shows each change and why it waits, and asks once for all of them. The approval is for exactly this
content: if the spec changes again, the content has another hash, and waits. Before the plan has a
result, the approval takes effect when it has one; with --allow-destroy, the change of a Workspace
that is not at rest is applied without a plan.

Lists the resources that Terraform would replace or delete, and approves nothing without
--allow-destroy if there are any. With it, also sets the annotation
capt.cluster.x-k8s.io/approve-destroy where it is needed. With spec.rollout.approval: OnDestroy,
changes that are not known count as destructive, also because the plan fails.

captctl diff shows what changes in the Workspace. The webhooks record who approved it, and when.`,
		Example: `  captctl template approve-change team-a/demo
  captctl template approve-change team-a/demo-controlplane team-a/demo-vpc

  # All that wait in a namespace, or those of the Clusters of an environment
  captctl template approve-change -n team-a --all
  captctl template approve-change -n team-a -l environment=test

  # In a pipeline: exactly the content that was reviewed, by its whole hash
  captctl template approve-change team-a/demo-controlplane --revision "$HASH" --yes`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: environment.Access.CompleteChanges(),
	}
	flags := command.Flags()
	o.AddDryRun(command)
	o.AddYes(command)
	flags.BoolVar(&o.all, "all", false, "All changes that wait in the namespace.")
	flags.StringVarP(&o.selector, "selector", "l", "", "Labels of Clusters in the namespace, for example environment=test.")
	flags.StringSliceVar(&o.contents, "revision", nil, "Hash of the content to approve: at least its first twelve digits. Can be repeated; other contents are not approved. With --yes, the whole hash is required.")
	for _, name := range []string{"revision", "selector"} {
		cli.CompleteFlag(command, name, cobra.NoFileCompletions)
	}
	o.addAllowDestroy(command)
	return cli.NewConnected(command, o)
}

// Complete takes the names, or the namespace of --namespace or of the context.
func (o *approveOptions) Complete(args []string) (err error) {
	if o.keys, err = o.Keys(args); err == nil {
		o.Namespace, _, err = o.Access.ToRawKubeConfigLoader().Namespace()
	}
	return err
}

func (o *approveOptions) Validate() (err error) {
	if o.selects, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	ways := 0
	for _, given := range []bool{len(o.keys) > 0, o.all, o.selector != ""} {
		if given {
			ways++
		}
	}
	unconfirmed := !o.Asks() && !o.DryRun()
	return cmp.Or(
		cli.When(ways != 1, "use either names, --all or --selector; captctl get lists the Clusters that need an action"),
		cli.When(len(o.contents) == 0 && unconfirmed, "--yes requires --revision: without a question, it must be known which content is approved. The condition Ready of the object names it"),
		cli.When(unconfirmed && slices.ContainsFunc(o.contents, isPartOfHash), partOfHash),
		cli.When(o.Asks() && !o.Interactive, "%w", cli.ErrNotInteractive),
		o.ValidateDryRun(""))
}

// decideAll decides about each change that is meant.
func (o *approveOptions) decideAll(ctx context.Context, connected client.Client) (changes []*change, err error) {
	applies, err := o.meant(ctx, connected)
	if err != nil {
		return nil, err
	}
	decided, unused := sets.New[client.ObjectKey](), sets.New(o.contents...)
	for _, apply := range applies {
		if key := client.ObjectKeyFromObject(apply); decided.Has(key) {
			continue // A Cluster was named, too.
		} else if decided.Insert(key); o.isApproved(ctx, connected, apply) {
			changes = append(changes, &change{object: apply, title: titleOf(apply), done: fmt.Sprintf("content %s is approved already%s",
				terraform.ShortRevision(apply.Annotations[naming.ApproveAnnotation]), by(rollout.ApprovalOf(apply)))})
			unused.Delete(apply.Annotations[naming.ApproveAnnotation])
			continue
		}
		c, err := o.decideChange(ctx, connected, apply)
		if err != nil {
			return nil, err
		}
		changes = append(changes, c)
		unused = unused.Difference(sets.New(slices.DeleteFunc(sets.List(unused), func(content string) bool { return canApprove(apply, []string{content}) != nil })...))
	}
	for _, content := range sets.List(unused) {
		o.Warn("no change with content %s waits there", content)
	}
	return changes, nil
}

// meant returns the WorkspaceTemplateApplies that the arguments and flags mean.
func (o *approveOptions) meant(ctx context.Context, connected client.Client) (all []*infrav1.WorkspaceTemplateApply, err error) {
	for _, key := range o.keys {
		found, err := o.named(ctx, connected, key)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(o.keys) > 0 {
		return all, nil
	}
	var applies infrav1.WorkspaceTemplateApplyList
	var clusters clusterv1.ClusterList
	if err := errors.Join(
		connected.List(ctx, &clusters, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: o.selects}),
		connected.List(ctx, &applies, client.InNamespace(o.Namespace)),
	); err != nil {
		return nil, err
	}
	selected := sets.New[string]()
	for i := range clusters.Items {
		selected.Insert(clusters.Items[i].Name)
	}
	for i := range applies.Items {
		apply := &applies.Items[i]
		if canApprove(apply, o.contents) == nil && (o.all || selected.Has(apply.Labels[clusterv1.ClusterNameLabel])) {
			all = append(all, apply)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no change in namespace %s, or not these, waits for an approval", o.Namespace)
	}
	return all, nil
}

// named returns the WorkspaceTemplateApply of a name, or those of the Cluster of that name whose changes wait.
func (o *approveOptions) named(ctx context.Context, connected client.Client, key client.ObjectKey) ([]*infrav1.WorkspaceTemplateApply, error) {
	apply := &infrav1.WorkspaceTemplateApply{}
	if err := connected.Get(ctx, key, apply); !apierrors.IsNotFound(err) {
		return []*infrav1.WorkspaceTemplateApply{apply}, err
	}
	objects, err := fleet.ObjectsOf(ctx, &cli.Options{Environment: o.Environment, Namespace: key.Namespace, Name: key.Name}, connected)
	if err != nil {
		return nil, fmt.Errorf("there is no WorkspaceTemplateApply of this name, and %w", err)
	}
	held := slices.DeleteFunc(objects.Applies, func(of *infrav1.WorkspaceTemplateApply) bool { return canApprove(of, o.contents) != nil })
	if len(held) == 0 {
		return nil, fmt.Errorf("no change of Cluster %s, or not this one, waits for an approval", key)
	}
	return held, nil
}

// isApproved reports whether a content that --revision names is approved already, with what it destroys if that is to be approved.
func (o *approveOptions) isApproved(ctx context.Context, connected client.Client, apply *infrav1.WorkspaceTemplateApply) bool {
	approved := apply.Annotations[naming.ApproveAnnotation]
	return slices.Contains(o.contents, approved) && (approved != apply.Status.Change.Revision || releasedBy(ctx, connected, apply).isApproved(&o.changeOptions, apply))
}

func titleOf(apply *infrav1.WorkspaceTemplateApply) string {
	return fmt.Sprintf("WorkspaceTemplateApply %s/%s", apply.Namespace, apply.Name)
}

func (o *approveOptions) decideChange(ctx context.Context, connected client.Client, apply *infrav1.WorkspaceTemplateApply) (*change, error) {
	title := titleOf(apply)
	if err := canApprove(apply, o.contents); err != nil {
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	shown, r := terraform.ShortRevision(apply.Status.Change.Revision), releasedBy(ctx, connected, apply)
	c := &change{object: apply, title: title, question: "approve content " + shown, done: "content " + shown + " is approved"}
	c.summary = func(p *output.Printer) {
		p.Text("", output.Strong, title+": content "+shown)
		p.Text("", output.Plain, output.OneLine(conditions.GetMessage(apply, infrav1.ReadyCondition)))
		for i := range r.plans {
			p.Text("", output.Plain, "Plan: "+r.plans[i].Summary)
		}
		if r.unplanned {
			p.Text("", output.Attention, "Terraform has not planned it yet: the approval takes effect when it has. With --allow-destroy, it is applied without a plan if the Workspace is not at rest, whatever it replaces or deletes")
		}
		warnOfApproval(p, apply, "content")
	}
	r.approve(&o.changeOptions, c, title)
	return c, nil
}

// canApprove returns an error if no change of a WorkspaceTemplateApply waits, or none of the named contents; none names any.
func canApprove(apply *infrav1.WorkspaceTemplateApply, contents []string) error {
	waiting := apply.Status.Change.Revision
	switch {
	case waiting == "" || apply.Status.ObservedGeneration != apply.Generation:
		return errors.New("no change waits for an approval, or the manager has not observed the current spec yet")
	case len(contents) > 0 && !slices.ContainsFunc(contents, func(content string) bool {
		return len(content) >= len(terraform.ShortRevision(waiting)) && strings.HasPrefix(waiting, content)
	}):
		return fmt.Errorf("content %s is not the one that waits, which is %s", strings.Join(contents, ", "), waiting)
	}
	return nil
}

// releasedBy is what an approval of the change of a WorkspaceTemplateApply releases. If the template cannot be read, what is not known counts as destructive.
func releasedBy(ctx context.Context, reader client.Reader, apply *infrav1.WorkspaceTemplateApply) *released {
	template := &infrav1.WorkspaceTemplate{}
	r := &released{hash: apply.Status.Change.Revision, policy: infrav1.WorkspaceTemplateRollout{Approval: infrav1.RolloutApprovalOnDestroy, NeverDestroy: []string{"None"}}}
	if reader.Get(ctx, apply.TemplateKey(), template) == nil {
		r.policy = rollout.ChangeOf(apply, template.RolloutPolicy(), r.hash).Policy
	}
	if plan := overview.PlanOf(apply); plan != nil && plan.Change != "" {
		r.plans = append(r.plans, *plan)
	}
	r.unplanned = len(r.plans) == 0 && (r.policy.IsPreviewed() || conditions.GetReason(apply, infrav1.ReadyCondition) == infrav1.PreviewingChangeReason)
	return r
}
