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
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// span says which lines of the document are whose, from 0; ends are the line after.
type span struct {
	// head is where the comments above begin, start the line of the key or of the dash.
	head, start, end int
	// tail is, of a mapping or a list, where its last member ends. Comments follow.
	tail int
}

// spans are those of keys, of mappings and lists in block style, and of the elements of such lists.
type spans struct {
	document *document
	of       map[*yaml.Node]span
	// elements are those of lists.
	elements map[*yaml.Node]span
}

func (s spans) has(node *yaml.Node) bool {
	_, known := s.of[node]
	return known && !isFlow(node)
}

// measure the whole document.
func (d *document) measure() spans {
	s := spans{document: d, of: map[*yaml.Node]span{}, elements: map[*yaml.Node]span{}}
	start := d.root.Line - 1
	for start > 0 && !strings.HasPrefix(d.lines[start-1], "%") && s.isComment(start-1) {
		start--
	}
	s.mapping(d.root, start, len(d.lines))
	return s
}

// mapping measures one whose lines end before a line. Comments from the line head on are its first member's.
func (s spans) mapping(node *yaml.Node, head, end int) {
	column, start := node.Column-1, head
	tail := end
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		next := end
		if i+2 < len(node.Content) {
			next = node.Content[i+2].Line - 1
		}
		line := key.Line - 1
		if line < head || next <= line || key.Column-1 != column {
			return // Not as one writes a mapping: it is not known, so that nothing in it can be changed.
		}
		tail = s.rest(line+1, next, column, value)
		s.of[key] = span{head: head, start: line, end: tail}
		s.value(value, line, tail)
		head = tail
	}
	s.of[node] = span{head: start, start: start, end: end, tail: tail}
}

func (s spans) value(value *yaml.Node, line, end int) {
	if isFlow(value) || value.Line-1 <= line {
		return
	}
	switch value.Kind {
	case yaml.MappingNode:
		s.mapping(value, line+1, end)
	case yaml.SequenceNode:
		s.list(value, line+1, end)
	default:
	}
}

// list measures the elements of a list.
func (s spans) list(node *yaml.Node, head, end int) {
	column, first, tail := node.Column-1, head, end
	var dashes []int
	for line := head; line < end; line++ {
		if text := s.document.lines[line]; indentation(text) == column && strings.HasPrefix(text[column:], "-") {
			dashes = append(dashes, line)
		}
	}
	if len(dashes) != len(node.Content) {
		return
	}
	for i, element := range node.Content {
		next := end
		if i+1 < len(dashes) {
			next = dashes[i+1]
		}
		tail = s.rest(dashes[i]+1, next, column, element)
		if element.Kind == yaml.MappingNode && !isFlow(element) {
			s.mapping(element, min(element.Line-1, dashes[i]+1), tail)
		}
		s.elements[element] = span{head: head, start: dashes[i], end: tail}
		head = tail
	}
	s.of[node] = span{head: first, start: first, end: end, tail: tail}
}

// rest is where the blank lines and comments begin that come after a value, and belong to what follows.
func (s spans) rest(from, to, column int, value *yaml.Node) int {
	rest := to
	for rest > from && s.isComment(rest-1) && (isBlank(s.document.lines[rest-1]) || indentation(s.document.lines[rest-1]) <= column) {
		rest--
	}
	if s.keepsBlankLines(value) {
		for rest < to && isBlank(s.document.lines[rest]) {
			rest++
		}
	}
	return rest
}

// keepsBlankLines tells whether the blank lines after a value are a part of it: its last text is a block that says so.
func (s spans) keepsBlankLines(value *yaml.Node) bool {
	for value.Kind != yaml.ScalarNode {
		if len(value.Content) == 0 {
			return false
		}
		value = value.Content[len(value.Content)-1]
	}
	if value.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return false
	}
	line := s.document.lines[value.Line-1]
	indicator, _, _ := strings.Cut(line[offset(line, value.Column):], "#")
	return strings.Contains(indicator, "+")
}

