// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package fleet has the commands that show Clusters.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agext/levenshtein"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capt-provider/capt/api/claim"
	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/reasons"
	"github.com/capt-provider/capt/api/rollout"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

type getOptions struct {
	cli.Options
	selector string
	retained bool

	selects labels.Selector
	named   []cli.Options // One for each argument.
}

// NewGet returns captctl get.
func NewGet(environment *cli.Environment) *cobra.Command {
	o := &getOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "get [[NAMESPACE/]CLUSTER...]",
		Short: "List the Clusters, their state, and what they wait for",
		Long: `Lists the Clusters of CAPT with the state, the version, the health and the progress of their control
planes. NODES has the ready and wanted nodes of all machine pools. MESSAGE is the first condition
that explains why a Cluster is not Ready: the error of Terraform, or the object that everything else
waits for. captctl describe shows the rest.

Clusters that need an action of a user are first, and are named below the table.

A Cluster is Degraded, and not Healthy, if its control plane is Ready and another object has a
problem: the VPC, a machine pool, or a WorkspaceTemplateApply that has the label
cluster.x-k8s.io/cluster-name, such as an add-on, or that the control plane controls. One that waits
counts after two minutes, if nothing of the Cluster provides what it waits for.

PROGRESS is an estimate between two steps, based on the duration of earlier operations.

--retained instead lists the Workspaces whose WorkspaceTemplateApply was deleted with
deletionPolicy: Retain, such as those of VPCs. Their cloud resources exist, and belong to no
Cluster.`,
		Example: `  # The whole fleet
  captctl get

  # One Cluster, and those with a label
  captctl get team-a/demo
  captctl get -l environment=production

  # One namespace, until interrupted
  captctl get -n team-a --watch

  # What needs an action, for a program
  captctl get -o json | jq '.clusters[] | select(.needsAction) | {namespace, name, cause}'

  # VPCs that were kept when their Cluster was deleted
  captctl get --retained`,
		Args: cobra.ArbitraryArgs,
	}
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	o.AddView(command)
	o.AddAllNamespaces(command)
	command.Flags().StringVarP(&o.selector, "selector", "l", "", "Labels of the Clusters, for example environment=production.")
	cli.CompleteFlag(command, "selector", cobra.NoFileCompletions)
	command.Flags().BoolVar(&o.retained, "retained", false, "List the Workspaces that were retained, for example those of VPCs.")
	return cli.NewConnected(command, o)
}

// Complete takes the names of Clusters.
func (o *getOptions) Complete(args []string) error {
	for _, arg := range args {
		one := o.Options
		if err := one.Complete([]string{arg}); err != nil {
			return err
		}
		o.named = append(o.named, one)
	}
	return o.Options.Complete(nil)
}

// Validate checks the names and the flags.
func (o *getOptions) Validate() (err error) {
	for i := range o.named {
		if err := o.named[i].Validate(); err != nil {
			return err
		}
	}
	if len(o.named) > 0 && (o.selector != "" || o.retained || o.All()) || o.selector != "" && o.retained {
		return errors.New("use either names of Clusters, --selector or --retained; names have their namespaces")
	}
	if o.selects, err = labels.Parse(o.selector); err != nil {
		return fmt.Errorf("--selector: %w", err)
	}
	return o.Options.Validate()
}

