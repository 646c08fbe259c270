// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package graph is the dependency graph of a control plane: objects, and which of them depends on which. It is pure, so that admission and
// controllers find the same cycles.
package graph

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/topo"
	"gonum.org/v1/gonum/graph/traverse"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/reasons"
)

// Key identifies an object.
type Key struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the kind, the namespace and the name.
func (k Key) String() string { return k.Kind + "/" + k.Namespace + "/" + k.Name }

func compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Node is an object with its state.
type Node struct {
	Key
	// Ready reports whether other objects can depend on the object; empty when that is not disclosed.
	Ready metav1.ConditionStatus `json:"ready,omitempty"`
	// Reason is why the object is not ready.
	Reason string `json:"reason,omitempty"`
}

// Edge is a dependency: From waits until To is ready.
type Edge struct {
	From, To Key
	// Field of From causes the dependency, and can be changed to remove it; nil if CAPT needs the dependency.
	Field *field.Path
}

// Graph has an edge from each object to those it depends on. Results depend only on the order in which nodes and edges were added.
type Graph struct {
	nodes []Node
	// ids are the indexes in nodes.
	ids map[Key]int64
	// exists are the nodes that were added, and not only named by an edge.
	exists   map[int64]bool
	directed *simple.DirectedGraph
	// loops are the edges of objects that depend on themselves, which simple.DirectedGraph does not accept.
	loops []Edge
}

// link is an edge with its field.
type link struct {
	simple.Edge
	field *field.Path
}

// New returns an empty graph.
func New() *Graph {
	return &Graph{ids: map[Key]int64{}, exists: map[int64]bool{}, directed: simple.NewDirectedGraph()}
}

// AddNode adds an object, or replaces its state.
func (g *Graph) AddNode(node Node) {
	id := g.id(node.Key)
	g.nodes[id], g.exists[id] = node, true
}

// AddEdge adds a dependency, unless the two objects have one already. An object that is not added itself is missing.
func (g *Graph) AddEdge(edge Edge) {
	from, to := g.id(edge.From), g.id(edge.To)
	switch {
	case from == to:
		g.loops = append(g.loops, edge)
	case !g.directed.HasEdgeFromTo(from, to):
		g.directed.SetEdge(link{simple.Edge{F: simple.Node(from), T: simple.Node(to)}, edge.Field})
	}
}

// AddBelow adds an object on which another one depends.
func (g *Graph) AddBelow(from Key, node Node) Node {
	g.AddNode(node)
	g.AddEdge(Edge{From: from, To: node.Key})
	return node
}

func (g *Graph) id(key Key) int64 {
	id, known := g.ids[key]
	if !known {
		id = int64(len(g.nodes))
		g.ids[key] = id
		g.nodes = append(g.nodes, Node{Key: key, Ready: metav1.ConditionFalse, Reason: NotFoundReason})
		g.directed.AddNode(simple.Node(id))
	}
	return id
}

// Nodes returns all objects, sorted. Missing ones are not ready.
func (g *Graph) Nodes() []Node {
	nodes := slices.Clone(g.nodes)
	slices.SortFunc(nodes, func(a, b Node) int { return compare(a.Key, b.Key) })
	return nodes
}

// cycles returns one cycle for each group of objects that depend on each other. The first edge of it begins where its last edge ends.
func (g *Graph) cycles() (cycles [][]Edge) {
	for _, loop := range g.loops {
		cycles = append(cycles, []Edge{loop})
	}
	var groups topo.Unorderable
	if _, err := topo.Sort(g.directed); errors.As(err, &groups) {
		for _, group := range groups { // Their members are sorted.
			cycles = append(cycles, g.CycleThrough(g.nodes[group[0].ID()].Key))
		}
	}
	slices.SortStableFunc(cycles, func(a, b []Edge) int { return cmp.Compare(g.ids[a[0].From], g.ids[b[0].From]) })
	return cycles
}

