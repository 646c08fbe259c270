// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands that show Clusters.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type getOptions struct{ cli.Options }

// NewGet returns captctl get.
func NewGet(environment *cli.Environment) *cobra.Command {
	o := &getOptions{cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "get",
		Short: "List the Clusters, their state, and what they wait for",
		Long: `Lists the Clusters of CAPT with the state, the version, the health and the progress of their control
planes. NODES has the ready and wanted nodes of all machine pools. MESSAGE is the first condition
that explains why a Cluster is not Ready: the error of Terraform, or the object that everything else
waits for. captctl describe shows the rest.

A Cluster is Degraded, and not Healthy, if its control plane is Ready and another object has a
problem: the VPC, a machine pool, or a WorkspaceTemplateApply that has the label
cluster.x-k8s.io/cluster-name, such as an add-on, or that the control plane controls. One that waits
counts after two minutes, if nothing of the Cluster provides what it waits for.

PROGRESS is an estimate between two steps, based on the duration of earlier operations.`,
		Example: `  # The whole fleet
  captctl get

  # One namespace, until interrupted
  captctl get -n team-a --watch

  # The Clusters that are not Ready, for a program
  captctl get -o json | jq '.clusters[] | select(.cause) | {namespace, name, cause}'`,
	}
	o.AddView(command)
	o.AddAllNamespaces(command)
	return cli.NewConnected(command, o)
}

func (o *getOptions) Run(ctx context.Context, reader client.WithWatch) error {
	return cli.Show(ctx, &o.Options, reader, watched(o.Only()), func(ctx context.Context) (*fleet, error) {
		return read(ctx, reader, o.Only())
	}, func(p *output.Printer, found *fleet) error {
		list := &ClusterList{TypeMeta: cli.TypeMeta("ClusterList"), Clusters: []overview.Cluster{}}
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
	namespace := o.Only()
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
			c.Namespace, c.Name, stateText(c), versionText(c), string(c.Health), c.Nodes.String(), progressText(c.Progress, now), output.Age(now, c.LastApplied), output.Age(now, &c.Created), c.Endpoint, causeText(c),
		})
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "State", Style: stateStyle}, {Name: "Version"}, {Name: "Health", Style: stateStyle, Optional: true}, {Name: "Nodes"}, {Name: "Progress"},
		{Name: "Applied", Optional: true}, {Name: "Age"}, {Name: "Endpoint", Wide: true}, {Name: "Message", Prose: 4},
	}, rows)
	p.Blank()
	p.Text("", output.Plain, output.Count(len(list.Clusters), "Cluster")+": "+countsText(counts))
}

// states in the order in which they are counted.
var states = []string{
	string(infrav1.StateFailed), string(infrav1.StateDegraded), string(infrav1.StateRecovering), string(infrav1.StatePending),
	string(infrav1.StateValidating), string(infrav1.StateProvisioning), string(infrav1.StateConfiguring),
	string(overview.StateDeleting), stateUnknown, string(infrav1.StateReady),
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
	case string(infrav1.StateReady), string(controlplanev1.HealthHealthy), string(metav1.ConditionTrue):
		return output.Good
	case string(infrav1.StateFailed), string(infrav1.StateDegraded), string(controlplanev1.HealthUnhealthy),
		string(controlplanev1.FargateProfileStateDependencyMissing):
		return output.Bad
	case string(infrav1.StateRecovering), string(overview.StateDeleting), string(metav1.ConditionFalse): // The reason has the color of a failure.
		return output.Attention
	}
	return output.Plain
}

func reasonStyle(reason string) output.Style {
	if reasons.IsProblem(reason) {
		return output.Bad
	}
	return stateStyle(reason)
}

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

// fleet has the objects of the Clusters of CAPT, sorted by namespace and name, and all WorkspaceTemplateApplies of their namespaces.
type fleet struct {
	clusters []*overview.Objects
	applies  map[client.ObjectKey]*infrav1.WorkspaceTemplateApply
}