func (o *getOptions) Run(ctx context.Context, reader client.WithWatch) error {
	if o.retained {
		return o.showRetained(ctx, reader)
	}
	return cli.Show(ctx, &o.Options, reader, watched(o.Only()), func(ctx context.Context) (*fleet, error) {
		return o.read(ctx, reader)
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

// read returns the named Clusters, or those of the namespace that the selector selects.
func (o *getOptions) read(ctx context.Context, reader client.Reader) (*fleet, error) {
	if len(o.named) == 0 {
		found, err := read(ctx, &o.Options, reader)
		if err == nil {
			found.clusters = slices.DeleteFunc(found.clusters, func(of *overview.Objects) bool { return !o.selects.Matches(labels.Set(of.Cluster.Labels)) })
		}
		return found, err
	}
	found := &fleet{}
	for i := range o.named {
		objects, err := ObjectsOf(ctx, &o.named[i], reader)
		if err != nil {
			return nil, err
		}
		found.clusters = append(found.clusters, objects)
	}
	return found, nil
}

// none says where there are no Clusters, and that a namespace does not exist if the user may read it.
func (o *getOptions) none(ctx context.Context, reader client.Reader) string {
	namespace := o.Only()
	switch {
	case o.selector != "":
		return "No Clusters of CAPT have labels that match " + o.selector + "."
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

// showClusters shows one line per Cluster, those that need an action first, and how many are in each state.
func showClusters(p *output.Printer, list *ClusterList, now time.Time) {
	clusters := slices.Clone(list.Clusters)
	slices.SortStableFunc(clusters, func(a, b overview.Cluster) int { return rank(&a) - rank(&b) })
	rows, counts, waiting := output.Rows{}, map[string]int{}, []string(nil)
	for i := range clusters {
		c := &clusters[i]
		counts[stateText(c)]++
		if c.NeedsAction {
			waiting = append(waiting, c.Namespace+"/"+c.Name)
		}
		rows = append(rows, []string{
			c.Namespace, c.Name, stateText(c), versionText(c), string(c.Health), c.Nodes.String(), progressText(c.Progress, now), output.Age(now, c.LastApplied), output.Age(now, &c.Created), c.Region, c.VPC, c.Revision, c.Endpoint, causeText(c),
		})
	}
	byAction := output.RowsThat(func(row int) bool { return clusters[row].NeedsAction })
	soft := func(row int) output.Style {
		return map[bool]output.Style{false: output.Faint}[clusters[row].NeedsAction]
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name", RowStyle: byAction}, {Name: "State", Style: stateStyle, Whole: true}, {Name: "Version", Whole: true}, {Name: "Health", Style: stateStyle, Optional: true}, {Name: "Nodes"}, {Name: "Progress"},
		{Name: "Applied", Optional: true}, {Name: "Age"}, {Name: "Region", Wide: true}, {Name: "VPC", Wide: true}, {Name: "Revision", Wide: true}, {Name: "Endpoint", Wide: true}, {Name: "Message", Prose: 4, RowStyle: soft},
	}, rows)
	p.NeedsAction(output.Count(len(clusters), "Cluster")+": "+countsText(counts), rollout.Names(waiting))
}

// rank sorts Clusters that need an action before the others.
func rank(c *overview.Cluster) int { return map[bool]int{true: -1}[c.NeedsAction] }

// states in the order in which they are counted.
var states = []string{
	string(infrav1.StateFailed), string(infrav1.StateDegraded), string(overview.StateWaitingForApproval), string(infrav1.StateRecovering), string(infrav1.StatePending),
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
	case string(infrav1.StateRecovering), string(overview.StateDeleting), string(overview.StateWaitingForApproval), string(metav1.ConditionFalse): // The reason has the color of a failure.
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
	namespace string // Namespace is the one that was read; empty for all.
	clusters  []*overview.Objects
	applies   map[client.ObjectKey]*infrav1.WorkspaceTemplateApply
}

func read(ctx context.Context, o *cli.Options, reader client.Reader) (*fleet, error) {
	var all *cli.Objects
	found := &fleet{}
	err := o.ReadNamespaces(func(namespace string) (err error) {
		found.namespace = namespace
		all, err = cli.ReadObjects(ctx, limited{reader, o.Warn}, namespace)
		return err
	})
	if err != nil {
		return nil, err
	}
	found.applies = all.Applies
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
		strings.HasPrefix(c.Spec.InfrastructureRef.Kind, "CAPT") || strings.HasPrefix(c.Spec.ControlPlaneRef.Kind, "CAPT") // Also a wrong one of them.
}

// ObjectsOf returns the Cluster that the argument names, with its objects.
func ObjectsOf(ctx context.Context, o *cli.Options, reader client.Reader) (*overview.Objects, error) {
	found, err := find(ctx, o, reader)
	if err == nil && found == nil {
		err = missing(ctx, o, reader)
	}
	return found, err
}

// missing is the error about a Cluster that does not exist.
func missing(ctx context.Context, o *cli.Options, reader client.Reader) error {
	return fmt.Errorf("there is no Cluster %s of CAPT in namespace %s; %s", o.Name, o.Namespace, elsewhere(ctx, reader, o.Namespace, o.Name))
}

// find returns the Cluster that the argument names, with its objects; nil if it does not exist.
func find(ctx context.Context, options *cli.Options, reader client.Reader) (*overview.Objects, error) {
	reader = limited{reader, options.Warn}
	found, err := cli.Get(ctx, reader, client.ObjectKey{Namespace: options.Namespace, Name: options.Name}, &clusterv1.Cluster{})
	if err != nil || found == nil || !isCAPT(found) {
		return nil, err
	}
	o, key := &overview.Objects{Cluster: found}, client.ObjectKey{Namespace: options.Namespace}
	if ref := found.Spec.InfrastructureRef; ref.APIGroup == infrav1.GroupVersion.Group {
		key.Name = ref.Name
		if o.CAPTCluster, err = cli.Get(ctx, reader, key, &infrav1.CAPTCluster{}); err != nil {
			return nil, err
		}
	}
	if ref := found.Spec.ControlPlaneRef; ref.APIGroup == controlplanev1.GroupVersion.Group {
		key.Name = ref.Name
		if o.ControlPlane, err = cli.Get(ctx, reader, key, &controlplanev1.CAPTControlPlane{}); err != nil {
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
		return cli.Get(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: name}, &infrav1.CAPTMachinePool{})
	})
	if err != nil {
		return err
	}
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, own...); err != nil {
		return err
	}
	return addApplies(o, byCluster(cli.Indexed(applies.Items))[key], func(name string) (*infrav1.WorkspaceTemplateApply, error) {
		return cli.Get(ctx, reader, client.ObjectKey{Namespace: key.Namespace, Name: name}, &infrav1.WorkspaceTemplateApply{})
	})
}

// watched are the kinds that all commands of the package read, and more.
func watched(namespace string, more ...schema.GroupVersionKind) cli.Watched {
	return cli.Watched{Namespace: namespace, Kinds: append([]schema.GroupVersionKind{
		clusterv1.GroupVersion.WithKind("Cluster"), infrav1.GroupVersion.WithKind("CAPTCluster"), infrav1.GroupVersion.WithKind("WorkspaceTemplateApply"),
		controlplanev1.GroupVersion.WithKind("CAPTControlPlane"), clusterv1.GroupVersion.WithKind("MachinePool"), infrav1.GroupVersion.WithKind("CAPTMachinePool"),
	}, more...)}
}

// elsewhere suggests Clusters of the same name in other namespaces, or else of a similar name. A user who may not list all namespaces gets those of one.
func elsewhere(ctx context.Context, reader client.Reader, namespace, name string) string {
	var all clusterv1.ClusterList
	if reader.List(ctx, &all) != nil {
		_ = reader.List(ctx, &all, client.InNamespace(namespace)) // Without a list there is no suggestion.
	}
	byDistance := map[int][]string{}
	for i := range all.Items {
		if c := &all.Items[i]; isCAPT(c) {
			distance := levenshtein.Distance(c.Name, name, nil)
			byDistance[distance] = append(byDistance[distance], c.Namespace+"/"+c.Name)
		}
	}
	for distance := range min(mostTypos, len(name)) {
		if names := byDistance[distance]; len(names) > 0 {
			return "did you mean " + strings.Join(names[:min(len(names), mostSuggestions)], " or ") + "?"
		}
	}
	return "captctl get lists all Clusters"
}

// A suggestion has fewer typos, and there are at most so many.
const mostTypos, mostSuggestions = 3, 4

// limited reads for a user who may read objects of CAPT, and not those of Cluster API, as with the role view of Kubernetes: a Cluster is then known by
// the objects that belong to it.
type limited struct {
	client.Reader
	warn func(format string, args ...any)
}

// List lists objects. Clusters and machine pools that the user may not read are missing, which it warns about.
func (l limited) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := l.Reader.List(ctx, list, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	switch list := list.(type) {
	case *clusterv1.ClusterList:
		implied, impliedErr := l.implied(ctx, options...)
		if impliedErr != nil {
			return err
		}
		list.Items = implied
	case *clusterv1.MachinePoolList, *infrav1.CAPTMachinePoolList:
		if (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
			return err
		}
	default:
		return err
	}
	l.warn("%v: what Cluster API reports is not shown; the ClusterRole capt-tenant grants it", err)
	return nil
}

func (l limited) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := l.Reader.Get(ctx, key, object, options...)
	cluster, is := object.(*clusterv1.Cluster)
	if !is || !apierrors.IsForbidden(err) {
		return err
	}
	var list clusterv1.ClusterList
	if err := l.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}); err != nil {
		return err
	}
	i := slices.IndexFunc(list.Items, func(c clusterv1.Cluster) bool { return c.Name == key.Name })
	if i < 0 {
		return err
	}
	list.Items[i].DeepCopyInto(cluster)
	return nil
}

