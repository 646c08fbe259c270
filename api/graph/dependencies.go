// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
)

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
