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
	"encoding/json"
	"strings"

	"go.yaml.in/yaml/v3"
)

// print writes what a document becomes.
func (d *document) print(want *part) ([]string, error) {
	if isFlow(d.root) {
		if json.Valid([]byte(strings.TrimPrefix(strings.Join(d.lines, ""), byteOrderMark))) {
			return d.printJSON(want)
		}
		return d.printBraces(want)
	}
	p := &printer{document: d, spans: d.measure()}
	lines, err := p.mapping(want, want.origin.Column-1)
	if err != nil {
		return nil, err
	}
	span := p.spans.of[d.root]
	all := append(append(clone(d.lines[:span.start]), lines...), d.lines[span.end:]...)
	return d.endings(all), nil
}

// printBraces writes a document that is one line in braces.
func (d *document) printBraces(want *part) ([]string, error) {
	number := d.root.Line - 1
	line := d.lines[number]
	from := offset(line, d.root.Column)
	length := valueLength(line[from:], d.root)
	if length == 0 {
		return nil, notUnderstood(0, "this is written in braces, on many lines: rewrite it by hand")
	}
	lines := clone(d.lines)
	lines[number] = line[:from] + flowPart(want) + line[from+length:]
	return lines, nil
}

// endings sees to it that every line ends, but the last one if it did not.
func (d *document) endings(lines []string) []string {
	for i := range lines[:len(lines)-1] {
		if !strings.HasSuffix(lines[i], "\n") {
			lines[i] += d.eol
		}
	}
	if end := len(lines) - 1; !strings.HasSuffix(d.lines[len(d.lines)-1], "\n") {
		lines[end] = strings.TrimRight(lines[end], "\r\n")
	} else if !strings.HasSuffix(lines[end], "\n") {
		lines[end] += d.eol
	}
	return lines
}

func clone(lines []string) []string { return append([]string(nil), lines...) }

// printer writes mappings in block style: lines of the source where it can, else new ones.
type printer struct {
	*document
	spans spans
}

// mapping writes the members of a mapping at a column, without its key.
func (p *printer) mapping(want *part, column int) ([]string, error) {
	var lines []string
	for _, member := range want.parts {
		written, err := p.member(member, column)
		if err != nil {
			return nil, err
		}
		lines = append(lines, written...)
	}
	return append(lines, p.tail(want.origin, column)...), nil
}

// tail are the comments after the last member of a mapping.
func (p *printer) tail(node *yaml.Node, column int) []string {
	span, known := p.spans.of[node]
	if node == nil || !known {
		return nil
	}
	return shift(p.lines[span.tail:span.end], column-(node.Column-1))
}

// member writes a member of a mapping, with the comments above and below.
func (p *printer) member(m *part, column int) ([]string, error) {
	lines := comments(m.above, column)
	span, known := p.spans.of[m.key]
	if m.key != nil && known {
		lines = append(lines, shift(p.lines[span.head:span.start], column-(m.key.Column-1))...)
	}
	var written []string
	var err error
	switch {
	case m.key == nil || !known:
		written, err = p.fresh(m, column)
	case m.isCopy():
		written = p.copied(m, span, column)
	default:
		written, err = p.changed(m, span, column)
	}
	if err != nil {
		return nil, err
	}
	return append(append(lines, written...), comments(m.below, column)...), nil
}

func comments(texts []string, column int) []string {
	var lines []string
	for _, text := range texts {
		lines = append(lines, strings.Repeat(" ", column)+text)
	}
	return lines
}

// opening is the first line of a member, with the name that it has now, and whatever comes after it.
func (p *printer) opening(m *part, span span, column int) string {
	line := p.lines[span.start]
	from := offset(line, m.key.Column)
	rest := line[from+scalarLength(line[from:], m.key):]
	written := line[from : len(line)-len(rest)]
	if m.key.Value != m.name {
		written = scalar(m.name)
	}
	return strings.Repeat(" ", column) + written + rest
}

// copied are the lines of the source, with the name that the member has now, as deep as it is now.
func (p *printer) copied(m *part, span span, column int) []string {
	lines := []string{p.opening(m, span, column)}
	return append(lines, shift(p.lines[span.start+1:span.end], column-(m.key.Column-1))...)
}