func (s spans) isComment(line int) bool {
	text := strings.TrimSpace(s.document.lines[line])
	return text == "" || text[0] == '#'
}

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// shift lines to the right, or to the left as far as they go. Blank lines have nothing to shift.
func shift(lines []string, by int) []string {
	shifted := make([]string, len(lines))
	for i, line := range lines {
		switch {
		case by > 0 && !isBlank(line) || by > 0 && indentation(line) > 0:
			shifted[i] = strings.Repeat(" ", by) + line
		case by < 0:
			shifted[i] = line[min(-by, indentation(line)):]
		default:
			shifted[i] = line
		}
	}
	return shifted
}

// commentsAround are the comments above and beside a key, and those below the last member of its value.
func (s spans) commentsAround(key, value *yaml.Node) (above, below []string) {
	whole, known := s.of[key]
	if !known {
		return nil, nil
	}
	lines := s.document.lines
	above = commentsIn(lines[whole.head:whole.start])
	line := lines[whole.start]
	rest := line[offset(line, key.Column):]
	rest = rest[scalarLength(rest, key):]
	if value.Line == key.Line {
		rest = line[offset(line, value.Column):]
		length := valueLength(rest, value)
		if length == 0 {
			return above, nil
		}
		rest = rest[length:]
	}
	if _, comment, found := strings.Cut(rest, "#"); found {
		above = append(above, "#"+comment)
	}
	if s.has(value) {
		below = commentsIn(lines[s.of[value].tail:s.of[value].end])
	}
	return above, below
}

func commentsIn(lines []string) (comments []string) {
	for _, line := range lines {
		if text := strings.TrimLeft(line, " "); strings.HasPrefix(text, "#") {
			comments = append(comments, text)
		}
	}
	return comments
}

// offset of a column, which counts characters from 1, in a line.
func offset(line string, column int) int {
	for at := range line {
		if column--; column == 0 {
			return at
		}
	}
	return len(line)
}

// valueLength is how much of a line a value takes; 0 when it goes on in other lines, or nobody can tell.
func valueLength(line string, value *yaml.Node) int {
	if value.Kind == yaml.ScalarNode {
		return scalarLength(line, value)
	}
	if !isFlow(value) {
		return 0
	}
	return bracketsLength(line)
}

// bracketsLength is how long the brackets are with which a line begins; 0 when they are not closed in it, or hold a comment.
func bracketsLength(line string) int {
	depth, begins := 0, true // begins tells whether a text would begin here; within one, quotes mean nothing.
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case '\'', '"':
			if begins {
				length := quotedLength(line[i:])
				if length == 0 {
					return 0
				}
				i += length - 1
			}
		case '#':
			if i > 0 && line[i-1] == ' ' {
				return 0
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 {
			return i + 1
		}
		begins = strings.IndexByte("{[,: ", line[i]) >= 0
	}
	return 0
}

// hasComments tells whether there are comments within a value, in braces mostly, that would be lost with its lines.
func hasComments(node *yaml.Node) bool {
	return node.HeadComment != "" || node.LineComment != "" || node.FootComment != "" || slices.ContainsFunc(node.Content, hasComments)
}

// scalarLength is how much of a line a key or a text takes.
func scalarLength(line string, node *yaml.Node) int {
	switch {
	case node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return quotedLength(line)
	case node.Style == 0 && strings.HasPrefix(line, node.Value):
		return len(node.Value)
	}
	return 0
}

// quotedLength is the length of a text in quotes, at the beginning of a line.
func quotedLength(line string) int {
	if line == "" {
		return 0
	}
	quote := line[0]
	for i := 1; i < len(line); i++ {
		switch {
		case quote == '"' && line[i] == '\\':
			i++
		case line[i] == quote && quote == '\'' && i+1 < len(line) && line[i+1] == quote:
			i++
		case line[i] == quote:
			return i + 1
		}
	}
	return 0
}
