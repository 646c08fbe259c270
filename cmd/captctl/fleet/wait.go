// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

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
  condition=NAME    the condition of the Cluster, or else of the CAPTControlPlane, is True, or has
                    the status that follows after another "="

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
	flags.StringVar(&o.until, "for", "", "What to wait for: ready, deleted, version=VERSION or condition=NAME[=STATUS].")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait.")
	flags.BoolVar(&o.ignoreFailures, "ignore-failures", false, "Wait although the Cluster is Failed, for example because the cause is being corrected.")
	cli.CompleteFlag(command, "for", cobra.FixedCompletions([]cobra.Completion{"ready", "deleted", "version=", "condition="}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	return cli.NewConnected(command, o)
}

func (o *waitOptions) Validate() (err error) {
	if o.goal, err = overview.ParseGoal(o.until); err != nil {
		err = fmt.Errorf("--for %w", err)
	}
	if o.timeout <= 0 {
		err = errors.Join(err, errors.New("--timeout must be positive"))
	}
	return errors.Join(err, o.Options.Validate())
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
