/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// graph of a fleet. Nodes are numbered in the order in which they were met.
type graph struct {
	nodes []node
	ids   map[string]int
	edges []edge
}

type node struct {
	kind, text string
	state      migrate.OwnerState
}

type edge struct {
	from, to int
	text     string
	// perhaps: it is a candidate only.
	perhaps bool
}

func newGraph(found *migrate.Inspection) *graph {
	g := &graph{ids: map[string]int{}}
	for _, owner := range found.Owners {
		id := g.node(string(owner.Owner.UID), node{kind: owner.Owner.Kind, text: named(owner.Owner), state: owner.State})
		if owner.Cluster != "" {
			cluster := migrate.ObjectRef{Kind: "Cluster", Namespace: owner.Owner.Namespace, Name: owner.Cluster}
			g.edge(g.node(cluster.String(), node{kind: cluster.Kind, text: named(cluster)}), id, "", false)
		}
		if apply := owner.WorkspaceTemplateApply; apply != nil && apply.UID != owner.Owner.UID {
			to := g.node(string(apply.UID), node{kind: apply.Kind, text: named(*apply)})
			g.edge(id, to, strongest(owner.Evidence), false)
			id = to
		}
		if owner.Workspace != nil {
			g.edge(id, g.node(string(owner.Workspace.UID), node{kind: owner.Workspace.Kind, text: named(*owner.Workspace)}), "", false)
		}
		for _, candidate := range candidates(found.Findings, owner) {
			to := g.node(string(candidate.Object.UID), node{kind: candidate.Object.Kind, text: named(candidate.Object)})
			g.edge(id, to, strongest(candidate.For), true)
		}
	}
	return g
}

// node is found by its key, or added.
func (g *graph) node(key string, n node) int {
	id, ok := g.ids[key]
	if !ok {
		id = len(g.nodes)
		g.ids[key] = id
		g.nodes = append(g.nodes, n)
	}
	if n.state != "" {
		g.nodes[id].state = n.state
	}
	return id
}

func (g *graph) edge(from, to int, text string, perhaps bool) {
	g.edges = append(g.edges, edge{from: from, to: to, text: text, perhaps: perhaps})
}

// named is what a node shows: kind, name, and the namespace if there is one.
func named(ref migrate.ObjectRef) string {
	if ref.Namespace == "" {
		return ref.Kind + "\n" + ref.Name
	}
	return ref.Kind + "\n" + ref.Namespace + "/" + ref.Name
}

func strongest(evidence []string) string {
	if len(evidence) == 0 {
		return ""
	}
	return evidence[0]
}

// colours of states, for both kinds of graphs.
var colours = map[migrate.OwnerState]string{
	migrate.Adopted: "#c8e6c9", migrate.Adoptable: "#e8f5e9", migrate.OwnerAmbiguous: "#fff3c4", migrate.OwnerBlocked: "#ffcdd2",
	migrate.OwnerSkipped: "#eeeeee", migrate.NothingToAdopt: "#ffffff",
}

// DOT shows a fleet as a graph for Graphviz.
func DOT(p *output.Printer, found *migrate.Inspection) {
	g := newGraph(found)
	p.Linef("digraph capt {")
	p.Linef("  rankdir=LR;")
	p.Linef("  node [shape=box, style=filled, fillcolor=white];")
	for id, n := range g.nodes {
		text := n.text
		fill := ""
		if n.state != "" {
			text += "\n" + string(n.state)
			fill = fmt.Sprintf(", fillcolor=%q", colours[n.state])
		}
		p.Linef("  n%d [label=%s%s];", id, strconv.Quote(text), fill)
	}
	for _, e := range g.edges {
		var attributes []string
		if e.text != "" {
			attributes = append(attributes, "label="+strconv.Quote(e.text))
		}
		if e.perhaps {
			attributes = append(attributes, "style=dashed")
		}
		suffix := ""
		if len(attributes) > 0 {
			suffix = " [" + strings.Join(attributes, ", ") + "]"
		}
		p.Linef("  n%d -> n%d%s;", e.from, e.to, suffix)
	}
	p.Linef("}")
}

// Mermaid shows a fleet as a graph for Markdown.
func Mermaid(p *output.Printer, found *migrate.Inspection) {
	g := newGraph(found)
	p.Linef("flowchart LR")
	for id, n := range g.nodes {
		text := n.text
		if n.state != "" {
			text += "\n" + string(n.state)
		}
		p.Linef("  n%d[%s]", id, mermaidText(text))
		if n.state != "" {
			p.Linef("  style n%d fill:%s", id, colours[n.state])
		}
	}
	for _, e := range g.edges {
		arrow := "-->"
		if e.perhaps {
			arrow = "-.->"
		}
		if e.text != "" {
			arrow += "|" + mermaidText(e.text) + "|"
		}
		p.Linef("  n%d %s n%d", e.from, arrow, e.to)
	}
}

// mermaidText quotes text. Mermaid knows entities of HTML, with # in place of &.
func mermaidText(text string) string {
	return `"` + strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", "<br/>").Replace(text) + `"`
}
