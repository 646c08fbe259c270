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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	"github.com/capt-provider/capt/api/graph"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/overview"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/cmd/captctl/cli"
	"github.com/capt-provider/capt/cmd/captctl/impact"
	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/picture"
	"github.com/capt-provider/capt/migrate"
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

// treeOptions are the options of tree.
type treeOptions struct {
	cli.View
	selected
	impact string
	object impact.Object // Object is that of --impact.
}

// NewTree returns captctl tree.
func NewTree(environment *cli.Environment) *cobra.Command {
	o := &treeOptions{View: cli.NewView(environment, svg, dot, mermaid), selected: selected{cli.Selected{Of: environment.Access}}}
	command := &cobra.Command{
		Use:   "tree ([NAMESPACE/]CLUSTER | --impact KIND/[NAMESPACE/]NAME)",
		Short: "Show what a Cluster depends on, and what depends on it",
		Long: `Shows the dependency graph of a Cluster as a tree: below each object are those that it depends on,
with their readiness. An object whose dependencies are shown above is followed by "...". Then come
the objects that depend on the control plane, for example Fargate profiles and kubeconfigs.

The objects are those of status.dependencies: the Cluster, CAPT's objects, Workspaces, templates and
Secrets. Of Secrets only the names are read. A picture omits arrows that follow from others.

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
		ValidArgsFunction: environment.Access.CompleteClusters(),
		RunE:              cli.Run(o),
	}
	o.AddFlags(command)
	command.Flags().StringVar(&o.impact, "impact", "", "Show what depends on this object (KIND/NAME or KIND/NAMESPACE/NAME) instead.")
	cli.CompleteFlag(command, "impact", environment.Access.CompleteImpact())
	return command
}

// Complete takes the argument. The object of --impact is in the same default namespace.
func (o *treeOptions) Complete(args []string) (err error) {
	if o.impact == "" {
		return o.selected.Complete(args)
	}
	if o.object, err = impact.Parse(o.impact); err != nil {
		return err
	}
	o.Namespace, _, err = o.Access.ToRawKubeConfigLoader().Namespace()
	return err
}

// Validate checks the argument and the flags.
func (o *treeOptions) Validate() error {
	if o.impact != "" {
		return o.View.Validate()
	}
	return errors.Join(o.selected.Validate(), o.View.Validate())
}

// Run reads and prints, once or until it is interrupted.
func (o *treeOptions) Run(ctx context.Context) error {
	reader, err := o.Access.Client()
	if err != nil {
		return err
	}
	templates := infrav1.GroupVersion.WithKind("WorkspaceTemplate")
	if o.impact != "" {
		all := &impact.Reader{Reader: reader, Namespace: o.Namespace, Warnings: o.ErrOut}
		return cli.Show(ctx, &o.View, reader, watched("", templates), func(ctx context.Context) (*impact.Impact, error) {
			return all.Read(ctx, o.object)
		}, showImpact)
	}
	read := func(ctx context.Context) (*Tree, error) {
		found, err := o.objects(ctx, reader)
		if err != nil {
			return nil, err
		}
		return readTree(ctx, reader, found)
	}
	return cli.Show(ctx, &o.View, reader, watched(o.Namespace, templates), read, func(p *output.Printer, tree *Tree) error {
		return tree.show(p, tree, tree.text)
	})
}

// showImpact prints the tree of what depends on an object, and how much that is.
func showImpact(p *output.Printer, found *impact.Impact) error {
	tree := &Tree{Root: found.Root, Graph: found.Graph}
	return tree.show(p, found, func(p *output.Printer) {
		p.Table(readyColumns("Object"), tree.rows(tree.Root, sets.New[string]()))
		p.Blank()
		of := func(names []string, kind string) string {
			return output.Count(len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == found.Root })), kind)
		}
		p.Linef("%s and %s depend on it.", of(found.Clusters, "Cluster"), of(found.Workspaces, "Workspace"))
	})
}

// show prints a document in the format of the user.
func (t *Tree) show(p *output.Printer, document any, text func(*output.Printer)) error {
	drawn, err := t.picture(p.Format)
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

// picture is the graph as SVG; empty for other formats.
func (t *Tree) picture(format output.Format) (string, error) {
	if format != svg {
		return "", nil
	}
	return picture.New(t.Graph, t.Root).SVG()
}

// text prints the tree of the Cluster, then trees of what depends on it.
func (t *Tree) text(p *output.Printer) {
	shown := sets.New[string]()
	p.Table(readyColumns("Object"), t.rows(t.Root, shown))
	rows := output.Rows{}
	for _, name := range slices.DeleteFunc(slices.Sorted(maps.Keys(t.Graph.Nodes)), shown.Has) {
		if !shown.Has(name) {
			rows = append(rows, t.rows(name, shown)...)
		}
	}
	section(p, readyColumns("Dependent"), rows)
}

// rows are the lines of a tree, with the state of their objects.
func (t *Tree) rows(root string, shown sets.Set[string]) (rows output.Rows) {
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
		rows = append(rows, []string{line, ready, reason})
	}
	return rows
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

// color is that of an object in a picture.
func (t *Tree) color(name string) string {
	colors := map[metav1.ConditionStatus]string{metav1.ConditionTrue: "green", metav1.ConditionFalse: "red"}
	return cmp.Or(colors[t.Graph.Nodes[name].Ready], "gray")
}

// dot prints the graph in the language of Graphviz.
func (t *Tree) dot(p *output.Printer) {
	p.Linef("digraph {\n  node [shape=box]")
	for _, name := range slices.Sorted(maps.Keys(t.Graph.Nodes)) {
		p.Linef("  %q [label=%q color=%s]", name, t.name(name)+"\n"+t.Graph.Nodes[name].Reason, t.color(name))
		for _, to := range t.Graph.Edges[name] {
			p.Linef("  %q -> %q", name, to)
		}
	}
	p.Linef("}")
}

// mermaid prints the graph for Markdown.
func (t *Tree) mermaid(p *output.Printer) {
	names := slices.Sorted(maps.Keys(t.Graph.Nodes))
	id := func(name string) string { return fmt.Sprintf("n%d", slices.Index(names, name)) }
	p.Linef("flowchart TD")
	for _, name := range names {
		p.Linef("  %s[\"%s\"]\n  style %[1]s stroke:%[3]s", id(name), t.name(name), t.color(name))
		for _, to := range t.Graph.Edges[name] {
			p.Linef("  %s --> %s", id(name), id(to))
		}
	}
}

// namespaceNotAllowed is the reason of a template that does not allow the namespace of the Cluster, and cannot be used.
const namespaceNotAllowed = "NamespaceNotAllowed"

var errNotAllowed = errors.New(namespaceNotAllowed)

func graphObjects(found *overview.Objects, applies []*infrav1.WorkspaceTemplateApply) *graph.Objects {
	return &graph.Objects{
		ControlPlane: found.ControlPlane, Cluster: found.Cluster, CAPTCluster: found.CAPTCluster, Applies: applies,
		Templates: map[types.NamespacedName]*infrav1.WorkspaceTemplate{}, Secrets: sets.New[string](),
	}
}

// newTree returns the part of a graph that belongs to a Cluster.
func newTree(g *graph.Graph, found *overview.Objects) *Tree {
	root := graph.NodeOf(found.Cluster).String()
	return &Tree{metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Tree"}, root, g.Document(relatives(g, found).Has)}
}

// relatives are what the control plane depends on, and what depends on it or on its WorkspaceTemplateApply.
func relatives(g *graph.Graph, found *overview.Objects) sets.Set[graph.Key] {
	self, own := graph.NodeOf(found.ControlPlane).Key, graph.Key{
		Kind: "WorkspaceTemplateApply", Namespace: found.Cluster.Namespace, Name: found.ControlPlane.Spec.WorkspaceTemplateApplyRef.Name,
	}
	keys := sets.New(self, graph.NodeOf(found.Cluster).Key)
	for _, node := range slices.Concat(g.Upstream(self), g.Downstream(self, own)) {
		keys.Insert(node.Key)
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
		if dependency.Kind == "WorkspaceTemplateApply" && apply != nil && !slices.Contains(applies, apply) {
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
	related := relatives(g, found)
	var states []graph.Node // States that the objects do not imply.
	for _, node := range g.Nodes() {
		if !related.Has(node.Key) {
			continue
		}
		switch err := readNode(ctx, reader, objects, node.Key); {
		case apierrors.IsForbidden(err):
			states = append(states, graph.Node{Key: node.Key})
		case errors.Is(err, errNotAllowed):
			states = append(states, graph.Node{Key: node.Key, Ready: metav1.ConditionFalse, Reason: namespaceNotAllowed})
		case client.IgnoreNotFound(err) != nil:
			return nil, err
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
		vpc := graph.NodeOf(found.CAPTCluster)
		g.AddNode(vpc)
		g.AddEdge(graph.Edge{From: cluster.Key, To: vpc.Key})
		for _, apply := range found.Applies {
			node := graph.NodeOf(apply)
			g.AddNode(node)
			g.AddEdge(graph.Edge{From: vpc.Key, To: node.Key})
			if apply.Spec.WorkspaceName != "" {
				workspace := node
				workspace.Key = graph.Key{Kind: "Workspace", Namespace: apply.Namespace, Name: apply.Spec.WorkspaceName}
				g.AddNode(workspace)
				g.AddEdge(graph.Edge{From: node.Key, To: workspace.Key})
			}
		}
	}
	return &Tree{metav1.TypeMeta{APIVersion: migrate.APIVersion, Kind: "Tree"}, cluster.String(), g.Document(func(graph.Key) bool { return true })}
}

// readNode reads a template, or the metadata of a Secret of the Cluster's namespace.
func readNode(ctx context.Context, reader client.Reader, objects *graph.Objects, of graph.Key) error {
	key, namespace := types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, objects.Cluster.Namespace
	switch {
	case of.Kind == graph.SecretKind && of.Namespace == namespace:
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(graph.SecretKind))
		err := reader.Get(ctx, key, secret)
		if err == nil {
			objects.Secrets.Insert(key.Name)
		}
		return err
	case of.Kind == graph.TemplateKind:
		template := &infrav1.WorkspaceTemplate{}
		objects.Templates[key] = nil
		if err := reader.Get(ctx, key, template); err != nil {
			return err
		}
		permitted, err := validation.PermitsNamespace(template, namespace, func() (labels.Set, error) {
			home := &corev1.Namespace{}
			err := reader.Get(ctx, client.ObjectKey{Name: namespace}, home)
			return home.Labels, err
		})
		switch {
		case err != nil:
			return err
		case !permitted:
			return errNotAllowed
		}
		objects.Templates[key] = template
	}
	return nil
}
