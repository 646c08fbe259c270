// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/xlab/treeprint"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/picture"
)

// Formats of captctl tree that other commands do not have.
const (
	dot     output.Format = "dot"
	mermaid output.Format = "mermaid"
	svg     output.Format = "svg"
)

// Tree is the dependency graph of a Cluster.
type Tree struct {
	metav1.TypeMeta `json:",inline"`
	Root            string         `json:"root"`  // Root is the name of the node of the Cluster.
	Graph           graph.Document `json:"graph"` // Graph has the objects that the control plane depends on, and those that depend on it.
}

type treeOptions struct {
	cli.Options
	impact string
	object graph.Key // Object is that of --impact.
}

// NewTree returns captctl tree.
func NewTree(environment *cli.Environment) *cobra.Command {
	o := &treeOptions{Options: cli.Options{Environment: environment}}
	command := &cobra.Command{
		Use:   "tree ([NAMESPACE/]CLUSTER | --impact KIND/[NAMESPACE/]NAME)",
		Short: "Show what a Cluster depends on, and what depends on it",
		Long: `Shows the dependency graph of a Cluster as a tree: below each object are those that it depends on,
with their readiness. An object whose dependencies are shown above is followed by "...". Then come
the objects that depend on the control plane, for example Fargate profiles, machine pools and
kubeconfigs. A Cluster is ready once it was initialized; captctl get shows its state.

The objects are those of status.dependencies: the Cluster, CAPT's objects, Workspaces, templates and
Secrets. Of Secrets only the names are read. A picture omits arrows that follow from others; arrows
from an owner to what it owns are solid, other dependencies are dashed. An object that is not ready
because of one below it is gray, and the cause is red.

With --impact it shows what an edit or the deletion of an object can affect, in all namespaces that
you may read: below each object are those that depend on it. What the Workspaces of these clusters
refer to is included: Secrets, ConfigMaps, ProviderConfigs and their credentials.`,
		Example: `  captctl tree team-a/demo

  # As a picture
  captctl tree team-a/demo -o svg > demo.svg
  captctl tree team-a/demo -o dot | dot -Tpng > demo.png
  captctl tree team-a/demo -o mermaid

  # Which Clusters and Workspaces does an edit of a template affect?
  captctl tree --impact WorkspaceTemplate/platform/eks
  captctl tree --impact Secret/team-a/database -o json | jq '.clusters[]'`,
		Args: func(command *cobra.Command, args []string) error {
			if o.impact != "" {
				return cobra.NoArgs(command, args)
			}
			return cobra.ExactArgs(1)(command, args)
		},
	}
	o.Takes(command, "CLUSTER", environment.Access.CompleteClusters())
	o.AddView(command, svg, dot, mermaid)
	command.Flags().StringVar(&o.impact, "impact", "", "Show what depends on this object (KIND/NAME or KIND/NAMESPACE/NAME) instead.")
	cli.CompleteFlag(command, "impact", environment.Access.CompleteImpact())
	return cli.NewConnected(command, o)
}

// Complete takes the argument. The object of --impact is in the same default namespace.
func (o *treeOptions) Complete(args []string) (err error) {
	if err := o.Options.Complete(args); o.impact == "" || err != nil {
		return err
	}
	if o.object, err = graph.ParseKey(o.impact); err != nil {
		return err
	}
	o.Namespace, _, err = o.Access.ToRawKubeConfigLoader().Namespace()
	return err
}

func (o *treeOptions) Run(ctx context.Context, reader client.WithWatch) error {
	templates := infrav1.GroupVersion.WithKind("WorkspaceTemplate")
	if o.impact != "" {
		return cli.Show(ctx, &o.Options, reader, watched("", templates), func(ctx context.Context) (*graph.Impact, error) {
			return readImpact(ctx, o, reader)
		}, showImpact)
	}
	return cli.Show(ctx, &o.Options, reader, watched(o.Namespace, templates), func(ctx context.Context) (*Tree, error) {
		found, err := ObjectsOf(ctx, &o.Options, reader)
		if err != nil {
			return nil, err
		}
		return readTree(ctx, reader, found)
	}, func(p *output.Printer, tree *Tree) error { return tree.show(p, tree, tree.text) })
}