// implied returns the Clusters that CAPTClusters and CAPTControlPlanes belong to, with their references.
func (l limited) implied(ctx context.Context, options ...client.ListOption) (clusters []clusterv1.Cluster, err error) {
	var captClusters infrav1.CAPTClusterList
	var controlPlanes controlplanev1.CAPTControlPlaneList
	for _, list := range []client.ObjectList{&captClusters, &controlPlanes} {
		if err := l.Reader.List(ctx, list, options...); err != nil {
			return nil, err
		}
	}
	known := map[types.NamespacedName]*clusterv1.Cluster{}
	of := func(object client.Object) *clusterv1.Cluster {
		key := types.NamespacedName{Namespace: object.GetNamespace(), Name: cmp.Or(object.GetLabels()[clusterv1.ClusterNameLabel], object.GetName())}
		if known[key] == nil {
			known[key] = &clusterv1.Cluster{}
			known[key].Namespace, known[key].Name, known[key].CreationTimestamp = key.Namespace, key.Name, object.GetCreationTimestamp()
		}
		return known[key]
	}
	for i := range captClusters.Items {
		of(&captClusters.Items[i]).Spec.InfrastructureRef = claim.ReferenceTo(&captClusters.Items[i])
	}
	for i := range controlPlanes.Items {
		of(&controlPlanes.Items[i]).Spec.ControlPlaneRef = claim.ReferenceTo(&controlPlanes.Items[i])
	}
	for _, cluster := range known {
		clusters = append(clusters, *cluster)
	}
	slices.SortFunc(clusters, func(a, b clusterv1.Cluster) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return clusters, nil
}

// RetainedList lists the Workspaces that outlived their WorkspaceTemplateApply, sorted by its namespace and name.
type RetainedList struct {
	metav1.TypeMeta `json:",inline"`
	Workspaces      []Retained `json:"workspaces"`
}

// Retained is a Workspace that outlived its WorkspaceTemplateApply.
type Retained struct {
	Namespace string      `json:"namespace"`          // Namespace and Name are those that the WorkspaceTemplateApply had.
	Name      string      `json:"name"`               //
	Workspace string      `json:"workspace"`          // Workspace is its name.
	Scope     string      `json:"scope"`              // Scope of the Workspace.
	UID       string      `json:"uid"`                // UID of the Workspace.
	VPC       string      `json:"vpc,omitempty"`      // VPC is the ID of the VPC, if the module has that output.
	Endpoint  string      `json:"endpoint,omitempty"` // Endpoint is that of an EKS cluster.
	Created   metav1.Time `json:"created"`            // Created is when the Workspace was created.
	Deleting  bool        `json:"deleting,omitempty"` // Deleting is true while Terraform destroys it.
}

func (o *getOptions) showRetained(ctx context.Context, reader client.WithWatch) error {
	kinds := []schema.GroupVersionKind{infrav1.GroupVersion.WithKind(applyKind)}
	for _, scope := range terraform.Scopes() {
		kinds = append(kinds, scope.GroupVersionKind())
	}
	return cli.Show(ctx, &o.Options, reader, cli.Watched{Kinds: kinds, Namespace: o.Only()}, func(ctx context.Context) (*RetainedList, error) {
		var list *RetainedList
		err := o.ReadNamespaces(func(namespace string) (err error) {
			list, err = o.readRetained(ctx, reader, namespace)
			return err
		})
		return list, err
	}, func(p *output.Printer, list *RetainedList) error {
		return p.Document(list, func(p *output.Printer) { showRetained(p, list, o.Clock.Now()) })
	})
}

// readRetained finds the Workspaces whose claim names a WorkspaceTemplateApply that does not exist.
func (o *getOptions) readRetained(ctx context.Context, reader client.Reader, namespace string) (*RetainedList, error) {
	list, applies := &RetainedList{cli.TypeMeta("RetainedList"), []Retained{}}, infrav1.WorkspaceTemplateApplyList{}
	for _, scope := range terraform.Scopes() { // Before the WorkspaceTemplateApplies: one that is created meanwhile is not missing.
		workspaces, err := cli.ListWorkspaces(ctx, reader, scope, namespace)
		if apierrors.IsForbidden(err) && scope == terraform.ScopeCluster {
			o.Warn("Workspaces of scope Cluster are not shown: %v", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range workspaces {
			if one := retainedBy(&workspaces[i], scope); one != nil && (namespace == "" || one.Namespace == namespace) {
				list.Workspaces = append(list.Workspaces, *one)
			}
		}
	}
	if err := reader.List(ctx, &applies, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	live := cli.Indexed(applies.Items)
	list.Workspaces = slices.DeleteFunc(list.Workspaces, func(one Retained) bool {
		return live[client.ObjectKey{Namespace: one.Namespace, Name: one.Name}] != nil
	})
	slices.SortFunc(list.Workspaces, func(a, b Retained) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list, nil
}

// retainedBy describes a Workspace with a claim; nil for others.
func retainedBy(workspace *unstructured.Unstructured, scope terraform.Scope) *Retained {
	namespace, name, claimed := strings.Cut(workspace.GetAnnotations()[naming.ClaimAnnotation], "/")
	if !claimed {
		return nil
	}
	output := func(name string) string {
		text, _, _ := unstructured.NestedString(workspace.Object, "status", "atProvider", "outputs", name)
		return text
	}
	return &Retained{
		namespace, name, workspace.GetName(), string(scope), string(workspace.GetUID()), output(terraform.OutputVPCID), output(terraform.OutputClusterEndpoint),
		workspace.GetCreationTimestamp(), workspace.GetDeletionTimestamp() != nil,
	}
}

func showRetained(p *output.Printer, list *RetainedList, now time.Time) {
	if len(list.Workspaces) == 0 {
		p.Linef("No Workspaces were retained.")
		return
	}
	rows := output.Rows{}
	for i := range list.Workspaces {
		one := &list.Workspaces[i]
		rows = append(rows, []string{
			one.Namespace, one.Name, one.Workspace, one.VPC, one.Endpoint, map[bool]string{true: "yes"}[one.Deleting], output.Age(now, &one.Created), one.Scope, one.UID,
		})
	}
	p.Table([]output.Column{
		{Name: "Namespace"}, {Name: "Name"}, {Name: "Workspace"}, {Name: "VPC"}, {Name: "Endpoint", Optional: true}, {Name: "Destroying", Optional: true}, {Name: "Age"},
		{Name: "Scope", Wide: true}, {Name: "UID", Wide: true},
	}, rows)
	p.NextStep("A WorkspaceTemplateApply of the same namespace and name takes one over with the annotation "+naming.AdoptWorkspaceAnnotation+": UID (-o wide shows UIDs). To destroy the cloud resources "+
		"of one, delete its Workspace with the annotation "+naming.AllowDeleteAnnotation+`: "true". Destroy none whose WorkspaceTemplateApply is in another management cluster now: clusterctl move leaves cluster-wide Workspaces behind.`, nil)
}
