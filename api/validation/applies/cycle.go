// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package applies

import (
	"context"
	"slices"
	"strings"

	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gonum.org/v1/gonum/graph/simple"
	"gonum.org/v1/gonum/graph/traverse"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// maxWaiters is the maximum number of WorkspaceTemplateApplies that the search for a cycle visits. Real chains have two or three. A longer
// cycle is admitted, but causes no damage: its objects report that they wait for each other, and nothing is created.
const maxWaiters = 500

// validateDependencies checks spec.waitForWorkspaces: a WorkspaceTemplateApply must not depend on itself, neither directly nor through
// others.
func validateDependencies(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, template *infrav1.WorkspaceTemplate) (field.ErrorList, error) {
	path := field.NewPath("spec", "waitForWorkspaces")
	name := WorkspaceName(apply, template)
	if name == "" && apply.Name != "" {
		name = naming.Workspace(terraform.ScopeNamespaced, validation.KeyOf(apply)) // The template is unknown: most templates are namespaced.
	}
	if name == "" || len(apply.Spec.WaitForWorkspaces) == 0 {
		return nil, nil
	}
	var errs field.ErrorList
	for i, dependency := range apply.Spec.WaitForWorkspaces {
		if dependency.Name == name && namespaceOf(dependency, apply) == apply.Namespace {
			errs = append(errs, validation.Invalid(path.Index(i), "Workspace %s cannot depend on itself. Remove it from the list", name))
		}
	}
	cycle, err := cycleThrough(ctx, reader, apply, name)
	if err != nil || cycle == nil {
		return errs, err
	}
	first := slices.IndexFunc(apply.Spec.WaitForWorkspaces, func(dependency infrav1.WorkspaceDependency) bool {
		return dependency.Name == cycle[1].Spec.WorkspaceName && namespaceOf(dependency, apply) == cycle[1].Namespace
	})
	return append(errs, validation.Invalid(path.Index(first), "WorkspaceTemplateApplies cannot depend on each other: %s. Remove one of these dependencies",
		cycleText(cycle, apply.Namespace))), nil
}

// namespaceOf returns the namespace of a dependency. The default is the namespace of the object that waits.
func namespaceOf(dependency infrav1.WorkspaceDependency, apply *infrav1.WorkspaceTemplateApply) string {
	if dependency.Namespace == "" {
		return apply.Namespace
	}
	return dependency.Namespace
}

// cycleText returns the names of the objects of a cycle, in order. Names in other namespaces are omitted: the user may not be allowed to
// read them.
func cycleText(cycle []*infrav1.WorkspaceTemplateApply, namespace string) string {
	const elsewhere = "(another namespace)"
	var names []string
	for _, apply := range cycle {
		name := apply.Name
		if apply.Namespace != namespace {
			name = elsewhere
		}
		if name != elsewhere || names[len(names)-1] != elsewhere {
			names = append(names, name)
		}
	}
	return strings.Join(names, " → ")
}

// cycleThrough returns the shortest cycle through a WorkspaceTemplateApply, which is its first and its last element; nil when there is no
// cycle. name is the name of its Workspace.
func cycleThrough(ctx context.Context, reader validation.Reader, apply *infrav1.WorkspaceTemplateApply, name string) ([]*infrav1.WorkspaceTemplateApply, error) {
	g := &waitGraph{
		lookUp: func(workspace string) ([]infrav1.WorkspaceTemplateApply, error) {
			return reader.ClaimantsOf(ctx, workspace)
		},
		name: name, ids: map[types.NamespacedName]int64{}, claimants: map[string][]infrav1.WorkspaceTemplateApply{},
	}
	start := g.node(apply)
	before := map[int64]int64{}
	last := int64(-1)
	search := traverse.BreadthFirst{Traverse: func(edge graph.Edge) bool {
		from, to := edge.From().ID(), edge.To().ID()
		if _, known := before[to]; !known && to != start.ID() {
			before[to] = from
		}
		if to == start.ID() && last < 0 {
			last = from
		}
		return true
	}}
	search.Walk(g, start, func(graph.Node, int) bool { return last >= 0 || g.err != nil })
	if g.err != nil || last < 0 {
		return nil, g.err
	}
	cycle := []*infrav1.WorkspaceTemplateApply{apply}
	for at := last; at != start.ID(); at = before[at] {
		cycle = append(cycle, g.waiters[at].apply)
	}
	cycle = append(cycle, apply)
	slices.Reverse(cycle)
	return cycle, nil
}

// waitGraph has an edge from each WorkspaceTemplateApply to those it waits for. It is built during the search: each Workspace is looked up
// once, and the order is always the same. The object in the request replaces the stored version of that object.
type waitGraph struct {
	// lookUp lists the WorkspaceTemplateApplies whose Workspace has a given name.
	lookUp func(workspace string) ([]infrav1.WorkspaceTemplateApply, error)
	// name is the name of the Workspace of the object in the request, which is the first of the waiters.
	name    string
	waiters []waiter
	ids     map[types.NamespacedName]int64
	// claimants by the name of their Workspace.
	claimants map[string][]infrav1.WorkspaceTemplateApply
	err       error
}

// waiter is a node of the graph: a WorkspaceTemplateApply, with its index in waiters.
type waiter struct {
	id    int64
	apply *infrav1.WorkspaceTemplateApply
}

// ID implements graph.Node.
func (w waiter) ID() int64 { return w.id }

// node returns the node of a WorkspaceTemplateApply, and adds it if it is new.
func (g *waitGraph) node(apply *infrav1.WorkspaceTemplateApply) graph.Node {
	id, ok := g.ids[validation.KeyOf(apply)]
	if !ok {
		id = int64(len(g.waiters))
		g.ids[validation.KeyOf(apply)] = id
		g.waiters = append(g.waiters, waiter{id, apply})
	}
	return g.waiters[id]
}

// Edge implements traverse.Graph.
func (g *waitGraph) Edge(from, to int64) graph.Edge {
	return simple.Edge{F: g.waiters[from], T: g.waiters[to]}
}

// From implements traverse.Graph.
func (g *waitGraph) From(id int64) graph.Nodes {
	var nodes []graph.Node
	apply := g.waiters[id].apply
	for _, dependency := range apply.Spec.WaitForWorkspaces {
		for _, claimant := range g.claimantsOf(dependency.Name, namespaceOf(dependency, apply)) {
			if len(g.waiters) < maxWaiters && validation.KeyOf(claimant) != validation.KeyOf(apply) {
				nodes = append(nodes, g.node(claimant))
			}
		}
	}
	return iterator.NewOrderedNodes(nodes)
}

// claimantsOf finds the WorkspaceTemplateApplies of a namespace whose Workspace has a given name.
func (g *waitGraph) claimantsOf(name, namespace string) []*infrav1.WorkspaceTemplateApply {
	all, ok := g.claimants[name]
	if !ok && g.err == nil {
		all, g.err = g.lookUp(name)
		slices.SortFunc(all, func(a, b infrav1.WorkspaceTemplateApply) int { return strings.Compare(a.Name, b.Name) })
		g.claimants[name] = all
	}
	checked := g.waiters[0].apply
	var found []*infrav1.WorkspaceTemplateApply
	if name == g.name && namespace == checked.Namespace {
		found = append(found, checked)
	}
	for i := range all {
		if all[i].Namespace == namespace && validation.KeyOf(&all[i]) != validation.KeyOf(checked) {
			found = append(found, &all[i])
		}
	}
	return found
}
