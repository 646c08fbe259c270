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
)

// actionOptions are the options of a command that changes a Cluster.
type actionOptions struct {
	*cli.Environment
	selected
	// change returns the object to change and the patch, or a nil object if there is nothing to change; done describes the result.
	change func(o *overview.Objects, now time.Time) (object client.Object, patch map[string]any, done string, err error)
}

// NewPause returns captctl pause.
func NewPause(environment *cli.Environment) *cobra.Command {
	return newAction(environment, &cobra.Command{
		Use:   "pause [NAMESPACE/]CLUSTER",
		Short: "Pause a Cluster: CAPT and Cluster API stop changing it",
		Long: `Sets spec.paused of the Cluster. CAPT and Cluster API do not reconcile it until captctl resume.
Terraform that runs already continues, and provider-terraform continues to repair drift.`,
		Example: "  captctl pause team-a/demo",
	}, func(o *overview.Objects, _ time.Time) (client.Object, map[string]any, string, error) {
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
	}, func(o *overview.Objects, _ time.Time) (client.Object, map[string]any, string, error) {
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
	}, func(o *overview.Objects, now time.Time) (client.Object, map[string]any, string, error) {
		if o.ControlPlane == nil {
			return nil, nil, "", fmt.Errorf("the Cluster %s has no CAPTControlPlane, so there is nothing to retry", o.Cluster.Name)
		}
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{naming.RetryAnnotation: now.UTC().Format(time.RFC3339Nano)}}}
		return o.ControlPlane, patch, fmt.Sprintf("CAPTControlPlane %s: timeouts and recovery attempts start again", o.ControlPlane.Name), nil
	})
}

func setPaused(o *overview.Objects, paused bool) (client.Object, map[string]any, string, error) {
	done, still := "is not paused", o.PausedByAnnotation()
	if paused {
		done = "is paused"
	}
	if len(still) > 0 && !paused {
		done += fmt.Sprintf(", but these objects are, by their annotation %s: %s", clusterv1.PausedAnnotation, strings.Join(still, ", "))
	}
	if ptr.Deref(o.Cluster.Spec.Paused, false) == paused {
		return nil, nil, "unchanged: " + done, nil
	}
	return o.Cluster, map[string]any{"spec": map[string]any{"paused": paused}}, done, nil
}

func newAction(environment *cli.Environment, command *cobra.Command,
	change func(*overview.Objects, time.Time) (client.Object, map[string]any, string, error),
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
	object, patch, done, err := o.change(objects, o.Clock.Now())
	if err != nil {
		return err
	}
	if object != nil {
		data, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		if err := connected.Patch(ctx, object, client.RawPatch(types.MergePatchType, data)); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "Cluster %s/%s: %s\n", o.Namespace, o.Name, done)
	return nil
}
