// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

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