// CycleThrough returns the shortest cycle through an object, with its first edge beginning there; nil when there is none.
func (g *Graph) CycleThrough(key Key) (cycle []Edge) {
	start, known := g.ids[key]
	if !known {
		return nil
	}
	before := map[int64]int64{}
	search := traverse.BreadthFirst{Traverse: func(edge graph.Edge) bool {
		if _, visited := before[edge.To().ID()]; !visited {
			before[edge.To().ID()] = edge.From().ID()
		}
		return true
	}}
	closed := func(graph.Node, int) bool { _, closed := before[start]; return closed }
	if search.Walk(forward{g.directed}, simple.Node(start), closed); !closed(nil, 0) {
		return nil
	}
	for at := start; len(cycle) == 0 || at != start; at = before[at] {
		cycle = append(cycle, g.edge(before[at], at))
	}
	slices.Reverse(cycle)
	return cycle
}

// Upstream returns what objects depend on, directly or not, sorted.
func (g *Graph) Upstream(of ...Key) []Node { return g.reachable(forward{g.directed}, of) }

// Downstream returns what depends on objects, directly or not, sorted.
func (g *Graph) Downstream(of ...Key) []Node { return g.reachable(backward{g.directed}, of) }

func (g *Graph) reachable(along traverse.Graph, of []Key) []Node {
	var search traverse.BreadthFirst
	for _, key := range of {
		if id, known := g.ids[key]; known {
			search.Walk(along, simple.Node(id), nil)
		}
	}
	return slices.DeleteFunc(g.Nodes(), func(node Node) bool {
		return slices.Contains(of, node.Key) || !search.Visited(simple.Node(g.ids[node.Key]))
	})
}

func (g *Graph) edge(from, to int64) Edge {
	edge := Edge{From: g.nodes[from].Key, To: g.nodes[to].Key}
	if found, ok := g.directed.Edge(from, to).(link); ok {
		edge.Field = found.field
	}
	return edge
}

// Document is the form of a graph for programs. Nodes are named Kind/namespace/name; Edges lead from an object to those that it depends on.
type Document struct {
	Nodes map[string]Node     `json:"nodes"`
	Edges map[string][]string `json:"edges"`
}

// IsConsequence reports whether an object is not ready, and one of those that it depends on is not either, so that this one comes first. In a cycle, none does.
func (d Document) IsConsequence(name string) bool {
	return d.isNotReady(name) && slices.ContainsFunc(d.Edges[name], func(to string) bool { return d.isNotReady(to) && !d.waits(to, name, sets.New[string]()) })
}

func (d Document) isNotReady(name string) bool { return d.Nodes[name].Ready == metav1.ConditionFalse }

// waits reports whether an object depends on another one, also through others that are not ready.
func (d Document) waits(from, on string, seen sets.Set[string]) bool {
	return from == on || !seen.Has(from) && d.isNotReady(from) && slices.ContainsFunc(d.Edges[from], func(to string) bool { return d.waits(to, on, seen.Insert(from)) })
}

// Owns reports whether an object of a kind owns those of another one that it depends on: they are created and deleted with it.
func Owns(owner, kind string) bool {
	owned := map[string][]string{
		clusterKind: {captClusterKind, controlPlaneKind}, captClusterKind: {applyKind}, controlPlaneKind: {applyKind}, machinePoolKind: {applyKind}, applyKind: {workspaceKind},
	}
	return slices.Contains(owned[owner], kind)
}

// Document returns the nodes for which keep is true, with the edges between them.
func (g *Graph) Document(keep func(Key) bool) Document {
	form := Document{map[string]Node{}, map[string][]string{}}
	for id, node := range g.nodes {
		if !keep(node.Key) {
			continue
		}
		name := node.String()
		form.Nodes[name] = node
		for _, to := range sorted(g.directed.From(int64(id))) {
			if found := g.nodes[to.ID()].Key; keep(found) {
				form.Edges[name] = append(form.Edges[name], found.String())
			}
		}
	}
	for _, loop := range g.loops {
		if keep(loop.From) {
			form.Edges[loop.From.String()] = append(form.Edges[loop.From.String()], loop.To.String())
		}
	}
	for _, edges := range form.Edges {
		slices.Sort(edges)
	}
	return form
}

// MarshalJSON returns the Document of the whole graph.
func (g *Graph) MarshalJSON() ([]byte, error) {
	return json.Marshal(g.Document(func(Key) bool { return true }))
}

type (
	forward  struct{ *simple.DirectedGraph }
	backward struct{ *simple.DirectedGraph }
)

func (g forward) From(id int64) graph.Nodes {
	return iterator.NewOrderedNodes(sorted(g.DirectedGraph.From(id)))
}

func (g backward) From(id int64) graph.Nodes { return g.To(id) }