// showImpact prints the tree of what depends on an object, and how much that is.
func showImpact(p *output.Printer, found *graph.Impact) error {
	tree := &Tree{Root: found.Root, Graph: found.Graph}
	return tree.show(p, found, func(p *output.Printer) {
		rows, consequences := tree.rows(tree.Root, sets.New[string]())
		p.Table(treeColumns("Object", consequences), rows)
		p.Blank()
		of := func(names []string, kind string) string {
			return output.Count(len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == found.Root })), kind)
		}
		p.Linef("%s and %s depend on it.", of(found.Clusters, "Cluster"), of(found.Workspaces, "Workspace"))
	})
}

func (t *Tree) show(p *output.Printer, document any, text func(*output.Printer)) error {
	drawn, err := "", error(nil)
	if p.Format == svg {
		drawn, err = picture.New(t.Graph, t.Root).SVG()
	}
	return errors.Join(err, p.Document(document, func(p *output.Printer) {
		switch p.Format {
		case svg:
			p.Linef("%s", drawn)
		case dot:
			t.dot(p)
		case mermaid:
			t.mermaid(p)
		default:
			text(p)
		}
	}))
}

// text prints the tree of the Cluster, then trees of what depends on it.
func (t *Tree) text(p *output.Printer) {
	shown := sets.New[string]()
	rows, consequences := t.rows(t.Root, shown)
	p.Table(treeColumns("Object", consequences), rows)
	var all []bool
	rows = output.Rows{}
	for _, name := range slices.DeleteFunc(slices.Sorted(maps.Keys(t.Graph.Nodes)), shown.Has) {
		if !shown.Has(name) {
			more, consequences := t.rows(name, shown)
			rows, all = append(rows, more...), append(all, consequences...)
		}
	}
	p.Section(treeColumns("Dependent", all), rows)
}

// treeColumns are the columns of a tree. What follows from another object is of less interest.
func treeColumns(name string, consequences []bool) []output.Column {
	columns := []output.Column{{Name: name}, {Name: "Ready", Style: stateStyle}, {Name: "Reason", Style: reasonStyle}}
	for i := range columns[1:] {
		columns[i+1].RowStyle = func(row int) output.Style { return map[bool]output.Style{true: output.Faint}[consequences[row]] }
	}
	return columns
}

// rows are the lines of a tree, with the state of their objects, and which of them are consequences of others.
func (t *Tree) rows(root string, shown sets.Set[string]) (rows output.Rows, consequences []bool) {
	names := []string{root}
	printed := treeprint.NewWithRoot(t.name(root))
	shown.Insert(root)
	t.branches(printed, root, shown, &names)
	for i, line := range strings.Split(strings.TrimRight(printed.String(), "\n"), "\n") {
		node := t.Graph.Nodes[names[i]]
		ready, reason := string(node.Ready), node.Reason
		if ready == "" {
			ready, reason = "Unknown", "no permission to read it"
		}
		rows, consequences = append(rows, []string{line, ready, reason}), append(consequences, t.Graph.IsConsequence(names[i]))
	}
	return rows, consequences
}

// branches adds what an object depends on, and its names in the order of the lines.
func (t *Tree) branches(to treeprint.Tree, of string, shown sets.Set[string], names *[]string) {
	for _, name := range t.Graph.Edges[of] {
		*names = append(*names, name)
		if shown.Has(name) {
			more := ""
			if len(t.Graph.Edges[name]) > 0 {
				more = " ..."
			}
			to.AddNode(t.name(name) + more)
			continue
		}
		shown.Insert(name)
		t.branches(to.AddBranch(t.name(name)), name, shown, names)
	}
}