// changed writes a member of which something changes.
func (p *printer) changed(m *part, span span, column int) ([]string, error) {
	_, isTable := m.value.(map[string]any)
	list, isList := m.value.([]any)
	inner := column + m.origin.Column - m.key.Column
	switch {
	case isTable && len(m.parts) > 0 && p.spans.has(m.origin):
		head := p.lines[span.start+1 : p.spans.of[m.origin].start]
		lines, err := p.mapping(m, inner)
		return append(append([]string{p.opening(m, span, column)}, shift(head, column-(m.key.Column-1))...), lines...), err
	case isList && len(list) > 0 && len(m.parts) == len(list) && p.spans.has(m.origin):
		lines, err := p.list(m, inner)
		return append([]string{p.opening(m, span, column)}, lines...), err
	case m.origin.Line == m.key.Line && span.end == span.start+1:
		if line, ok := p.replaced(m, span, column); ok {
			return []string{line}, nil
		}
	}
	if hasComments(m.origin) {
		return nil, notUnderstood(p.first+span.start, "%s changes, and there are comments in it: rewrite it by hand", m.key.Value)
	}
	return p.fresh(m, column)
}

// replaced is the only line of a member with another value, and with what comes after it.
func (p *printer) replaced(m *part, span span, column int) (string, bool) {
	line := p.opening(m, span, column)
	source := p.lines[span.start]
	from := offset(source, m.origin.Column)
	length := valueLength(source[from:], m.origin)
	if length == 0 {
		return "", false
	}
	rest := source[from+length:]
	return line[:len(line)-len(rest)-length] + flowPart(m) + rest, true
}

// fresh writes a member that has no lines of its own in the source.
func (p *printer) fresh(m *part, column int) ([]string, error) {
	indent := strings.Repeat(" ", column)
	table, isTable := m.value.(map[string]any)
	switch {
	case isTable && len(table) > 0 && (m.origin == nil || !isFlow(m.origin)):
		var above []string
		if m.origin == nil {
			above = p.hoist(m, column)
		}
		lines, err := p.mapping(&part{parts: m.parts}, column+p.step)
		return append(append(above, indent+scalar(m.name)+":"+p.eol), lines...), err
	case !isTable && m.origin == nil:
		if list, isList := m.value.([]any); isList && len(list) > 0 {
			return p.freshList(m.name, list, column), nil
		}
	}
	return []string{indent + scalar(m.name) + ": " + flowPart(m) + p.eol}, nil
}

func (p *printer) freshList(name string, list []any, column int) []string {
	lines := []string{strings.Repeat(" ", column) + scalar(name) + ":" + p.eol}
	for _, element := range list {
		lines = append(lines, strings.Repeat(" ", column+p.listStep)+"- "+flowValue(element)+p.eol)
	}
	return lines
}

// hoist takes the comments of what is put together first, to stand above the whole.
func (p *printer) hoist(m *part, column int) []string {
	firstPart := m
	for len(firstPart.parts) > 0 && firstPart.origin == nil {
		firstPart = firstPart.parts[0]
	}
	lines := comments(firstPart.above, column)
	firstPart.above = nil
	if span, known := p.spans.of[firstPart.key]; known && firstPart.key != nil {
		lines = append(lines, shift(p.lines[span.head:span.start], column-(firstPart.key.Column-1))...)
		span.head = span.start
		p.spans.of[firstPart.key] = span
	}
	return lines
}

// list writes the elements of a list of which some change.
func (p *printer) list(want *part, column int) ([]string, error) {
	var lines []string
	by := column - (want.origin.Column - 1)
	for _, element := range want.parts {
		span := p.spans.elements[element.origin]
		lines = append(lines, shift(p.lines[span.head:span.start], by)...)
		if element.isCopy() {
			lines = append(lines, shift(p.lines[span.start:span.end], by)...)
			continue
		}
		written, err := p.element(element, span, column, column+element.origin.Column-want.origin.Column)
		if err != nil {
			return nil, err
		}
		lines = append(lines, written...)
	}
	return append(lines, shift(p.lines[p.spans.of[want.origin].tail:p.spans.of[want.origin].end], by)...), nil
}

// element writes one element of a list, with its dash at a column and its members at another.
func (p *printer) element(element *part, span span, dash, inner int) ([]string, error) {
	source := p.lines[span.start]
	from := offset(source, element.origin.Column)
	if length := valueLength(source[from:], element.origin); length > 0 && element.origin.Line-1 == span.start && span.end == span.start+1 {
		return []string{strings.Repeat(" ", dash) + source[indentation(source):from] + flowPart(element) + source[from+length:]}, nil
	}
	_, isTable := element.value.(map[string]any)
	if isTable && p.spans.has(element.origin) {
		written, err := p.mapping(element, inner)
		if err == nil && element.origin.Line-1 > span.start { // The dash stands alone, perhaps with a comment.
			return append(shift(p.lines[span.start:p.spans.of[element.origin].start], dash-indentation(source)), written...), nil
		}
		if err == nil && len(written) > 0 && indentation(written[0]) > dash {
			written[0] = strings.Repeat(" ", dash) + "-" + written[0][dash+1:]
			return written, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, notUnderstood(p.first+span.start, "an element of a list changes here, in a way that captctl can not write: rewrite it by hand")
}
