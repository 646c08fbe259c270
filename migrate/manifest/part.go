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

package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// part is a part of what an object becomes: a value, and what in the source it comes from.
type part struct {
	name  string
	value any
	// key and origin are nodes of the source; nil when it is new, or is put together from parts that come from different places.
	// Elements of a list have no key.
	key, origin *yaml.Node
	// parts are the members of a mapping or the elements of a list, in the order in which they are written. A part that is what
	// its origin is has none.
	parts []*part
	// place orders the members of a mapping.
	place place
	// above and below are comments of fields that are no more.
	above, below []string
}

// place is where something is, or is to be, in a document.
type place struct{ line, column int }

func (p place) compare(other place) int {
	return cmp.Or(cmp.Compare(p.line, other.line), cmp.Compare(p.column, other.column))
}

var first, last = place{}, place{line: math.MaxInt}

// isCopy tells whether a part is what its origin is.
func (p *part) isCopy() bool { return p.origin != nil && p.parts == nil }

// builder finds out where the parts of one object come from.
type builder struct {
	document *document
	root     *yaml.Node
	rules    rules
}

// build the part at a path of what the object becomes.
func (b *builder) build(path []string, value any) *part {
	key, origin := at(b.root, b.rules.before(path)...)
	p := &part{value: value, key: key, origin: origin}
	if len(path) > 0 {
		p.name = path[len(path)-1]
	}
	b.fill(p, path)
	return p
}

func (b *builder) fill(p *part, path []string) {
	switch {
	case p.key != nil:
		p.place = place{p.key.Line, p.key.Column}
	case p.origin != nil:
		p.place = place{p.origin.Line, p.origin.Column}
	}
	if p.origin != nil && reflect.DeepEqual(b.document.values[p.origin], p.value) {
		return
	}
	switch value := p.value.(type) {
	case map[string]any:
		p.parts = []*part{}
		for _, name := range slices.Sorted(maps.Keys(value)) {
			p.parts = append(p.parts, b.build(append(slices.Clone(path), name), value[name]))
		}
		p.order()
	case []any:
		b.fillList(p, value)
	default:
		if p.origin != nil {
			p.parts = []*part{}
		}
	}
}

// fillList finds the elements of a list again, one by one, unless there are more or less of them.
func (b *builder) fillList(p *part, value []any) {
	p.parts = []*part{}
	if p.origin == nil || p.origin.Kind != yaml.SequenceNode || len(p.origin.Content) != len(value) {
		return
	}
	for i, node := range p.origin.Content {
		element := &part{value: value[i], origin: node}
		(&builder{document: b.document, root: node}).fill(element, nil)
		p.parts = append(p.parts, element)
	}
}

// follows says after which member a new one is written. Others come last.
var follows = map[string]string{"workspaceName": "templateRef", "workspaceTemplateApplyRef": "workspaceTemplateRef"}

// order members as their origins are ordered; new ones where one would look for them.
func (p *part) order() {
	for _, member := range p.parts {
		switch {
		case member.origin != nil:
		case len(member.parts) > 0 && member.parts[0].place != last:
			member.place = member.parts[0].place
		case member.name == "workspaceScope", member.name == "allowedNamespaces":
			member.place = first
		default:
			member.place = last
			for _, other := range p.parts {
				if other.origin != nil && other.name == follows[member.name] {
					member.place = place{other.place.line, math.MaxInt}
				}
			}
		}
	}
	slices.SortStableFunc(p.parts, func(a, b *part) int { return a.place.compare(b.place) })
	slices.SortStableFunc(p.parts, func(a, b *part) int { // The scope comes before who may use the template.
		if a.place == first && b.place == first {
			return strings.Compare(b.name, a.name)
		}
		return 0
	})
}

// each calls a function for a part and all parts within it.
func (p *part) each(visit func(*part)) {
	visit(p)
	for _, inner := range p.parts {
		inner.each(visit)
	}
}

// leaveOutDefaults removes fields that say what v1beta2 says anyway, unless the manifest speaks of them.
func (b *builder) leaveOutDefaults(value map[string]any) {
	for path, byDefault := range b.rules.defaults {
		names := strings.Split(path, ".")
		if _, stated := at(b.root, b.rules.before(names)...); stated != nil {
			continue
		}
		parent, found := lookUp(value, names[:len(names)-1])
		table, ok := parent.(map[string]any)
		if !found || !ok {
			continue
		}
		if name := names[len(names)-1]; fmt.Sprint(table[name]) == fmt.Sprint(byDefault) {
			delete(table, name)
		}
	}
}