// name is Kind/name, and Kind/namespace/name in other namespaces than that of the Cluster.
func (t *Tree) name(name string) string {
	node, root := t.Graph.Nodes[name], t.Graph.Nodes[t.Root]
	if node.Namespace == root.Namespace || node.Namespace == "" {
		return node.Kind + "/" + node.Name
	}
	return name
}

func (t *Tree) color(name string) string {
	node := t.Graph.Nodes[name]
	switch {
	case node.Ready == metav1.ConditionTrue:
		return "green"
	case node.Ready != metav1.ConditionFalse || t.Graph.IsConsequence(name):
		return "gray"
	}
	return map[string]string{"busy": "blue", "held": "orange", "bad": "red"}[picture.ClassOf(node.Reason)]
}

// owns reports whether an edge is from an owner; the others are dependencies.
func (t *Tree) owns(from, to string) bool {
	return graph.Owns(t.Graph.Nodes[from].Kind, t.Graph.Nodes[to].Kind)
}

// dot prints the graph in the language of Graphviz.
func (t *Tree) dot(p *output.Printer) {
	p.Linef("digraph {\n  node [shape=box]")
	for _, name := range slices.Sorted(maps.Keys(t.Graph.Nodes)) {
		p.Linef("  %q [label=%q color=%s]", name, t.name(name)+"\n"+t.Graph.Nodes[name].Reason, t.color(name))
		for _, to := range t.Graph.Edges[name] {
			p.Linef("  %q -> %q%s", name, to, map[bool]string{false: " [style=dashed]"}[t.owns(name, to)])
		}
	}
	p.Linef("}")
}

func (t *Tree) mermaid(p *output.Printer) {
	names := slices.Sorted(maps.Keys(t.Graph.Nodes))
	id := func(name string) string { return fmt.Sprintf("n%d", slices.Index(names, name)) }
	p.Linef("flowchart TD")
	for _, name := range names {
		p.Linef("  %s[\"%s\"]\n  style %[1]s stroke:%[3]s", id(name), t.name(name), t.color(name))
		for _, to := range t.Graph.Edges[name] {
			p.Linef("  %s %s %s", id(name), map[bool]string{true: "-->", false: "-.->"}[t.owns(name, to)], id(to))
		}
	}
}

func graphObjects(found *overview.Objects, applies []*infrav1.WorkspaceTemplateApply) *graph.Objects {
	objects := &graph.Objects{
		ControlPlane: found.ControlPlane, Cluster: found.Cluster, CAPTCluster: found.CAPTCluster, Applies: applies,
		Templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{}, Secrets: sets.New[string](),
	}
	for _, pool := range found.Pools {
		if pool.CAPTMachinePool != nil {
			objects.Pools = append(objects.Pools, pool.CAPTMachinePool)
		}
	}
	return objects
}

func newTree(g *graph.Graph, found *overview.Objects) *Tree {
	root := graph.NodeOf(found.Cluster).String()
	return &Tree{cli.TypeMeta("Tree"), root, g.Document(relatives(g, found).Has)}
}

// relatives are what the control plane depends on, and what depends on it or on its WorkspaceTemplateApply.
func relatives(g *graph.Graph, found *overview.Objects) sets.Set[graph.Key] {
	self, own := graph.NodeOf(found.ControlPlane).Key, graph.Key{
		Kind: applyKind, Namespace: found.Cluster.Namespace, Name: found.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name,
	}
	keys := sets.New(self, graph.NodeOf(found.Cluster).Key)
	dependents := g.Downstream(self, own)
	for _, node := range slices.Concat(g.Upstream(self), dependents) {
		keys.Insert(node.Key)
	}
	for _, dependent := range dependents { // Fargate profiles and node groups have Workspaces, too.
		if dependent.Kind == applyKind {
			for _, node := range g.Upstream(dependent.Key) {
				if node.Kind == terraform.WorkspaceKind {
					keys.Insert(node.Key)
				}
			}
		}
	}
	return keys
}