// read returns the fleet of a namespace, or of all if it is empty.
func read(ctx context.Context, reader client.Reader, namespace string) (*fleet, error) {
	all, err := cli.ReadObjects(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	found := &fleet{applies: all.Applies}
	labeled, machinePools, captMachinePools := byCluster(all.Applies), byCluster(all.MachinePools), byCluster(all.CAPTMachinePools)
	for i := range all.Clusters {
		o := &overview.Objects{Cluster: &all.Clusters[i]}
		if !isCAPT(o.Cluster) {
			continue
		}
		key := client.ObjectKeyFromObject(o.Cluster)
		o.CAPTCluster, o.ControlPlane = all.Of(o.Cluster)
		if o.Pools, err = overview.PoolsOf(machinePools[key], captMachinePools[key], in(all.CAPTMachinePools, key.Namespace)); err != nil {
			return nil, err
		}
		if err := addApplies(o, labeled[key], in(all.Applies, key.Namespace)); err != nil {
			return nil, err
		}
		found.clusters = append(found.clusters, o)
	}
	return found, nil
}

// in returns a function that returns the object of a namespace with a name; nil if there is none.
func in[O client.Object](objects map[client.ObjectKey]O, namespace string) func(name string) (O, error) {
	return func(name string) (O, error) { return objects[client.ObjectKey{Namespace: namespace, Name: name}], nil }
}

// byCluster groups objects by the Cluster that their label names, sorted by name.
func byCluster[O client.Object](objects map[client.ObjectKey]O) map[client.ObjectKey][]O {
	groups := map[client.ObjectKey][]O{}
	for key, object := range objects {
		key.Name = object.GetLabels()[clusterv1.ClusterNameLabel]
		groups[key] = append(groups[key], object)
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b O) int { return strings.Compare(a.GetName(), b.GetName()) })
	}
	return groups
}

// addApplies adds those that the objects of a Cluster refer to, then the others with its label: those of machine pools, and add-ons.
func addApplies(o *overview.Objects, labeled []*infrav1.WorkspaceTemplateApply, get func(name string) (*infrav1.WorkspaceTemplateApply, error)) error {
	names := o.OwnApplies()
	for _, pool := range o.Pools {
		if pool.CAPTMachinePool != nil {
			names = append(names, pool.CAPTMachinePool.Spec.WorkspaceTemplateApplyRef.Name)
		}
	}
	for _, name := range names {
		i := slices.IndexFunc(labeled, func(apply *infrav1.WorkspaceTemplateApply) bool { return apply.Name == name })
		if i >= 0 {
			o.Applies = append(o.Applies, labeled[i])
			continue
		}
		apply, err := get(name)
		if err != nil {
			return err
		}
		if apply != nil {
			o.Applies = append(o.Applies, apply)
		}
	}
	for _, apply := range labeled {
		if !slices.Contains(o.Applies, apply) {
			o.Applies = append(o.Applies, apply)
		}
	}
	return addControlled(o, get)
}

// addControlled adds those that the control plane controls and that do not have the label; its status lists them.
func addControlled(o *overview.Objects, get func(name string) (*infrav1.WorkspaceTemplateApply, error)) error {
	if o.ControlPlane == nil {
		return nil
	}
	for _, d := range o.ControlPlane.Status.Dependencies {
		known := slices.ContainsFunc(o.Applies, func(apply *infrav1.WorkspaceTemplateApply) bool { return apply.Name == d.Name })
		if d.Kind != applyKind || d.Namespace != o.Cluster.Namespace || known {
			continue
		}
		apply, err := get(d.Name)
		if err != nil {
			return err
		}
		if apply != nil && metav1.IsControlledBy(apply, o.ControlPlane) {
			o.Applies = append(o.Applies, apply)
		}
	}
	return nil
}