func (g backward) Edge(from, to int64) graph.Edge { return g.DirectedGraph.Edge(to, from) }

func sorted(nodes graph.Nodes) []graph.Node {
	list := graph.NodesOf(nodes)
	slices.SortFunc(list, func(a, b graph.Node) int { return cmp.Compare(a.ID(), b.ID()) })
	return list
}

// MaxDependencies limits the dependencies in status.
const MaxDependencies = 256

// Elsewhere replaces the names of objects in other namespaces, which the user may not be allowed to read.
const Elsewhere = "(another namespace)"

// Dependencies lists what the control plane depends on, then what depends on it or on its WorkspaceTemplateApply. Objects of other namespaces
// are one entry per kind and direction.
func (o *Objects) Dependencies() []controlplanev1.Dependency {
	g, namespace := o.Graph(), o.ControlPlane.Namespace
	self := Key{controlPlaneKind, namespace, o.ControlPlane.Name}
	name, _, _ := o.Owned()
	upstream, downstream := g.Upstream(self), g.Downstream(self, Key{applyKind, namespace, name})
	downstream = slices.DeleteFunc(downstream, func(node Node) bool { return slices.Contains(upstream, node) })
	all := append(entries(upstream, namespace, controlplanev1.DependencyUpstream), entries(downstream, namespace, controlplanev1.DependencyDownstream)...)
	return all[:min(len(all), MaxDependencies)]
}

// Broken lists what the control plane depends on and is missing or has a problem; empty if nothing is. Its own WorkspaceTemplateApply is left out, which
// it reports itself, and so are templates: those that are rendered already do not need them.
func (o *Objects) Broken() string {
	own, _, _ := o.Owned()
	broken := []string{}
	for _, d := range o.Dependencies() {
		absent := d.Reason == NotFoundReason || d.Reason == NotReadyReason
		switch {
		case d.Direction != controlplanev1.DependencyUpstream, d.Ready != metav1.ConditionFalse, !absent && !reasons.IsProblem(d.Reason):
		case d.Kind == TemplateKind, d.Kind == workspaceKind && !absent, d.Kind == applyKind && (d.Name == own || absent): // Owners report those that are missing.
		default:
			broken = append(broken, fmt.Sprintf("%s %s (%s)", d.Kind, d.Name, d.Reason))
		}
	}
	return strings.Join(broken, ", ")
}

// entries returns sorted nodes as they are shown in a namespace.
func entries(nodes []Node, namespace string, direction controlplanev1.DependencyDirection) (list []controlplanev1.Dependency) {
	for _, node := range nodes {
		if direction == controlplanev1.DependencyUpstream && node.Ready == "" {
			continue // What objects of other namespaces depend on is not disclosed.
		}
		entry := controlplanev1.Dependency{
			Kind: node.Kind, Namespace: node.Namespace, Name: node.Name, Direction: direction, Ready: node.Ready, Reason: node.Reason,
		}
		if hidden(node.Key, namespace) {
			entry.Namespace, entry.Name = "", Elsewhere
		}
		list = append(list, entry)
	}
	// Of entries that are shown alike, the one that is least ready remains.
	slices.SortStableFunc(list, func(a, b controlplanev1.Dependency) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
			cmp.Compare(readiness(a.Ready), readiness(b.Ready)), cmp.Compare(a.Reason, b.Reason))
	})
	return slices.CompactFunc(list, func(a, b controlplanev1.Dependency) bool {
		return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
	})
}

func readiness(status metav1.ConditionStatus) int {
	return slices.Index([]metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown, metav1.ConditionTrue, ""}, status)
}

// hidden reports whether an object belongs to another namespace. A Workspace of the cluster scope has none.
func hidden(key Key, namespace string) bool { return key.Namespace != "" && key.Namespace != namespace }

// Name returns the function that names objects of one namespace for Path, and hides others.
func Name(namespace string, name func(Key) string) func(Key) string {
	return func(key Key) string {
		if hidden(key, namespace) {
			return Elsewhere
		}
		return name(key)
	}
}

// Path lists the objects of a cycle. Hidden ones that follow each other are listed once.
func Path(cycle []Edge, name func(Key) string) string {
	names := []string{name(cycle[0].From)}
	for _, edge := range cycle {
		if next := name(edge.To); next != Elsewhere || names[len(names)-1] != Elsewhere {
			names = append(names, next)
		}
	}
	return strings.Join(names, " → ")
}

