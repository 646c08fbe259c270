// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package picture draws the graph of a Cluster as SVG.
package picture

import (
	"cmp"
	_ "embed" // For the template and the style.
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capt-provider/capt/api/graph"
	"github.com/capt-provider/capt/api/reasons"
)

// Measures in pixels.
const (
	boxWidth, boxHeight = 200, 52
	// rowHeight is that of a box and of the arrows to the next row.
	rowHeight = boxHeight + 42
	// edgeWidth is the width of the place where an edge passes a row, and gap the distance between places.
	edgeWidth, gap = 8, 14
	margin         = 6
	// head is the length of an arrow's head, and bend how far its curve is from a straight line.
	head, bend = 6, 26
	// most is how many characters of a name fit into a box.
	most = 26
)

// Style is the style sheet of pictures, for the page that contains them.
//
//go:embed picture.css
var Style string

//go:embed picture.svg.tmpl
var source string

// Template has the template "picture", for the page that contains pictures, and "svg" for a file.
func Template() (*template.Template, error) { return template.New("picture").Parse(source) }

// Picture is a graph as boxes and arrows.
type Picture struct {
	Width, Height       int
	BoxWidth, BoxHeight int
	Label               string // Label describes the picture for users who do not see it.
	Boxes               []Box
	Arrows              string // Arrows are path data, from each object to those that it depends on.
	Owned               string // Owned are those from an owner to what it owns.
	Cycles              string // Cycles are those that close a cycle.
}

// Box is an object.
type Box struct {
	X, Y              int
	Class             string // Class is good, bad, busy, held, unknown, or waiting if it is not ready because of another object.
	Kind, Name, State string
	Title             string // Title is everything, if Name or State is shortened.
}

// New draws a graph. Objects of other namespaces than that of the root are shown with theirs.
func New(of graph.Document, root string) *Picture {
	l, p := arrange(of, root), &Picture{BoxWidth: boxWidth, BoxHeight: boxHeight}
	first, last := math.Inf(1), math.Inf(-1) // The left end of the leftmost place, and the right end of the rightmost one.
	for _, row := range l.rows {
		first, last = min(first, row[0].x-row[0].size/2), max(last, row[len(row)-1].x+row[len(row)-1].size/2)
	}
	p.Width, p.Height = 2*margin+int(last-first), 2*margin+max(0, len(l.rows)-1)*rowHeight+boxHeight
	middle, top := func(at *place) int { return margin + int(at.x-first) }, l.tops()
	var arrows, owned, cycles strings.Builder
	for _, at := range slices.Concat(l.rows...) {
		for _, to := range at.below {
			path := &arrows
			if at.owns || to.owns || graph.Owns(of.Nodes[at.name].Kind, of.Nodes[to.name].Kind) {
				path = &owned
			}
			fmt.Fprintf(path, "M%d %dv%d", middle(at), top[at], boxHeight)
			curve(path, middle(at), top[at]+boxHeight, middle(to), top[to], to.name != "")
		}
	}
	ready := 0
	for _, name := range l.order {
		box := boxOf(of.Nodes[name], of.Nodes[root].Namespace)
		if of.IsConsequence(name) {
			box.Class = "waiting"
		}
		box.X, box.Y = middle(l.places[name])-boxWidth/2, top[l.places[name]]
		p.Boxes = append(p.Boxes, box)
		if box.Class == good {
			ready++
		}
	}
	for _, edge := range l.cycles {
		from, to := l.places[edge[0]], l.places[edge[1]]
		x, toX := middle(from)+boxWidth/4, middle(to)+boxWidth/4
		fmt.Fprintf(&cycles, "M%d %d", x, top[from])
		curve(&cycles, x, top[from], toX, top[to]+boxHeight, false)
	}
	p.Arrows, p.Owned, p.Cycles = arrows.String(), owned.String(), cycles.String()
	p.Label = fmt.Sprintf("Graph of %s with what it depends on and what depends on it: %d of %d objects are ready", of.Nodes[root].Name, ready, len(p.Boxes))
	return p
}

// tops are the upper ends of the places.
func (l *layout) tops() map[*place]int {
	top := map[*place]int{}
	for i, row := range l.rows {
		for _, at := range row {
			top[at] = margin + i*rowHeight
		}
	}
	return top
}

