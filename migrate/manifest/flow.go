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
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// scalar writes a value that is no mapping and no list. What YAML would take for something else is quoted.
func scalar(value any) string {
	text, ok := value.(string)
	if !ok {
		return fmt.Sprint(value)
	}
	encoded, err := sigsyaml.Marshal(text)
	written := strings.TrimSuffix(string(encoded), "\n")
	if err != nil || strings.Contains(written, "\n") {
		return quoted(text)
	}
	return written
}

// quoted is JSON, which YAML can read.
func quoted(text string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil {
		return text
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// plain are texts that need no quotes within brackets, whatever YAML would take them for otherwise.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// flowScalar writes a value within brackets, where more characters mean something.
func flowScalar(value any) string {
	written := scalar(value)
	if text, ok := value.(string); ok && written == text && !plain.MatchString(text) {
		return quoted(text)
	}
	return written
}

// flowNode writes a node on one line, in the order and with the quotes that it has.
func flowNode(node *yaml.Node, value any) string {
	switch node.Kind {
	case yaml.MappingNode:
		table, _ := value.(map[string]any)
		var members []string
		for i := 0; i < len(node.Content); i += 2 {
			name := node.Content[i].Value
			members = append(members, flowNode(node.Content[i], name)+": "+flowNode(node.Content[i+1], table[name]))
		}
		return "{" + strings.Join(members, ", ") + "}"
	case yaml.SequenceNode:
		list, _ := value.([]any)
		var elements []string
		for i, element := range node.Content {
			elements = append(elements, flowNode(element, list[i]))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	default:
	}
	switch {
	case node.Style&yaml.DoubleQuotedStyle != 0:
		return quoted(node.Value)
	case node.Style&yaml.SingleQuotedStyle != 0 && !strings.ContainsAny(node.Value, "\n"):
		return "'" + strings.ReplaceAll(node.Value, "'", "''") + "'"
	case node.Style == 0 && !strings.ContainsAny(node.Value, "\n,[]{}"):
		return node.Value
	}
	return flowScalar(value)
}

// flowPart writes a part on one line.
func flowPart(p *part) string {
	if p.isCopy() {
		return flowNode(p.origin, p.value)
	}
	switch value := p.value.(type) {
	case map[string]any:
		return flowMembers(p)
	case []any:
		if len(p.parts) != len(value) {
			return flowValue(value)
		}
		var elements []string
		for _, element := range p.parts {
			elements = append(elements, flowPart(element))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case string:
		if p.origin != nil && p.origin.Style&yaml.DoubleQuotedStyle != 0 {
			return quoted(value)
		}
	}
	return flowScalar(p.value)
}

func flowMembers(p *part) string {
	var members []string
	for _, member := range p.parts {
		name := flowScalar(member.name)
		if member.key != nil && member.key.Value == member.name {
			name = flowNode(member.key, member.name)
		}
		members = append(members, name+": "+flowPart(member))
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// flowValue writes a value on one line that has no node.
func flowValue(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(value)) {
			members = append(members, flowScalar(name)+": "+flowValue(value[name]))
		}
		return "{" + strings.Join(members, ", ") + "}"
	case []any:
		var elements []string
		for _, element := range value {
			elements = append(elements, flowValue(element))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	}
	return flowScalar(value)
}

// printJSON writes a whole document as JSON, indented as it was.
func (d *document) printJSON(want *part) ([]string, error) {
	text := strings.Join(d.lines, "")
	var compact bytes.Buffer
	writeJSON(&compact, want, nil)
	out := &compact
	if indent, indented := indentOf(text); indented {
		out = &bytes.Buffer{}
		if err := json.Indent(out, compact.Bytes(), "", indent); err != nil {
			return nil, err
		}
	}
	written := strings.ReplaceAll(out.String(), "\n", d.eol)
	return []string{leading(text) + written + text[len(strings.TrimRight(text, " \t\r\n")):]}, nil
}

func leading(text string) string { return text[:len(text)-len(strings.TrimLeft(text, " \t\r\n"))] }

// indentOf is what the first line within the braces begins with.
func indentOf(text string) (string, bool) {
	text = strings.TrimLeft(text, " \t\r\n")
	_, after, found := strings.Cut(text, "{")
	if !found || !strings.HasPrefix(strings.TrimLeft(after, " \t\r"), "\n") {
		return "", false
	}
	_, line, _ := strings.Cut(after, "\n")
	return leading(line), true
}

// writeJSON writes a part, or, without one, a node.
func writeJSON(out *bytes.Buffer, p *part, node *yaml.Node) {
	if p != nil && !p.isCopy() {
		writePartJSON(out, p)
		return
	}
	if p != nil {
		node = p.origin
	}
	switch node.Kind {
	case yaml.MappingNode:
		out.WriteByte('{')
		for i := 0; i < len(node.Content); i += 2 {
			separate(out, i > 0)
			out.WriteString(quoted(node.Content[i].Value) + ":")
			writeJSON(out, nil, node.Content[i+1])
		}
		out.WriteByte('}')
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, element := range node.Content {
			separate(out, i > 0)
			writeJSON(out, nil, element)
		}
		out.WriteByte(']')
	default:
		if node.Style&yaml.DoubleQuotedStyle != 0 {
			out.WriteString(quoted(node.Value))
		} else {
			out.WriteString(node.Value)
		}
	}
}

func writePartJSON(out *bytes.Buffer, p *part) {
	switch p.value.(type) {
	case map[string]any:
		out.WriteByte('{')
		for i, member := range p.parts {
			separate(out, i > 0)
			out.WriteString(quoted(member.name) + ":")
			writeJSON(out, member, nil)
		}
		out.WriteByte('}')
		return
	case []any:
		if list := p.value.([]any); len(p.parts) == len(list) {
			out.WriteByte('[')
			for i, element := range p.parts {
				separate(out, i > 0)
				writeJSON(out, element, nil)
			}
			out.WriteByte(']')
			return
		}
	}
	data, err := json.Marshal(p.value)
	if err == nil {
		out.Write(data)
	}
}

func separate(out *bytes.Buffer, needed bool) {
	if needed {
		out.WriteByte(',')
	}
}