// Cycle describes a cycle, and which field to change; empty when there is none. blocks is true if the control plane depends on it.
func (o *Objects) Cycle() (message string, blocks bool) {
	g, namespace := o.Graph(), o.ControlPlane.Namespace
	cycles := slices.DeleteFunc(g.cycles(), func(cycle []Edge) bool { // Those of other namespaces are not disclosed.
		return !slices.ContainsFunc(cycle, func(e Edge) bool { return !hidden(e.From, namespace) })
	})
	if len(cycles) == 0 {
		return "", false
	}
	cycle, short := cycles[0], func(key Key) string { return key.Kind + " " + key.Name }
	remedy := "Ask the owner of the objects in the other namespace to remove one of these dependencies"
	if i := slices.IndexFunc(cycle, func(e Edge) bool { return e.Field != nil && !hidden(e.From, namespace) }); i >= 0 {
		remedy = fmt.Sprintf("Remove %s of %s", cycle[i].Field, short(cycle[i].From))
	}
	self := Key{controlPlaneKind, namespace, o.ControlPlane.Name}
	blocks = slices.ContainsFunc(g.Upstream(self), func(node Node) bool { return node.Key == cycle[0].From || node.Key == cycle[0].To })
	return fmt.Sprintf("objects wait for each other: %s. They are never created or updated. %s", Path(cycle, Name(namespace, short)), remedy), blocks
}

// Fleet returns the graph of control planes, and of all WorkspaceTemplateApplies, also of those that belong to no control plane. Dependencies
// between namespaces are not hidden: it is for users who may read all of these objects.
func Fleet(members []*Objects, applies []*infrav1.WorkspaceTemplateApply) *Graph {
	b := &builder{Objects: &Objects{Applies: applies}, Graph: New(), applies: applies, order: map[Key]int{}}
	for _, member := range members {
		b.add(member.Graph())
	}
	for _, apply := range applies {
		b.namespace = apply.Namespace
		b.addOwner(apply)
		b.addWaits(apply)
	}
	for _, apply := range applies { // A graph of another namespace has them without their state.
		b.AddNode(NodeOf(apply))
	}
	return b.Graph
}

// add adds the nodes and edges of another graph. A node that is known keeps its state.
func (g *Graph) add(other *Graph) {
	for id, node := range other.nodes {
		if known, ok := g.ids[node.Key]; other.exists[int64(id)] && (!ok || !g.exists[known] || g.nodes[known].Ready == "") {
			g.AddNode(node)
		}
		for _, to := range sorted(other.directed.From(int64(id))) {
			g.AddEdge(other.edge(int64(id), to.ID()))
		}
	}
	for _, loop := range other.loops {
		g.AddEdge(loop)
	}
}

// WorkspaceOf returns the key of the Workspace of a WorkspaceTemplateApply; false if it has none yet.
func WorkspaceOf(apply *infrav1.WorkspaceTemplateApply) (key Key, named bool) {
	key = Key{workspaceKind, apply.Namespace, apply.Spec.WorkspaceName}
	if ref := apply.Status.WorkspaceRef; ref != nil {
		key.Namespace = ref.Namespace
	}
	return key, apply.Spec.WorkspaceName != ""
}

// Impact is what an edit or the deletion of an object can affect.
type Impact struct {
	metav1.TypeMeta `json:",inline"`
	Root            string `json:"root"` // Root is the name of the node of the object.
	// Graph has the object and what depends on it, directly or not. Its edges lead from an object to those that depend on it.
	Graph      Document `json:"graph"`
	Clusters   []string `json:"clusters"`   // Clusters are the nodes that are Clusters, sorted.
	Workspaces []string `json:"workspaces"` // Workspaces are the nodes that are Workspaces, sorted.
}

// Kinds that are nodes of the graph of a fleet only.
const (
	ConfigMapKind             = "ConfigMap"
	ProviderConfigKind        = "ProviderConfig"
	clusterProviderConfigKind = "ClusterProviderConfig"
)

// kinds are those of objects that others can depend on. The value is true for those of which CAPT knows all objects.
func kinds() map[string]bool {
	return map[string]bool{
		clusterKind: true, captClusterKind: true, controlPlaneKind: true, machinePoolKind: true, TemplateKind: true, applyKind: true,
		workspaceKind: false, SecretKind: false, ConfigMapKind: false, ProviderConfigKind: false, clusterProviderConfigKind: false,
	}
}

