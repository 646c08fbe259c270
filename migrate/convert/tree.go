// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// tree changes the nodes of an object, so that fields keep their comments, style and order.
type tree struct {
	source *yaml.Node
	have   map[string]any
	moves  map[string]path
	// used are the keys of the source that are in the result, and what they are there.
	used map[*yaml.Node]*yaml.Node
}

// rewrite makes a node say what is wanted. A field of the result was in the source under the same path, or under that in moves.
func rewrite(node *yaml.Node, have, want map[string]any, moves map[string]path) error {
	if reflect.DeepEqual(have, want) {
		return nil
	}
	t := &tree{source: node, have: have, moves: moves, used: map[*yaml.Node]*yaml.Node{}}
	// What is used refers to nodes of the source, so the source stays as it is until the end.
	changed, err := t.value(nil, want, node, have)
	if err != nil {
		return err
	}
	pending := ""
	t.keepComments(node, &pending)
	if end := len(changed.Content) - 2; pending != "" && end >= 0 {
		changed.Content[end].FootComment = joined(changed.Content[end].FootComment, pending)
	}
	*node = *changed
	return nil
}

// origin is where a field of the result was.
func (t *tree) origin(at path) (key, node *yaml.Node, have any) {
	if before, moved := t.moves[at.String()]; moved {
		at = before
	}
	if member := yaml.NewRNode(valueAt(t.source, at[:len(at)-1]...)).Field(at[len(at)-1]); member != nil {
		key, node = member.Key.YNode(), member.Value.YNode()
	}
	have, _, _ = unstructured.NestedFieldNoCopy(t.have, at...)
	return key, node, have
}

// value is a node that says what is wanted: the original if it says that already.
func (t *tree) value(at path, want any, original *yaml.Node, have any) (*yaml.Node, error) {
	if original != nil && reflect.DeepEqual(have, want) {
		t.use(original)
		return original, nil
	}
	switch want := want.(type) {
	case map[string]any:
		changed := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap}
		return changed, t.members(changed, at, want, original)
	case []any:
		list, _ := have.([]any)
		if original != nil && len(list) > 0 && len(original.Content) == len(list) && len(list) <= len(want) {
			return t.list(want, original, list)
		}
	}
	// A scalar keeps the comments and the style of the one that was there.
	changed := &yaml.Node{}
	if err := changed.Encode(want); err != nil {
		return nil, err
	}
	if original != nil && original.Kind == yaml.ScalarNode && changed.Kind == yaml.ScalarNode {
		changed.LineComment, changed.HeadComment, changed.FootComment = original.LineComment, original.HeadComment, original.FootComment
		if original.Tag == changed.Tag {
			changed.Style = original.Style
		}
	}
	return changed, nil
}

// list changes the elements of a list one by one, and adds new ones.
func (t *tree) list(want []any, original *yaml.Node, have []any) (*yaml.Node, error) {
	changed := *original
	changed.Content = nil
	for i, element := range want {
		node, before := &yaml.Node{}, any(nil)
		if i < len(have) {
			node, before = original.Content[i], have[i]
			t.use(node)
		}
		table, isTable := before.(map[string]any)
		wanted, staysTable := element.(map[string]any)
		var err error
		switch {
		case isTable && staysTable:
			err = rewrite(node, table, wanted, nil)
		case i >= len(have) || !reflect.DeepEqual(before, element):
			err = node.Encode(element)
		}
		if err != nil {
			return nil, err
		}
		changed.Content = append(changed.Content, node)
	}
	return &changed, nil
}

// placed is a member of a mapping, with its position in the source; 0 if it is new.
type placed struct {
	key, value *yaml.Node
	position   int
}

// members fills in a mapping: its members are in the order of the source.
func (t *tree) members(changed *yaml.Node, at path, want map[string]any, original *yaml.Node) error {
	if original != nil && original.Kind == yaml.MappingNode {
		*changed = *original
	}
	var all []placed
	for _, name := range slices.Sorted(maps.Keys(want)) {
		key, node, have := t.origin(at.with(name))
		value, err := t.value(at.with(name), want[name], node, have)
		if err != nil {
			return err
		}
		member := placed{&yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString}, value, firstPosition(value)}
		if key != nil {
			*member.key = *key
			member.position = position(key)
			t.used[key] = member.key
		}
		if member.position == 0 && value.Kind != yaml.ScalarNode {
			member.position = math.MaxInt // New scalars come first, since they are easy to miss after long blocks.
		}
		if member.key.Value != name {
			member.key.SetString(name)
			member.key.Style = 0
		}
		all = append(all, member)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.position - b.position })
	changed.Content = nil
	for _, member := range all {
		changed.Content = append(changed.Content, member.key, member.value)
	}
	return nil
}

const maxColumn = 1 << 20

func position(node *yaml.Node) int { return node.Line*maxColumn + node.Column }

// firstPosition returns the position of the first node that was read from the source; 0 if all are new.
func firstPosition(node *yaml.Node) int {
	first := position(node)
	for _, inner := range node.Content {
		if found := firstPosition(inner); found > 0 && (first == 0 || found < first) {
			first = found
		}
	}
	return first
}

// use marks all keys within a node.
func (t *tree) use(node *yaml.Node) {
	for i, inner := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			t.used[inner] = inner
		}
		t.use(inner)
	}
}

// keepComments gives the comments of fields that are gone to the next field that is not. Those of the status go with it.
func (t *tree) keepComments(node *yaml.Node, pending *string) {
	if node.Kind != yaml.MappingNode {
		for _, inner := range node.Content {
			t.keepComments(inner, pending)
		}
		return
	}
	for i := 0; i < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if now, found := t.used[key]; found {
			now.HeadComment = joined(*pending, now.HeadComment)
			*pending = ""
			t.keepComments(value, pending)
			continue
		}
		if node == t.source && key.Value == "status" {
			continue
		}
		*pending = joined(*pending, key.HeadComment, key.LineComment, value.HeadComment, value.LineComment)
		t.keepComments(value, pending)
		*pending = joined(*pending, value.FootComment, key.FootComment)
	}
}

func joined(comments ...string) string {
	return strings.Join(slices.DeleteFunc(comments, func(comment string) bool { return comment == "" }), "\n")
}
