// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package picture draws the graph of a Cluster as SVG.
package picture

import (
	"cmp"
	_ "embed" // For the template and the style.
	"fmt"
	"html/template"
	"math"
	"strings"
	"sync"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capt-provider/capt/api/graph"
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

var parsed = sync.OnceValues(Template)

// Picture is a graph as boxes and arrows.
type Picture struct {
	Width, Height int
	Label         string // Label describes the picture for users who do not see it.
	Boxes         []Box
	Arrows        string // Arrows are path data, from each object to those that it depends on.
	Cycles        string // Cycles are those that close a cycle.
}

// Box is an object.
type Box struct {
	X, Y              int
	Class             string // Class is good, bad or unknown.
	Kind, Name, State string
	Title             string // Title is everything, if Name or State is shortened.
}

// BoxWidth is the width of all boxes.
func (*Picture) BoxWidth() int { return boxWidth }

// BoxHeight is the height of all boxes.
func (*Picture) BoxHeight() int { return boxHeight }

// New draws a graph. Objects of other namespaces than that of the root are shown with theirs.
func New(of graph.Document, root string) *Picture {
	l, p := arrange(of, root), &Picture{}
	first, last := l.bounds()
	p.Width, p.Height = 2*margin+int(last-first), 2*margin+max(0, len(l.rows)-1)*rowHeight+boxHeight
	middle, top := func(at *place) int { return margin + int(at.x-first) }, map[*place]int{}
	var arrows, cycles strings.Builder
	for i, row := range l.rows {
		for _, at := range row {
			top[at] = margin + i*rowHeight
		}
	}
	for i, row := range l.rows {
		for _, at := range row {
			for _, to := range at.below {
				fmt.Fprintf(&arrows, "M%d %dv%d", middle(at), margin+i*rowHeight, boxHeight)
				curve(&arrows, middle(at), top[at]+boxHeight, middle(to), top[to], to.name != "")
			}
		}
	}
	ready := 0
	for _, name := range l.order {
		box := boxOf(of.Nodes[name], of.Nodes[root].Namespace)
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
	p.Arrows, p.Cycles = arrows.String(), cycles.String()
	p.Label = fmt.Sprintf("Graph of %s with what it depends on and what depends on it: %d of %d objects are ready", of.Nodes[root].Name, ready, len(p.Boxes))
	return p
}

// bounds are the left end of the leftmost place and the right end of the rightmost one.
func (l *layout) bounds() (first, last float64) {
	first, last = math.Inf(1), math.Inf(-1)
	for _, row := range l.rows {
		first, last = min(first, row[0].x-row[0].size/2), max(last, row[len(row)-1].x+row[len(row)-1].size/2)
	}
	return first, last
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
		box.Class, box.State = "bad", "✗ "+cmp.Or(node.Reason, "not ready")
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
	templates, err := parsed()
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
