// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capt-provider/capt/api/graph"
)

// The layout is layered: gonum only has layouts by forces, and Graphviz for Go is Graphviz itself in WebAssembly, with its runtime.

// place is where an object is in its row, or where an edge passes a row.
type place struct {
	name         string  // name of the object; empty for an edge.
	x, size      float64 // x is its middle.
	wish         float64 // wish is where it should be, regardless of others in the row.
	above, below []*place
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
	l.fill(l.assign(root))
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
func (l *layout) fill(rows map[string]int) {
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
				passing := add(row, &place{size: edgeWidth})
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