// isCAPT reports whether the infrastructure or the control plane of a Cluster is CAPT's, or may become so: Cluster API sets both from the topology.
func isCAPT(c *clusterv1.Cluster) bool {
	return !c.Spec.InfrastructureRef.IsDefined() && !c.Spec.ControlPlaneRef.IsDefined() && c.Spec.Topology.IsDefined() ||
		c.Spec.InfrastructureRef.APIGroup == infrav1.GroupVersion.Group && c.Spec.InfrastructureRef.Kind == "CAPTCluster" ||
		c.Spec.ControlPlaneRef.APIGroup == controlplanev1.GroupVersion.Group && c.Spec.ControlPlaneRef.Kind == "CAPTControlPlane"
}

// ObjectsOf returns the Cluster that the argument names, with its objects.
func ObjectsOf(ctx context.Context, o *cli.Options, reader client.Reader) (*overview.Objects, error) {
	found, err := find(ctx, o, reader)
	if err == nil && found == nil {
		err = fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; %s", o.Name, o.Namespace, elsewhere(ctx, reader, o.Name))
	}
	return found, err
}

// find returns the Cluster that the argument names, with its objects; nil if it does not exist.
func find(ctx context.Context, options *cli.Options, reader client.Reader) (*overview.Objects, error) {
	found, err := named(ctx, reader, client.ObjectKey{Namespace: options.Namespace, Name: options.Name}, &clusterv1.Cluster{})
	if err != nil || found == nil || !isCAPT(found) {
		return nil, err
	}
	o, key := &overview.Objects{Cluster: found}, client.ObjectKey{Namespace: options.Namespace}
	if ref := found.Spec.InfrastructureRef; ref.APIGroup == infrav1.GroupVersion.Group {
		key.Name = ref.Name
		if o.CAPTCluster, err = named(ctx, reader, key, &infrav1.CAPTCluster{}); err != nil {
			return nil, err
		}
	}
	if ref := found.Spec.ControlPlaneRef; ref.APIGroup == controlplanev1.GroupVersion.Group {
		key.Name = ref.Name
		if o.ControlPlane, err = named(ctx, reader, key, &controlplanev1.CAPTControlPlane{}); err != nil {
			return nil, err
		}
	}
	return o, addLabeled(ctx, reader, o)
}

// addLabeled reads what the label of the Cluster marks as its: machine pools and WorkspaceTemplateApplies.
func addLabeled(ctx context.Context, reader client.Reader, o *overview.Objects) error {
	key := client.ObjectKeyFromObject(o.Cluster)
	own := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	pools, err := cli.ReadPools(ctx, reader, own...)
	if err != nil {
		return err
	}
	o.Pools, err = overview.PoolsOf(byCluster(pools.MachinePools)[key], byCluster(pools.CAPTMachinePools)[key], func(name string) (*infrav1.CAPTMachinePool, error) {
		return named(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: name}, &infrav1.CAPTMachinePool{})
	})
	if err != nil {
		return err
	}
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, own...); err != nil {
		return err
	}
	return addApplies(o, byCluster(cli.Indexed(applies.Items))[key], func(name string) (*infrav1.WorkspaceTemplateApply, error) {
		return named(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: name}, &infrav1.WorkspaceTemplateApply{})
	})
}

func named[O client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, object O) (none O, err error) {
	if key.Name == "" {
		return none, nil
	}
	if err := reader.Get(ctx, key, object); err != nil {
		return none, client.IgnoreNotFound(err)
	}
	return object, nil
}

// watched are the kinds that all commands of the package read, and more.
func watched(namespace string, more ...schema.GroupVersionKind) cli.Watched {
	return cli.Watched{Namespace: namespace, Kinds: append([]schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), clusterv1.GroupVersion.WithKind("MachinePool"), infrav1.GroupVersion.WithKind("CAPTMachinePool"),
	}, more...)}
}

// elsewhere says where Clusters of a name are. A user who may not list all namespaces gets no names.
func elsewhere(ctx context.Context, reader client.Reader, name string) string {
	var all clusterv1.ClusterList
	var names []string
	if reader.List(ctx, &all) == nil {
		for i := range all.Items {
			if c := &all.Items[i]; c.Name == name && isCAPT(c) {
				names = append(names, c.Namespace+"/"+c.Name)
			}
		}
	}
	if len(names) == 0 {
		return "captctl get lists all Clusters"
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}