// ParseKey returns the object that KIND/NAME or KIND/NAMESPACE/NAME names.
func ParseKey(text string) (Key, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 2 {
		parts = slices.Insert(parts, 1, "")
	}
	if len(parts) != 3 || parts[2] == "" {
		return Key{}, fmt.Errorf("%q: must be KIND/NAME or KIND/NAMESPACE/NAME", text)
	}
	for kind := range kinds() {
		if strings.EqualFold(kind, parts[0]) {
			return Key{kind, parts[1], parts[2]}, nil
		}
	}
	return Key{}, fmt.Errorf("no object of CAPT depends on the kind %q; use one of %s", parts[0], strings.Join(sets.List(sets.KeySet(kinds())), ", "))
}

// Find returns the node of an object. Without a namespace, it is the one in the default namespace, or one that has no namespace.
func (g *Graph) Find(key Key, namespace string) (Key, error) {
	var elsewhere []string
	for _, node := range g.Nodes() {
		switch {
		case node.Kind != key.Kind || node.Name != key.Name:
		case node.Namespace == key.Namespace, key.Namespace == "" && node.Namespace == namespace:
			return node.Key, nil
		default:
			elsewhere = append(elsewhere, node.Key.String())
		}
	}
	named := key.Kind + " " + strings.TrimPrefix(key.Namespace+"/"+key.Name, "/")
	switch {
	case len(elsewhere) > 0 && key.Namespace == "":
		return key, fmt.Errorf("there is no %s in namespace %s; did you mean %s?", named, namespace, strings.Join(elsewhere, " or "))
	case kinds()[key.Kind]:
		return key, fmt.Errorf("there is no %s, or you may not read it; kubectl get %s -A lists all", named, strings.ToLower(key.Kind))
	}
	return key, fmt.Errorf("no object of CAPT that you may read refers to %s", named)
}

// ImpactOf returns the impact of an object of the graph.
func (g *Graph) ImpactOf(root Key, applies []*infrav1.WorkspaceTemplateApply) *Impact {
	reached := sets.New(root)
	for _, node := range g.Downstream(root) {
		reached.Insert(node.Key)
	}
	written := map[string]string{} // The WorkspaceTemplateApply by its Workspace.
	for _, apply := range applies {
		workspace, named := WorkspaceOf(apply)
		if key := NodeOf(apply).Key; named && reached.Has(key) && workspace != root {
			reached.Insert(workspace)
			written[workspace.String()] = key.String()
		}
	}
	document := g.Document(reached.Has)
	i := &Impact{
		Root:  root.String(),
		Graph: Document{Nodes: document.Nodes, Edges: map[string][]string{}}, Clusters: []string{}, Workspaces: []string{},
	}
	for from, edges := range document.Edges {
		for _, to := range edges {
			if written[to] != from { // A WorkspaceTemplateApply waits for its Workspace, but a change reaches the Workspace through it.
				i.Graph.Edges[to] = append(i.Graph.Edges[to], from)
			}
		}
	}
	for workspace, apply := range written {
		i.Graph.Edges[apply] = append(i.Graph.Edges[apply], workspace)
	}
	i.clean()
	return i
}

// clean sorts, and removes Secrets on which nothing depends: each Cluster has kubeconfigs.
func (i *Impact) clean() {
	unused := sets.New[string]()
	for name, node := range i.Graph.Nodes {
		switch {
		case node.Kind == clusterKind:
			i.Clusters = append(i.Clusters, name)
		case node.Kind == workspaceKind:
			i.Workspaces = append(i.Workspaces, name)
		case node.Kind == SecretKind && len(i.Graph.Edges[name]) == 0 && name != i.Root:
			unused.Insert(name)
			delete(i.Graph.Nodes, name)
		}
	}
	for from, edges := range i.Graph.Edges {
		slices.Sort(edges)
		if i.Graph.Edges[from] = slices.DeleteFunc(slices.Compact(edges), unused.Has); len(i.Graph.Edges[from]) == 0 {
			delete(i.Graph.Edges, from)
		}
	}
	slices.Sort(i.Clusters)
	slices.Sort(i.Workspaces)
}