// reportedTree returns the graph of a Cluster with the state of templates and Secrets that its control plane reports: it reads nothing. It is nil
// without a control plane.
func (f *fleet) reportedTree(found *overview.Objects) *Tree {
	if found.ControlPlane == nil {
		return nil
	}
	reported := map[graph.Key]controlplanev1.Dependency{}
	applies := slices.Clone(found.Applies)
	for _, dependency := range found.ControlPlane.Status.Dependencies {
		reported[graph.Key{Kind: dependency.Kind, Namespace: dependency.Namespace, Name: dependency.Name}] = dependency
		apply := f.applies[client.ObjectKey{Namespace: dependency.Namespace, Name: dependency.Name}]
		if dependency.Kind == applyKind && apply != nil && !slices.Contains(applies, apply) {
			applies = append(applies, apply)
		}
	}
	g := graphObjects(found, applies).Graph()
	for _, node := range g.Nodes() {
		if node.Kind != graph.TemplateKind && node.Kind != graph.SecretKind {
			continue
		}
		state, known := reported[node.Key]
		if !known && node.Namespace != found.Cluster.Namespace {
			state = reported[graph.Key{Kind: node.Kind, Name: graph.Elsewhere}] // The one that is least ready.
		}
		g.AddNode(graph.Node{Key: node.Key, Ready: state.Ready, Reason: state.Reason})
	}
	return newTree(g, found)
}

// readTree reads what the graph of a Cluster has besides its objects: other WorkspaceTemplateApplies, and the templates and Secrets that it refers to.
func readTree(ctx context.Context, reader client.Reader, found *overview.Objects) (*Tree, error) {
	if found.ControlPlane == nil {
		return withoutControlPlane(found), nil
	}
	var applies infrav1.WorkspaceTemplateApplyList
	if err := reader.List(ctx, &applies, client.InNamespace(found.Cluster.Namespace)); err != nil {
		return nil, err
	}
	objects := graphObjects(found, nil)
	for i := range applies.Items {
		objects.Applies = append(objects.Applies, &applies.Items[i])
	}
	g := objects.Graph()
	related, labelsOf := relatives(g, found), cli.NamespaceLabels(ctx, reader)
	var states []graph.Node // States that the objects do not imply.
	for _, node := range g.Nodes() {
		if !related.Has(node.Key) {
			continue
		}
		reason, err := readNode(ctx, reader, objects, node.Key, labelsOf)
		switch {
		case apierrors.IsForbidden(err):
			states = append(states, graph.Node{Key: node.Key})
		case client.IgnoreNotFound(err) != nil:
			return nil, err
		case reason != "":
			states = append(states, graph.Node{Key: node.Key, Ready: metav1.ConditionFalse, Reason: reason})
		}
	}
	g = objects.Graph()
	for _, state := range states {
		g.AddNode(state)
	}
	return newTree(g, found), nil
}

// withoutControlPlane is the tree of a Cluster whose control plane does not exist yet, or was deleted before the VPC.
func withoutControlPlane(found *overview.Objects) *Tree {
	g, cluster := graph.New(), graph.NodeOf(found.Cluster)
	g.AddNode(cluster)
	if ref := found.Cluster.Spec.ControlPlaneRef; found.Cluster.DeletionTimestamp == nil && ref.Name != "" {
		g.AddEdge(graph.Edge{From: cluster.Key, To: graph.Key{Kind: ref.Kind, Namespace: cluster.Namespace, Name: ref.Name}})
	}
	if found.CAPTCluster != nil {
		vpc := g.AddBelow(cluster.Key, graph.NodeOf(found.CAPTCluster))
		for _, apply := range found.Applies {
			node := g.AddBelow(vpc.Key, graph.NodeOf(apply))
			if workspace, named := graph.WorkspaceOf(apply); named {
				g.AddBelow(node.Key, graph.Node{Key: workspace, Ready: node.Ready, Reason: node.Reason})
			}
		}
	}
	return &Tree{cli.TypeMeta("Tree"), cluster.String(), g.Document(func(graph.Key) bool { return true })}
}