// curve continues a path to a place below, with the head of an arrow if it ends there.
func curve(path *strings.Builder, x, y, toX, toY int, ends bool) {
	fmt.Fprintf(path, "C%d %d %d %d %d %d", x, y+bend, toX, toY-bend, toX, toY)
	if ends {
		fmt.Fprintf(path, "m%d %dl%d %dl%d %d", -head/2, -head, head/2, head, head/2, -head)
	}
}

// good is the class of a box whose object is ready.
const good = "good"

func boxOf(node graph.Node, home string) Box {
	box := Box{Kind: node.Kind, Name: node.Name, Class: "unknown", State: "? unknown"}
	if node.Namespace != "" && node.Namespace != home {
		box.Name = node.Namespace + "/" + node.Name
	}
	switch node.Ready {
	case metav1.ConditionTrue:
		box.Class, box.State = good, "✓ ready"
	case metav1.ConditionFalse:
		box.Class = ClassOf(node.Reason)
		box.State = map[string]string{"bad": "✗ ", "busy": "… ", "held": "! "}[box.Class] + cmp.Or(node.Reason, "not ready")
	case metav1.ConditionUnknown:
		box.State = "? " + cmp.Or(node.Reason, "unknown")
	}
	name, state := shortened(box.Name), shortened(box.State)
	if name != box.Name || state != box.State {
		box.Title = box.Kind + " " + box.Name + ": " + box.State
	}
	box.Name, box.State = name, state
	return box
}

// ClassOf is the class of an object that is not ready by its reason: busy while work is in progress, held while a user must decide, else bad.
func ClassOf(reason string) string {
	switch {
	case !reasons.IsWaiting(reason):
		return "bad"
	case reasons.Of(reason).Actor == reasons.User:
		return "held"
	}
	return "busy"
}

// shortened replaces the middle of a text that is too long: names differ at their ends.
func shortened(text string) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most/2]) + "…" + string(runes[len(runes)-most/2:])
}

// SVG is the picture as a file.
func (p *Picture) SVG() (string, error) {
	templates, err := Template()
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = templates.ExecuteTemplate(&text, "svg", struct {
		*Picture
		Style template.CSS
	}{p, template.CSS(Style)}) //nolint:gosec // It is embedded.
	return Printable(text.String()), err
}

// Printable replaces characters that XML does not allow, that reach a terminal as control characters, or that change the direction of text.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// The layout is layered: gonum only has layouts by forces, and Graphviz for Go is Graphviz itself in WebAssembly, with its runtime.

// place is where an object is in its row, or where an edge passes a row.
type place struct {
	name         string  // name of the object; empty for an edge.
	x, size      float64 // x is its middle.
	wish         float64 // wish is where it should be, regardless of others in the row.
	above, below []*place
	owns         bool // owns is true if the edge is from an owner.
}

// layout has the rows of a graph: what an object depends on is in rows below it.
type layout struct {
	next   map[string][]string // next are the edges that are drawn, except those of cycles.
	cycles [][2]string         // cycles are the edges that lead back.
	order  []string            // order has each object before those that it depends on.
	rows   [][]*place
	places map[string]*place
}

// sweeps is how often places are aligned with their neighbors. More do not change the graphs of real Clusters.
const sweeps = 8

func arrange(of graph.Document, root string) *layout {
	l := &layout{next: map[string][]string{}, places: map[string]*place{}}
	l.sort(of, root)
	l.reduce()
	l.fill(of, l.assign(root))
	for i := range sweeps {
		for _, row := range l.rows {
			spread(row, func(p *place) []*place { return p.above })
		}
		for _, row := range slices.Backward(l.rows) {
			spread(row, func(p *place) []*place {
				if i >= sweeps/2 {
					return slices.Concat(p.above, p.below)
				}
				return p.below
			})
		}
	}
	return l
}

