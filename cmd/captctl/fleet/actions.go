// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/cluster"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// actionOptions are the options of a command that changes a Cluster.
type actionOptions struct {
	*cli.Environment
	selected
	change func(o *overview.Objects, now time.Time) (change, error)
}

// change is what an action changes.
type change struct {
	objects []client.Object // None if there is nothing to change.
	patch   map[string]any  // Patch is the merge patch of each of them.
	done    string          // Done describes the result.
}

// annotate sets an annotation to the current time.
func annotate(name string, now time.Time, done string, objects ...client.Object) change {
	return change{objects, map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: now.UTC().Format(time.RFC3339Nano)}}}, done}
}

// NewPause returns captctl pause.
func NewPause(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "pause [NAMESPACE/]CLUSTER",
		Short: "Pause a Cluster: CAPT and Cluster API stop changing it",
		Long: `Sets spec.paused of the Cluster. CAPT and Cluster API do not reconcile it until captctl resume.
Terraform that runs already continues, and provider-terraform continues to repair drift.`,
		Example: "  captctl pause team-a/demo",
	}, func(o *overview.Objects, _ time.Time) (change, error) {
		return setPaused(o, true)
	})
}

// NewResume returns captctl resume.
func NewResume(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "resume [NAMESPACE/]CLUSTER",
		Short: "Resume a Cluster that is paused",
		Long: `Sets spec.paused of the Cluster to false. Objects that have the annotation
cluster.x-k8s.io/paused themselves stay paused, and are listed. Remove it to resume them.`,
		Example: "  captctl resume team-a/demo",
	}, func(o *overview.Objects, _ time.Time) (change, error) {
		return setPaused(o, false)
	})
}

// NewRetry returns captctl retry.
func NewRetry(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "retry [NAMESPACE/]CLUSTER",
		Short: "Try again after a failure or a timeout",
		Long: `Sets the annotation capt.cluster.x-k8s.io/retry of the CAPTControlPlane to the current time. The
timeouts and the recovery attempts of the control plane start again. Fix the cause first: captctl
describe shows it.`,
		Example: "  captctl retry team-a/demo",
	}, func(o *overview.Objects, now time.Time) (change, error) {
		if o.ControlPlane == nil {
			return change{}, fmt.Errorf("the Cluster %s has no CAPTControlPlane, so there is nothing to retry", o.Cluster.Name)
		}
		done := fmt.Sprintf("CAPTControlPlane %s: timeouts and recovery attempts start again", o.ControlPlane.Name)
		return annotate(naming.RetryAnnotation, now, done, o.ControlPlane), nil
	})
}

// NewReconcile returns captctl reconcile.
func NewReconcile(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "reconcile [NAMESPACE/]CLUSTER",
		Short: "Make CAPT reconcile the objects of a Cluster now",
		Long: `Sets the annotation capt.cluster.x-k8s.io/reconcile-at of the CAPTCluster, the CAPTControlPlane and
the WorkspaceTemplateApplies of a Cluster to the current time. CAPT reconciles an object whenever
something that it depends on changes, so this is only needed to skip the wait before CAPT tries
again after an error, for example if the API server rejected a Workspace. It touches no Workspaces
otherwise: Terraform runs only if CAPT finds a change that it has not written yet. To restart
timeouts and recovery attempts, use captctl retry.`,
		Example: "  captctl reconcile team-a/demo",
	}, func(o *overview.Objects, now time.Time) (change, error) {
		var objects []client.Object
		if o.CAPTCluster != nil {
			objects = append(objects, o.CAPTCluster)
		}
		if o.ControlPlane != nil {
			objects = append(objects, o.ControlPlane)
		}
		for _, apply := range o.Applies {
			objects = append(objects, apply)
		}
		if len(objects) == 0 {
			return change{}, fmt.Errorf("the Cluster %s has no objects of CAPT, so there is nothing to reconcile", o.Cluster.Name)
		}
		done := fmt.Sprintf("CAPT reconciles %s", output.Count(len(objects), "object"))
		if ptr.Deref(o.Cluster.Spec.Paused, false) || len(o.PausedByAnnotation()) > 0 {
			done += ", except those that are paused; captctl resume ends a pause"
		}
		return annotate(naming.ReconcileAnnotation, now, done, objects...), nil
	})
}

func setPaused(o *overview.Objects, paused bool) (change, error) {
	done, still := "is not paused", o.PausedByAnnotation()
	if paused {
		done = "is paused"
		if !o.Cluster.DeletionTimestamp.IsZero() {
			done += ", so its deletion does not continue before captctl resume"
		}
	}
	if len(still) > 0 && !paused {
		done += fmt.Sprintf(", but these objects are, by their annotation %s: %s", clusterv1.PausedAnnotation, strings.Join(still, ", "))
	}
	if ptr.Deref(o.Cluster.Spec.Paused, false) == paused {
		return change{done: "unchanged: " + done}, nil
	}
	return change{[]client.Object{o.Cluster}, map[string]any{"spec": map[string]any{"paused": paused}}, done}, nil
}

func newAction(environment *cli.Environment, command *cobra.Command,
	change func(*overview.Objects, time.Time) (change, error),
) *cobra.Command {
	o := &actionOptions{Environment: environment, selected: selected{cluster.Selected{Of: environment.Access}}, change: change}
	command.Args, command.ValidArgsFunction, command.RunE = cobra.ExactArgs(1), environment.Access.CompleteClusters(), cli.Run(o)
	return command
}

// Run changes the Cluster, and prints what was done.
func (o *actionOptions) Run(ctx context.Context) error {
	connected, err := o.Access.Client()
	if err != nil {
		return err
	}
	objects, err := o.objects(ctx, connected)
	if err != nil {
		return err
	}
	change, err := o.change(objects, o.Clock.Now())
	if err != nil {
		return err
	}
	data, err := json.Marshal(change.patch)
	if err != nil {
		return err
	}
	for _, object := range change.objects {
		if err := connected.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
			return err
		}
	}
	o.Printer(output.Table).Text("", output.Plain, fmt.Sprintf("Cluster %s/%s: %s", o.Namespace, o.Name, change.done))
	return nil
}
