// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/runs"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/terraform/failure"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// defaultTimeout of commands that wait for Terraform.
const defaultTimeout = 30 * time.Minute

type runOptions struct {
	cli.Options
	only     string
	wait     bool
	timeout  time.Duration
	clusters []client.ObjectKey
}

// NewRun returns captctl run.
func NewRun(environment *cli.Environment) *cobra.Command {
	o := &runOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "run [NAMESPACE/]CLUSTER...",
		Short: "Run Terraform now: one plan, and an apply if something differs",
		Long: `Makes provider-terraform plan each Workspace of the Clusters now, and apply it if something differs
from AWS, instead of at its next poll (10 minutes by default) or its next attempt after an error. It
also initializes the working directory again. Nothing else changes: the Workspaces keep the content
that they have, so a change that waits for an approval is not applied. captctl plan shows before
what would change.

A Workspace for which the manager writes nothing is not run, and the reason is shown: for example it
is paused, waits for a dependency, or has an interrupted create. If Terraform works on the Workspace
already, the requested run follows that one. If an attempt to destroy it in a deletion has failed,
the next attempt starts now.

It sets the annotation capt.cluster.x-k8s.io/recovery of the WorkspaceTemplateApplies, which the
manager carries out: you need the right to patch them, and to get the Workspaces to wait for the
result. The ClusterRole capt-tenant has both, except for Workspaces without a namespace. An error
that is the same as before counts as the result if it stays for two minutes, because
provider-terraform does not report that it has repeated it.

Exit codes: 0 done; 1 error, Terraform failed or did not run for a Workspace; 124 no result within
--timeout. Terraform continues after a timeout or an interrupt.`,
		Example: `  # Repair drift now, or try again after the cause of an error was removed
  captctl run team-a/demo

  # Only the VPC of two Clusters, without waiting for the result
  captctl run team-a/demo team-a/shop --only vpc --wait=false

  # What happened, for a program
  captctl run team-a/demo -o json | jq '.runs[] | select(.result != "NothingToChange")'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: environment.Access.CompleteClusters(),
	}
	flags := command.Flags()
	flags.StringVar(&o.only, "only", "", "Run only what has this role in the Cluster (vpc, controlplane, fargate, machinepool or addon), or the WorkspaceTemplateApply of this name.")
	flags.BoolVar(&o.wait, "wait", true, "Wait for the result.")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait for the result.")
	var roles []cobra.Completion
	for _, role := range overview.Roles() {
		roles = append(roles, string(role))
	}
	cli.CompleteFlag(command, "only", cobra.FixedCompletions(roles, cobra.ShellCompDirectiveNoFileComp))
	o.AddOutput(command)
	return cli.NewConnected(command, o)
}

func (o *runOptions) Complete(args []string) (err error) {
	o.clusters, err = o.Keys(args)
	return err
}

func (o *runOptions) Validate() error {
	return cmp.Or(cli.When(o.timeout <= 0, "--timeout must be positive"), o.Options.Validate())
}

// TerraformRuns are runs of Terraform that were requested.
type TerraformRuns struct {
	metav1.TypeMeta `json:",inline"`
	Runs            []TerraformRun `json:"runs"`
}

// TerraformRun is a requested run of one Workspace.
type TerraformRun struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	Name      string `json:"name"` // Name of the WorkspaceTemplateApply.
	// Result is NothingToChange, Applied, Failed or NotStarted. Without a result, it is Requested until the manager has forwarded the request, and then Running.
	Result  runs.Result `json:"result"`
	Message string      `json:"message,omitempty"` // Message is the error, or why Terraform did not run.

	apply *infrav1.WorkspaceTemplateApply
	run   runs.Run
}

func (o *runOptions) Run(ctx context.Context, connected client.WithWatch) error {
	list := &TerraformRuns{TypeMeta: cli.TypeMeta("TerraformRuns"), Runs: []TerraformRun{}}
	for _, key := range o.clusters {
		o.Namespace, o.Name = key.Namespace, key.Name
		objects, err := ObjectsOf(ctx, &o.Options, connected)
		if err != nil {
			return err
		}
		if err := o.add(list, objects); err != nil {
			return err
		}
	}
	for i := range list.Runs {
		if err := o.request(ctx, connected, &list.Runs[i]); err != nil {
			return err
		}
	}
	if o.wait {
		if err := o.await(ctx, connected, list); err != nil {
			return err
		}
	}
	if err := o.Printer().Document(list, list.show); err != nil {
		return err
	}
	return o.outcome(list)
}

// add adds the Workspaces of a Cluster that are to be run.
func (o *runOptions) add(list *TerraformRuns, objects *overview.Objects) error {
	found := false
	for _, apply := range objects.Applies {
		if o.only != "" && apply.Name != o.only && string(objects.RoleOf(apply)) != o.only {
			continue
		}
		found = true
		one := TerraformRun{Namespace: apply.Namespace, Cluster: objects.Cluster.Name, Name: apply.Name, Result: runs.Requested, Message: runs.Refused(apply), apply: apply}
		if ptr.Deref(objects.Cluster.Spec.Paused, false) { // The manager may not have reported it yet, or report at length that clusterctl move would wait.
			one.Message = "the Cluster is paused: captctl resume ends that"
		}
		if one.Message != "" {
			one.Result = runs.NotStarted
		}
		list.Runs = append(list.Runs, one)
	}
	switch {
	case found:
		return nil
	case o.only != "":
		var names []string
		for _, apply := range objects.Applies {
			names = append(names, apply.Name)
		}
		return fmt.Errorf("the Cluster %s has no WorkspaceTemplateApply with the role or the name %s: --only must be one of %v, or one of %s", objects.Cluster.Name, o.only, overview.Roles(), strings.Join(names, ", "))
	}
	return fmt.Errorf("the Cluster %s has no WorkspaceTemplateApply yet, so there is nothing to run; captctl describe shows why", objects.Cluster.Name)
}

func (o *runOptions) request(ctx context.Context, connected client.WithWatch, one *TerraformRun) error {
	if one.Result.IsFinal() {
		return nil
	}
	if o.wait {
		_, workspace, err := WorkspaceOf(ctx, connected, one.apply)
		switch {
		case apierrors.IsForbidden(err):
			return fmt.Errorf("%w; you can request the run with --wait=false", err)
		case err != nil:
			return err
		}
		one.run.Before = workspace.Failure()
	}
	one.run.Destroys = !one.apply.DeletionTimestamp.IsZero()
	one.run.Request = runs.Request(runs.Action, one.apply.Status.WorkspaceRef.UID, o.Clock.Now())
	return connected.Patch(ctx, one.apply, cli.MergePatch{"metadata": map[string]any{
		"uid": one.apply.UID, "annotations": map[string]string{naming.RecoveryAnnotation: one.run.Request},
	}})
}

// await waits until all results are known, or the time is over.
func (o *runOptions) await(ctx context.Context, connected client.WithWatch, list *TerraformRuns) error {
	waiting, stop := context.WithTimeout(ctx, o.timeout)
	defer stop()
	progress, done := o.Progress(), 0
	defer progress.Stop()
	progress.Phase("Running Terraform", len(list.Runs))
	watched := cli.Watched{Namespace: o.clusters[0].Namespace}
	if slices.ContainsFunc(o.clusters, func(key client.ObjectKey) bool { return key.Namespace != watched.Namespace }) {
		watched.Namespace = ""
	}
	watched.Kinds = append(watched.Kinds, infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"))
	for _, scope := range terraform.Scopes() {
		if slices.ContainsFunc(list.Runs, func(one TerraformRun) bool { of, _ := one.apply.Status.WorkspaceRef.Scope(); return of == scope }) {
			watched.Kinds = append(watched.Kinds, scope.GroupVersionKind())
		}
	}
	err := o.Follow(waiting, connected, watched, func(ctx context.Context) (bool, error) {
		finished := 0
		for i := range list.Runs {
			if err := list.Runs[i].observe(ctx, connected, o.Clock.Now()); err != nil {
				return false, err
			}
			if list.Runs[i].Result.IsFinal() {
				finished++
			}
		}
		progress.Add(finished - done)
		done = finished
		return finished == len(list.Runs), nil
	})
	return errors.Join(err, ctx.Err())
}

// observe reads how a run stands.
func (r *TerraformRun) observe(ctx context.Context, reader client.Reader, now time.Time) error {
	if r.Result.IsFinal() {
		return nil
	}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(r.apply), r.apply); err != nil {
		if !apierrors.IsNotFound(err) {
			return err
		}
		if r.Result, r.Message = runs.NotStarted, "it was deleted"; r.run.Destroys {
			r.Result, r.Message = r.run.Observe(r.apply, nil, now)
		}
		return nil
	}
	_, workspace, err := WorkspaceOf(ctx, reader, r.apply)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	result, message := r.run.Observe(r.apply, workspace, now)
	switch {
	case result == runs.Failed:
		failed, secrets, err := failureOf(ctx, reader, r.apply)
		if err != nil {
			return err
		}
		message = failure.Explain(failed.Message, secrets, failure.Command(r.apply)).Message
	case result.IsFinal() && message == "" && r.apply.Status.Change.Revision != "":
		message = "the change of spec that waits for an approval was not applied"
	}
	r.Result, r.Message = result, message
	return nil
}

// outcome is the exit code.
func (o *runOptions) outcome(list *TerraformRuns) error {
	counts, total := map[runs.Result]int{}, output.Count(len(list.Runs), "Workspace")
	for i := range list.Runs {
		counts[list.Runs[i].Result]++
	}
	switch pending := counts[runs.Requested] + counts[runs.Running]; {
	case counts[runs.Failed] > 0:
		return fmt.Errorf("the run of Terraform failed for %d of %s; captctl logs shows the whole error", counts[runs.Failed], total)
	case o.wait && counts[runs.Requested] > 0:
		return migrate.TimedOut.Errorf("the manager has not forwarded the request for %d of %s within %s. Check that it runs, in this version, and watches the namespace: captctl check", counts[runs.Requested], total, o.timeout)
	case o.wait && pending > 0:
		return migrate.TimedOut.Errorf("%d of %s had no result within %s. Terraform continues; provider-terraform may be busy with other Workspaces", pending, total, o.timeout)
	case counts[runs.NotStarted] > 0:
		return fmt.Errorf("no run of Terraform started for %d of %s, see above", counts[runs.NotStarted], total)
	}
	return nil
}

func (l *TerraformRuns) show(p *output.Printer) {
	rows := output.Rows{}
	for i := range l.Runs {
		one := &l.Runs[i]
		rows = append(rows, []string{one.Namespace, one.Cluster, one.Name, string(one.Result), one.Message})
	}
	p.Table([]output.Column{{Name: "Namespace"}, {Name: "Cluster"}, {Name: "WorkspaceTemplateApply"}, {Name: "Result", Style: runStyle}, {Name: "Message", Prose: 4}}, rows)
}

func runStyle(result string) output.Style {
	return map[string]output.Style{
		string(runs.Failed): output.Bad, string(runs.NotStarted): output.Attention, string(runs.Applied): output.Good, string(runs.NothingToChange): output.Good,
	}[result]
}

type waitOptions struct {
	cli.Options
	until          string
	goal           overview.Goal
	timeout        time.Duration
	ignoreFailures bool
	existed        bool   // The Cluster was there once.
	last           string // The last line that was shown.
}

// NewWait returns captctl wait.
func NewWait(environment *cli.Environment) *cobra.Command {
	o := &waitOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "wait [NAMESPACE/]CLUSTER --for GOAL",
		Short: "Wait until a Cluster is ready, deleted, or has a version",
		Long: `Waits until a Cluster has a state, and shows its progress on standard error.

  ready             the control plane is Ready, and so are all other objects of the Cluster
  deleted           the Cluster does not exist, which need not have been deleted yet
  version=VERSION   the control plane is Ready, and Terraform has applied this minor version

A status that is older than the spec does not count. If the Cluster is Failed and a user must act,
the command ends at once, with the cause and the next step: nothing would happen until --timeout.

Exit codes: 0 reached; 1 error, the Cluster is Failed, or it does not exist (except with
--for deleted); 124 not reached within --timeout.`,
		Example: `  # Create a Cluster, and wait for it
  kubectl apply -f demo.yaml
  captctl wait team-a/demo --for ready --timeout 45m

  # After a new version was set
  captctl wait team-a/demo --for version=v1.34.0

  # Delete it
  kubectl delete cluster -n team-a demo --wait=false
  captctl wait team-a/demo --for deleted`,
	}
	flags := command.Flags()
	flags.StringVar(&o.until, "for", "", "What to wait for: ready, deleted or version=VERSION.")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait.")
	flags.BoolVar(&o.ignoreFailures, "ignore-failures", false, "Wait although the Cluster is Failed, for example because the cause is being corrected.")
	cli.CompleteFlag(command, "for", cobra.FixedCompletions([]cobra.Completion{"ready", "deleted", "version="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	return cli.NewConnected(command, o)
}

func (o *waitOptions) Validate() (err error) {
	if o.goal, err = overview.ParseGoal(o.until); err != nil {
		err = fmt.Errorf("--for %w", err)
	}
	return errors.Join(err, cli.When(o.timeout <= 0, "--timeout must be positive"), o.Options.Validate())
}

func (o *waitOptions) Run(ctx context.Context, connected client.WithWatch) error {
	waiting, stop := context.WithTimeout(ctx, o.timeout)
	defer stop()
	var failed error
	reached := func(ctx context.Context) (bool, error) {
		objects, err := find(ctx, &o.Options, connected)
		if err != nil {
			return false, err
		}
		var met bool
		met, failed = o.check(ctx, connected, objects)
		return met || failed != nil, nil
	}
	done, err := reached(waiting) // The first error is not retried: it may be a missing right.
	if err == nil && !done {
		err = o.Follow(waiting, connected, watched(o.Namespace), func(ctx context.Context) (end bool, err error) {
			done, err = reached(ctx)
			return done, err
		})
	}
	switch {
	case err != nil, failed != nil, ctx.Err() != nil:
		return errors.Join(err, failed, ctx.Err())
	case !done:
		return migrate.TimedOut.Errorf("Cluster %s/%s: not %s within %s. %s", o.Namespace, o.Name, o.until, o.timeout, o.last)
	}
	o.Printer().Text("", output.Plain, fmt.Sprintf("Cluster %s/%s: %s", o.Namespace, o.Name, o.until))
	return nil
}

// check reports whether the goal is reached, and shows how far it is; the error is why it will not be reached.
func (o *waitOptions) check(ctx context.Context, reader client.Reader, objects *overview.Objects) (bool, error) {
	switch {
	case objects == nil && o.goal.IsDeletion():
		return true, nil
	case objects == nil && o.existed:
		return false, fmt.Errorf("the Cluster %s/%s was deleted", o.Namespace, o.Name)
	case objects == nil:
		return false, missing(ctx, &o.Options, reader)
	}
	o.existed = true
	cluster := overview.Of(objects, o.Now())
	if o.goal.IsReached(objects, &cluster) {
		return true, nil
	}
	o.show(&cluster)
	if o.ignoreFailures || o.goal.IsDeletion() || !cluster.NeedsUser(objects) {
		return false, nil
	}
	objects.Failure = failureOfCause(ctx, reader, objects, o.Now())
	cluster = overview.Of(objects, o.Now())
	if !cluster.NeedsUser(objects) { // The error of Terraform is transient.
		return false, nil
	}
	cause := cluster.Cause
	failed := &cli.ListError{
		Title: fmt.Sprintf("Cluster %s/%s is Failed, and continues only when a user acts", o.Namespace, o.Name),
		Items: []string{fmt.Sprintf("%s %s: %s: %s", cause.Kind, cause.Name, cause.Reason, output.OneLine(cause.Message))},
		Next:  "captctl describe shows more; --ignore-failures continues to wait.",
	}
	if next := overview.NextStep(objects, &cluster, o.Clock.Now()); next != nil {
		failed.Items = append(append(failed.Items, next.Step), next.Commands...)
	}
	return false, failed
}

// show prints a line on standard error when it differs from the last one.
func (o *waitOptions) show(cluster *overview.Cluster) {
	line := "It is " + stateText(cluster)
	if cluster.Progress != nil {
		line += ", " + progressDetails(cluster.Progress, o.Clock.Now())
	}
	if cause := causeText(cluster); cause != "" {
		line += ": " + output.OneLine(cause)
	}
	if line != o.last {
		o.last = line
		output.NewPrinter(o.ErrOut, output.Table, o.NoColor).Text("", output.Plain, line)
	}
}