// sort finds the order of the objects, and the edges that close cycles.
func (l *layout) sort(of graph.Document, root string) {
	open, done := sets.New[string](), sets.New[string]()
	var visit func(string)
	visit = func(name string) {
		open.Insert(name)
		for _, to := range of.Edges[name] {
			if open.Has(to) {
				l.cycles = append(l.cycles, [2]string{name, to})
				continue
			}
			if l.next[name] = append(l.next[name], to); !done.Has(to) {
				visit(to)
			}
		}
		open.Delete(name)
		done.Insert(name)
		l.order = append(l.order, name)
	}
	for _, name := range append([]string{root}, slices.Sorted(maps.Keys(of.Nodes))...) {
		if _, exists := of.Nodes[name]; exists && !done.Has(name) {
			visit(name)
		}
	}
	slices.Reverse(l.order)
}

// reduce removes edges that follow from others: a picture with all of them cannot be read.
func (l *layout) reduce() {
	reached := map[string]sets.Set[string]{}
	for _, name := range slices.Backward(l.order) {
		indirect := sets.New[string]()
		for _, to := range l.next[name] {
			indirect = indirect.Union(reached[to])
		}
		reached[name] = indirect.Clone().Insert(l.next[name]...)
		l.next[name] = slices.DeleteFunc(l.next[name], indirect.Has)
	}
}

// assign returns the row of each object: as far up as its dependents allow, and next to its dependencies if it has no dependents.
func (l *layout) assign(root string) map[string]int {
	rows, dependents := map[string]int{}, map[string]int{}
	for _, name := range l.order {
		for _, to := range l.next[name] {
			rows[to] = max(rows[to], rows[name]+1)
			dependents[to]++
		}
	}
	for _, name := range l.order {
		if to := l.next[name]; dependents[name] == 0 && name != root && len(to) > 0 {
			nearest := slices.MinFunc(to, func(a, b string) int { return cmp.Compare(rows[a], rows[b]) })
			rows[name] = rows[nearest] - 1
		}
	}
	return rows
}

// fill puts objects into their rows, and edges into those that they pass.
func (l *layout) fill(of graph.Document, rows map[string]int) {
	add := func(row int, p *place) *place {
		for len(l.rows) <= row {
			l.rows = append(l.rows, nil)
		}
		l.rows[row] = append(l.rows[row], p)
		return p
	}
	for _, name := range slices.Backward(l.order) { // The root is the leftmost of the first row.
		l.places[name] = add(rows[name], &place{name: name, size: boxWidth})
	}
	for _, name := range l.order {
		for _, to := range l.next[name] {
			from := l.places[name]
			for row := rows[name] + 1; row < rows[to]; row++ {
				passing := add(row, &place{size: edgeWidth, owns: graph.Owns(of.Nodes[name].Kind, of.Nodes[to].Kind)})
				join(from, passing)
				from = passing
			}
			join(from, l.places[to])
		}
	}
}

func join(from, to *place) {
	from.below, to.above = append(from.below, to), append(to.above, from)
}

// spread moves the places of a row to where they are nearest to the middle of their neighbors, in the order of these, without overlaps.
// Places that would overlap form a block, which is placed where its places wish to be on average.
func spread(row []*place, neighbors func(*place) []*place) {
	for _, p := range row {
		p.wish = p.x
		if near := neighbors(p); len(near) > 0 {
			p.wish = 0
			for _, other := range near {
				p.wish += other.x / float64(len(near))
			}
		}
	}
	slices.SortStableFunc(row, func(a, b *place) int { return cmp.Compare(a.wish, b.wish) })
	offsets := make([]float64, len(row)) // Of each place from the first, if all touch each other.
	type block struct{ mean, members float64 }
	var blocks []block
	for i, p := range row {
		if i > 0 {
			offsets[i] = offsets[i-1] + (row[i-1].size+p.size)/2 + gap
		}
		last := block{p.wish - offsets[i], 1}
		for len(blocks) > 0 && blocks[len(blocks)-1].mean > last.mean {
			before := blocks[len(blocks)-1]
			last = block{(before.mean*before.members + last.mean*last.members) / (before.members + last.members), before.members + last.members}
			blocks = blocks[:len(blocks)-1]
		}
		blocks = append(blocks, last)
	}
	i := 0
	for _, b := range blocks {
		for range int(b.members) {
			row[i].x = b.mean + offsets[i]
			i++
		}
	}
}
