// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// getOptions are the options of get.
type getOptions struct {
	cli.View
	cli.AllNamespaces
}

// NewGet returns captctl get.
func NewGet(environment *cli.Environment) *cobra.Command {
	o := &getOptions{View: cli.NewView(environment)}
	command := &cobra.Command{
		Use:   "get",
		Short: "List the Clusters, their state, and what they wait for",
		Long: `Lists the Clusters of CAPT with the state, the version, the health and the progress of their control
planes. MESSAGE is the first condition that explains why a Cluster is not Ready: the error of
Terraform, or the object that everything else waits for. captctl describe shows the rest.

PROGRESS is an estimate between two steps, based on the duration of earlier operations.`,
		Example: `  # The whole fleet
  captctl get

  # One namespace, until interrupted
  captctl get -n team-a --watch

  # The Clusters that are not Ready, for a program
  captctl get -o json | jq '.clusters[] | select(.cause) | {namespace, name, cause}'`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              cli.Run(o),
	}
	o.View.AddFlags(command)
	o.AllNamespaces.AddFlags(command)
	return command
}

// Complete has nothing to fill in.
func (o *getOptions) Complete([]string) error { return nil }

// Run reads and prints, once or until it is interrupted.
func (o *getOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	return cli.Show(ctx, &o.View, reader, watched(o.Only(o.Access)), func(ctx context.Context) (*fleet, error) {
		return read(ctx, reader, o.Only(o.Access))
	}, func(p *output.Printer, found *fleet) error {
		list := &ClusterList{TypeMeta: metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "ClusterList"}, Clusters: []overview.Cluster{}}
		for _, objects := range found.clusters {
			list.Clusters = append(list.Clusters, overview.Of(objects, o.Now()))
		}
		return p.Document(list, func(p *output.Printer) {
			if len(list.Clusters) == 0 {
				p.Text("", output.Plain, o.none(ctx, reader))
				return
			}
			showClusters(p, list, o.Clock.Now())
		})
	})
}

// none says where there are no Clusters, and that a namespace does not exist if the user may read it.
func (o *getOptions) none(ctx context.Context, reader client.Reader) string {
	namespace := o.Only(o.Access)
	switch {
	case namespace == "":
		return "There are no Clusters of CAPT. Create one as described in docs/quickstart.md, or choose another management cluster with --context."
	case apierrors.IsNotFound(reader.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})):
		return "There is no namespace " + namespace + ". captctl get -A lists the Clusters of all namespaces."
	}
	return "There are no Clusters of CAPT in namespace " + namespace + ". captctl get -A lists those of all namespaces."
}

// ClusterList lists the Clusters of CAPT, sorted by namespace and name.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	Clusters        []overview.Cluster `json:"clusters"`
}

// showClusters shows one line per Cluster, and how many are in each state.
func showClusters(p *output.Printer, list *ClusterList, now time.Time) {
	rows, counts := output.Rows{}, map[string]int{}
	for i := range list.Clusters {
		c := &list.Clusters[i]
		counts[stateText(c)]++
		rows = append(rows, []string{
			c.Namespace, c.Name, stateText(c), versionText(c), string(c.Health), progressText(c.Progress, now), since(now, c.LastApplied), since(now, &c.Created), c.Endpoint, output.OneLine(causeText(c)),
		})
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "State", Style: stateStyle}, {Name: "Version"}, {Name: "Health", Style: stateStyle, Optional: true}, {Name: "Progress"},
		{Name: "Applied", Optional: true}, {Name: "Age"}, {Name: "Endpoint", Wide: true}, {Name: "Message", Prose: 4},
	}, rows)
	p.Blank()
	p.Text("", output.Plain, output.Count(len(list.Clusters), "Cluster")+": "+countsText(counts))
}

// states in the order in which they are counted.
var states = []string{
	string(controlplanev1.StateFailed), string(controlplanev1.StateDegraded), string(controlplanev1.StateRecovering), string(controlplanev1.StatePending),
	string(controlplanev1.StateValidating), string(controlplanev1.StateProvisioning), string(controlplanev1.StateConfiguring),
	string(overview.StateDeleting), stateUnknown, string(controlplanev1.StateReady),
}

// stateUnknown is the state of a Cluster whose control plane CAPT has not reconciled, or that has none.
const stateUnknown = "Unknown"

func countsText(counts map[string]int) string {
	var parts []string
	for _, state := range states {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

func stateText(c *overview.Cluster) string { return cmp.Or(string(c.State), stateUnknown) }

// stateStyle is the style of a state of a control plane, of a result of a health check, and of a status of a condition.
func stateStyle(state string) output.Style {
	switch state {
	case string(controlplanev1.StateReady), string(controlplanev1.HealthHealthy), string(metav1.ConditionTrue):
		return output.Good
	case string(controlplanev1.StateFailed), string(controlplanev1.StateDegraded), string(controlplanev1.HealthUnhealthy):
		return output.Bad
	case string(controlplanev1.StateRecovering), string(overview.StateDeleting), string(metav1.ConditionFalse): // The reason has the color of a failure.
		return output.Attention
	}
	return output.Plain
}

// reasonStyle is the style of the reason why an object is not Ready.
func reasonStyle(reason string) output.Style {
	if infrav1.RequiresUserAction(reason) {
		return output.Bad
	}
	return stateStyle(reason)
}

// readyColumns are the columns of a table of objects.
func readyColumns(name string) []output.Column {
	return []output.Column{{Name: name}, {Name: "Ready", Style: stateStyle}, {Name: "Reason", Style: reasonStyle}}
}

// versionText is the version, and the one that it is updated to.
func versionText(c *overview.Cluster) string {
	switch {
	case c.DesiredVersion == "":
		return c.Version
	case c.Version == "":
		return c.DesiredVersion
	}
	return c.Version + "->" + c.DesiredVersion
}

// progressText is the percentage and the remaining time: "40% 12m". A percentage that is followed by "+" has taken longer than expected.
func progressText(progress *overview.Progress, now time.Time) string {
	switch {
	case progress == nil:
		return ""
	case progress.Overdue:
		return fmt.Sprintf("%d%%+", progress.PercentComplete)
	case progress.Remaining(now) > 0:
		return fmt.Sprintf("%d%% %s", progress.PercentComplete, duration.HumanDuration(progress.Remaining(now)))
	}
	return fmt.Sprintf("%d%%", progress.PercentComplete)
}

// causeText is the message of the cause, or its reason if it has none.
func causeText(c *overview.Cluster) string {
	var parts []string
	if c.Paused && (c.Cause == nil || !strings.HasPrefix(c.Cause.Message, "paused")) {
		parts = append(parts, "paused")
	}
	if c.Cause != nil {
		parts = append(parts, cmp.Or(c.Cause.Message, c.Cause.Reason))
	}
	return strings.Join(parts, ": ")
}

// since is an age as kubectl prints it; empty if the time is unknown.
func since(now time.Time, at *metav1.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(at.Time))
}