// readNode reads a template, or the metadata of a Secret of the Cluster's namespace. It returns why a template cannot be used.
func readNode(ctx context.Context, reader client.Reader, objects *graph.Objects, of graph.Key, labelsOf func(string) (labels.Set, error)) (reason string, err error) {
	const namespaceNotAllowed = "NamespaceNotAllowed" // The reason of a template that does not allow the namespace of the Cluster, and cannot be used.
	key, namespace := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, objects.Cluster.Namespace
	switch {
	case of.Kind == graph.SecretKind && of.Namespace == namespace:
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(graph.SecretKind))
		if err = reader.Get(ctx, key, secret); err == nil {
			objects.Secrets.Insert(key.Name)
		}
	case of.Kind == graph.TemplateKind:
		template := &infrav1.WorkspaceTemplate{}
		objects.Templates[key] = nil
		if err := reader.Get(ctx, key, template); err != nil {
			return "", err
		}
		permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) { return labelsOf(namespace) })
		if err != nil || !permitted {
			return namespaceNotAllowed, err
		}
		objects.Templates[key] = template
	}
	return "", err
}

type impactReader struct {
	client.Reader
	warn func(format string, args ...any)

	graph *graph.Graph
	only  string // Only is the namespace that is read; empty for all.
	// configs are the ProviderConfigs that were read.
	configs sets.Set[graph.Key]
}

// readImpact returns the impact of the object of --impact, in all namespaces that the user may read.
func readImpact(ctx context.Context, o *treeOptions, reader client.Reader) (*graph.Impact, error) {
	r := &impactReader{Reader: limited{reader, o.Warn}, warn: o.Warn, configs: sets.New[graph.Key]()}
	all, err := cli.ReadObjects(ctx, r, "")
	if apierrors.IsForbidden(err) {
		r.warn("only namespace %s is read: %v", o.Namespace, err)
		r.only = o.Namespace
		all, err = cli.ReadObjects(ctx, r, r.only)
	}
	if err != nil {
		return nil, err
	}
	var templates infrav1.WorkspaceTemplateList
	if err := r.List(ctx, &templates, client.InNamespace(r.only)); err != nil {
		return nil, err
	}
	applies := slices.Collect(maps.Values(all.Applies))
	r.build(all, applies, templates.Items)
	for _, scope := range terraform.Scopes() {
		if err := r.addWorkspaces(ctx, scope, applies); err != nil {
			return nil, err
		}
	}
	root, err := r.graph.Find(o.object, o.Namespace)
	if err != nil {
		return nil, err
	}
	impact := r.graph.ImpactOf(root, applies)
	impact.TypeMeta = cli.TypeMeta("Impact")
	return impact, nil
}

// build builds the graph of the objects of CAPT.
func (r *impactReader) build(all *cli.Objects, applies []*infrav1.WorkspaceTemplateApply, templates []infrav1.WorkspaceTemplate) {
	known := cli.Indexed(templates)
	byNamespace := map[string][]*infrav1.WorkspaceTemplateApply{}
	for _, apply := range applies {
		byNamespace[apply.Namespace] = append(byNamespace[apply.Namespace], apply)
	}
	pools := byCluster(all.CAPTMachinePools)
	var members []*graph.Objects
	var others []*clusterv1.Cluster // They have no control plane yet, or no more.
	for i := range all.Clusters {
		c := &all.Clusters[i]
		captCluster, controlPlane := all.Of(c)
		if controlPlane == nil {
			others = append(others, c)
			continue
		}
		members = append(members, &graph.Objects{
			ControlPlane: controlPlane, Cluster: c, CAPTCluster: captCluster, Pools: pools[client.ObjectKeyFromObject(c)], Applies: byNamespace[c.Namespace],
			Templates: known, Secrets: sets.New[string](),
		})
	}
	r.graph = graph.Fleet(members, applies)
	for _, c := range others {
		if captCluster, _ := all.Of(c); captCluster != nil {
			node := graph.NodeOf(captCluster)
			r.graph.AddNode(graph.NodeOf(c))
			r.graph.AddBelow(graph.NodeOf(c).Key, node)
			if name := captCluster.Spec.WorkspaceTemplateApplyRef.Name; name != "" {
				r.graph.AddEdge(graph.Edge{From: node.Key, To: graph.Key{Kind: applyKind, Namespace: node.Namespace, Name: name}})
			}
		}
	}
	for _, template := range known {
		r.graph.AddNode(graph.NodeOf(template))
	}
	for _, node := range r.graph.Nodes() {
		if node.Kind == graph.SecretKind { // They are not read.
			r.graph.AddNode(graph.Node{Key: node.Key, Ready: metav1.ConditionUnknown})
		}
	}
}