// tellLost tells what the manifest said and does not say any more, and keeps comments of fields that only hold others.
func (r *rewriter) tellLost(d *document, o object, b *builder, want *part) {
	kept := map[*yaml.Node]*part{}
	want.each(func(p *part) {
		if p.origin != nil {
			kept[p.origin] = p
		}
	})
	l := &losses{rewriter: r, document: d, object: o, builder: b, kept: kept}
	l.walk(nil, o.node)
}

type losses struct {
	*rewriter
	document *document
	object   object
	builder  *builder
	kept     map[*yaml.Node]*part
}

func (l *losses) walk(path []string, node *yaml.Node) {
	p, stays := l.kept[node]
	if stays && p.isCopy() {
		return
	}
	switch node.Kind {
	case yaml.MappingNode:
		l.walkMembers(path, node)
	case yaml.SequenceNode:
		if stays && len(p.parts) != len(node.Content) {
			l.note(l.document.line(node), Warning, fmt.Sprintf("%s of %s is another list in v1beta2 (it was: %s)", strings.Join(path, "."), l.object.name(), abridged(l.document.values[node])))
			return
		}
		for i, element := range node.Content {
			l.walk(append(slices.Clone(path), strconv.Itoa(i)), element)
		}
	default:
		l.changedNumber(path, node, p)
	}
}

func (l *losses) walkMembers(path []string, node *yaml.Node) {
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		inner := append(slices.Clone(path), key.Value)
		switch {
		case l.kept[value] != nil:
			l.walk(inner, value)
		case len(l.within(value)) > 0:
			l.dissolve(key, value)
			l.walk(inner, value)
		default:
			l.lost(inner, key, value)
		}
	}
}

// changedNumber tells of a timeout that v1beta2 does not allow. Others are seconds instead of minutes.
func (l *losses) changedNumber(path []string, node *yaml.Node, p *part) {
	before, err := strconv.ParseFloat(fmt.Sprint(l.document.values[node]), 64)
	if err != nil {
		return
	}
	if now, err := strconv.ParseFloat(fmt.Sprint(p.value), 64); err == nil && now != before*60 {
		l.note(l.document.line(node), Warning, fmt.Sprintf("%s of %s was %v minutes and is %v seconds now, which is what v1beta2 allows", strings.Join(path, "."), l.object.name(), before, now))
	}
}

// within are the parts that come from within a node, in the order of the document.
func (l *losses) within(node *yaml.Node) (found []*part) {
	if p := l.kept[node]; p != nil {
		return []*part{p}
	}
	if node.Kind == yaml.MappingNode {
		for i := 1; i < len(node.Content); i += 2 {
			found = append(found, l.within(node.Content[i])...)
		}
	}
	return found
}

// dissolve gives the comments of a field that is no more to those that it held.
func (l *losses) dissolve(key, value *yaml.Node) {
	parts := l.within(value)
	above, below := l.document.measure().commentsAround(key, value)
	parts[0].above = append(above, parts[0].above...)
	parts[len(parts)-1].below = append(parts[len(parts)-1].below, below...)
}

func (l *losses) lost(path []string, key, value *yaml.Node) {
	line := l.document.line(key)
	field := strings.Join(path, ".")
	switch {
	case field == "status":
		l.note(line, Info, "status is left out: it does not belong into a manifest")
	case path[0] == "metadata":
		l.note(line, Info, field+" is left out: it meant something to the conversion between versions only, and was read")
	case isEmpty(l.document.values[value]):
		l.note(line, Info, field+" is empty and left out, which means the same")
	default:
		l.note(line, Warning, fmt.Sprintf("%s of %s is left out: v1beta2 has no place for it, or v1beta1 never knew it (it was: %s)", field, l.object.name(), abridged(l.document.values[value])))
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

func abridged(value any) string {
	const most = 100
	text := []rune(fmt.Sprint(value))
	if data := flowValue(value); data != "" {
		text = []rune(data)
	}
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}
