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
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// document is a document as it is written, and as it is understood.
type document struct {
	chunk
	// root is the mapping that the document is.
	root *yaml.Node
	// values are what the nodes are worth, as JSON. YAML is understood as kubectl does, which has its own mind of yes and no.
	values map[*yaml.Node]any
	// whole is the value of root.
	whole map[string]any
	// eol ends lines that are added.
	eol string
	// step is how much deeper a mapping within a mapping is indented; listStep is that of a list, which may be 0.
	step, listStep int
}

// errNotUnderstood says in words why a document is left alone.
type errNotUnderstood struct {
	line   int
	reason string
}

func (e *errNotUnderstood) Error() string { return e.reason }

func notUnderstood(line int, format string, args ...any) error {
	return &errNotUnderstood{line: line, reason: fmt.Sprintf(format, args...)}
}

// document rewrites one. What can not be understood is told, if it has to do with v1beta1, and comes back as it was.
func (r *rewriter) document(c chunk) ([]string, error) {
	before := len(r.notes)
	lines, err := r.rewrite(c)
	var reason *errNotUnderstood
	switch {
	case err == nil:
		if mention := (chunk{lines: lines, first: c.first}).mention(); mention > 0 {
			r.note(c.first, Info, fmt.Sprintf("%s of CAPT is still spoken of in this document, such as in an owner reference or an annotation", legacyVersion))
		}
		return lines, nil
	case !errors.As(err, &reason):
		return nil, fmt.Errorf("%s:%d: %w", r.file, c.first, err)
	}
	r.notes = r.notes[:before]
	if mention := c.mention(); mention > 0 {
		line := reason.line
		if line == 0 {
			line = mention
		}
		r.note(line, LeftAlone, reason.reason)
	}
	return c.lines, nil
}

func (r *rewriter) rewrite(c chunk) ([]string, error) {
	d, err := parse(c)
	if err != nil {
		return nil, err
	}
	want, known, err := r.want(d, d.root)
	if err != nil {
		return nil, err
	}
	if !known && d.onlyBookkeeping() {
		return c.lines, nil
	}
	if !known {
		return nil, notUnderstood(0, "%s of CAPT is spoken of here, where captctl does not rewrite it: change it by hand", legacyVersion)
	}
	if reflect.DeepEqual(want.value, any(d.whole)) {
		return c.lines, nil
	}
	lines, err := d.print(want)
	if err != nil {
		return nil, err
	}
	again, err := parse(chunk{lines: lines, first: c.first})
	if err != nil || !reflect.DeepEqual(any(again.whole), want.value) {
		return nil, notUnderstood(0, "this could not be rewritten without changing what it says: rewrite it by hand")
	}
	return lines, nil
}

// onlyBookkeeping tells whether CAPT is spoken of only where the API server and kubectl write for themselves.
func (d *document) onlyBookkeeping() bool {
	content := deepCopy(d.whole).(map[string]any)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		delete(metadata, "ownerReferences")
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		}
	}
	data, err := json.Marshal(content)
	return err == nil && chunk{lines: []string{string(data)}, first: 1}.mention() == 0
}

// mention is the line, counted in the file, in which v1beta1 of CAPT is spoken of; 0 if it is in comments only.
func (c chunk) mention() int {
	for i, line := range c.lines {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		if strings.Contains(line, infraGroup+"/"+legacyVersion) || strings.Contains(line, controlPlaneGroup+"/"+legacyVersion) {
			return c.first + i
		}
	}
	return 0
}

// parse understands a document. One that is no mapping is not of interest.
func parse(c chunk) (*document, error) {
	d := &document{chunk: c, values: map[*yaml.Node]any{}, eol: "\n", step: 2}
	text := strings.Join(c.lines, "")
	if strings.Contains(text, "\r\n") {
		d.eol = "\r\n"
	}
	var file yaml.Node
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		return nil, notUnderstood(0, "this is not YAML, perhaps a template of Helm or another program: rewrite it by hand (%s)", firstLine(err))
	}
	if len(file.Content) == 0 || file.Content[0].Kind != yaml.MappingNode {
		return nil, notUnderstood(0, "this is no object: rewrite it by hand")
	}
	d.root = file.Content[0]
	asJSON, err := sigsyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, notUnderstood(0, "this is not YAML that kubectl would read: rewrite it by hand (%s)", firstLine(err))
	}
	value, err := decode(asJSON)
	if err != nil {
		return nil, err
	}
	whole, ok := value.(map[string]any)
	if !ok || !d.assign(d.root, whole) {
		return nil, notUnderstood(0, "this has anchors, merged keys, or keys that are no texts: rewrite it by hand")
	}
	d.whole = whole
	d.measureSteps(d.root)
	return d, nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// decode JSON, numbers as they are written.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.UseNumber()
	var value any
	err := decoder.Decode(&value)
	return value, err
}

// assign tells each node what it is worth. It reports whether nodes and values are of one shape.
func (d *document) assign(node *yaml.Node, value any) bool {
	if node.Anchor != "" || node.Kind == yaml.AliasNode {
		return false
	}
	d.values[node] = value
	switch node.Kind {
	case yaml.MappingNode:
		return d.assignMembers(node, value)
	case yaml.SequenceNode:
		list, ok := value.([]any)
		if !ok || len(list) != len(node.Content) {
			return false
		}
		for i := range list {
			if !d.assign(node.Content[i], list[i]) {
				return false
			}
		}
	default:
	}
	return true
}

// assignMembers goes no further where kubectl takes keys for something else than they look like, such as on for true: that is
// only understood as a whole.
func (d *document) assignMembers(node *yaml.Node, value any) bool {
	table, ok := value.(map[string]any)
	if !ok || len(table) != len(node.Content)/2 {
		return false
	}
	for i := 0; i < len(node.Content); i += 2 {
		inner, found := table[node.Content[i].Value]
		if !found {
			return !hasAnchors(node)
		}
		if !d.assign(node.Content[i+1], inner) {
			return false
		}
	}
	return true
}

func hasAnchors(node *yaml.Node) bool {
	return node.Anchor != "" || node.Kind == yaml.AliasNode || node.Tag == "!!merge" || slices.ContainsFunc(node.Content, hasAnchors)
}

// measureSteps finds out how the document is indented: as its first mappings and lists are.
func (d *document) measureSteps(root *yaml.Node) {
	knowsStep, knowsList := false, false
	var walk func(node *yaml.Node)
	walk = func(node *yaml.Node) {
		for i := 0; node.Kind == yaml.MappingNode && i < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			if isFlow(value) || value.Line == key.Line {
				continue
			}
			switch {
			case value.Kind == yaml.MappingNode && !knowsStep:
				d.step, knowsStep = value.Column-key.Column, true
			case value.Kind == yaml.SequenceNode && !knowsList:
				d.listStep, knowsList = value.Column-key.Column, true
			default:
			}
			walk(value)
		}
	}
	walk(root)
}

func isFlow(node *yaml.Node) bool {
	return node.Style&yaml.FlowStyle != 0 || (node.Kind == yaml.MappingNode || node.Kind == yaml.SequenceNode) && len(node.Content) == 0
}

// member of a mapping.
func member(node *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; node != nil && node.Kind == yaml.MappingNode && i < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return node.Content[i], node.Content[i+1]
		}
	}
	return nil, nil
}

// at follows a path of names.
func at(node *yaml.Node, path ...string) (key, value *yaml.Node) {
	value = node
	for _, name := range path {
		if key, value = member(value, name); value == nil {
			return nil, nil
		}
	}
	return key, value
}

// text of a scalar; empty for anything else.
func text(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}