// addWorkspaces adds what the Workspaces of a scope refer to: WorkspaceTemplateApplies depend on it.
func (r *impactReader) addWorkspaces(ctx context.Context, scope terraform.Scope, applies []*infrav1.WorkspaceTemplateApply) error {
	owners := map[graph.Key]graph.Key{}
	for _, apply := range applies {
		if key, named := graph.WorkspaceOf(apply); named {
			owners[key] = graph.NodeOf(apply).Key
		}
	}
	workspaces, err := cli.ListWorkspaces(ctx, r, scope, r.only)
	if apierrors.IsForbidden(err) {
		r.warn("what Workspaces refer to (Secrets, ConfigMaps, ProviderConfigs) is not shown: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	for i := range workspaces {
		workspace := &workspaces[i]
		owner, owned := owners[graph.Key{Kind: terraform.WorkspaceKind, Namespace: workspace.GetNamespace(), Name: workspace.GetName()}]
		if !owned {
			continue
		}
		if err := r.addReferences(owner, workspace); err != nil {
			return err
		}
		if err := r.addProviderConfig(ctx, owner, workspace); err != nil {
			return err
		}
	}
	return nil
}

// addReferences adds the Secrets and ConfigMaps that a Workspace reads.
func (r *impactReader) addReferences(owner graph.Key, workspace *unstructured.Unstructured) error {
	spec, err := render.SpecOf(workspace)
	if err != nil {
		return err
	}
	for _, ref := range spec.References(nil) {
		if !ref.Connection {
			name, _, _ := strings.Cut(ref.Object, "/")
			r.uses(owner, graph.Key{Kind: ref.Kind, Namespace: cmp.Or(*ref.Namespace, workspace.GetNamespace()), Name: name})
		}
	}
	return nil
}

func (r *impactReader) addProviderConfig(ctx context.Context, owner graph.Key, workspace *unstructured.Unstructured) error {
	kind, name, namespaced := strings.Cut(render.ProviderConfigOf(workspace), "/")
	key := graph.Key{Kind: kind, Name: name}
	switch {
	case !namespaced:
		key = graph.Key{Kind: graph.ProviderConfigKind, Name: kind}
	case kind == graph.ProviderConfigKind:
		key.Namespace = workspace.GetNamespace()
	}
	r.uses(owner, key)
	if r.configs.Has(key) {
		return nil
	}
	r.configs.Insert(key)
	config := &unstructured.Unstructured{}
	config.SetGroupVersionKind(workspace.GroupVersionKind().GroupVersion().WithKind(key.Kind))
	switch err := r.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name}, config); {
	case apierrors.IsForbidden(err):
		r.warn("Secrets with credentials of the %s %s are not shown: %v", key.Kind, key.Name, err)
	case client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err):
		return err
	}
	spec, err := terraform.ProviderConfigSpecOf(config)
	if err != nil {
		return err
	}
	for _, credentials := range spec.Credentials {
		if ref := credentials.SecretRef; ref != nil {
			r.uses(key, graph.Key{Kind: graph.SecretKind, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return nil
}

// uses adds a dependency on an object that is not read.
func (r *impactReader) uses(from, to graph.Key) {
	r.graph.AddBelow(from, graph.Node{Key: to, Ready: metav1.ConditionUnknown})
}
