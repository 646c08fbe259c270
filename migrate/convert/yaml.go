// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/capt-provider/capt/api/validation/manifests"
)

// tree changes the nodes of an object, so that fields keep their comments, style and order.
type tree struct {
	source *yaml.Node
	have   map[string]any
	moves  map[string]path
}

// rewrite changes the node of an object with the values have to the values want. A field of want was in the source at the same path, or at the path in moves.
func rewrite(node *yaml.Node, have, want map[string]any, moves map[string]path) error {
	if reflect.DeepEqual(have, want) {
		return nil
	}
	t := &tree{source: node, have: have, moves: moves}
	// The result shares nodes with the source, which stays as it is until the end.
	changed, err := t.valueNode(nil, want, node, have)
	if err != nil {
		return err
	}
	keepComments(node, changed)
	*node = *changed
	return nil
}

// valueNode returns a node with the value want: the original if it has that value, otherwise a new one with the comments and the style of the
// original. have is the value of the original, which may be nil.
func (t *tree) valueNode(at path, want any, original *yaml.Node, have any) (*yaml.Node, error) {
	if original != nil && reflect.DeepEqual(have, want) {
		return original, nil
	}
	list, _ := have.([]any)
	switch want := want.(type) {
	case map[string]any:
		changed := &yaml.Node{Kind: yaml.MappingNode, Tag: yaml.NodeTagMap}
		return changed, t.setMembers(changed, at, want, original)
	case []any:
		if original != nil && len(list) > 0 && len(original.Content) == len(list) && len(list) <= len(want) {
			return elementNodes(want, original, list)
		}
	}
	return encodedNode(want, original)
}

// elementNodes returns a list with the values want. Elements that have the same index in the original keep their comments and style.
func elementNodes(want []any, original *yaml.Node, have []any) (*yaml.Node, error) {
	changed := *original
	changed.Content = nil
	for i, element := range want {
		var node *yaml.Node
		var before any
		if i < len(have) {
			node, before = original.Content[i], have[i]
		}
		fields, _ := before.(map[string]any)
		node, err := (&tree{source: node, have: fields}).valueNode(nil, element, node, before)
		if err != nil {
			return nil, err
		}
		changed.Content = append(changed.Content, node)
	}
	return &changed, nil
}

// encodedNode returns a new node for a value. A scalar keeps the comments, the position and, if the type is the same, the style of the original.
func encodedNode(want any, original *yaml.Node) (*yaml.Node, error) {
	changed := &yaml.Node{}
	if err := changed.Encode(want); err != nil {
		return nil, err
	}
	if original != nil && original.Kind == yaml.ScalarNode && changed.Kind == yaml.ScalarNode {
		changed.LineComment, changed.HeadComment, changed.FootComment = original.LineComment, original.HeadComment, original.FootComment
		changed.Line, changed.Column = original.Line, original.Column
		if original.Tag == changed.Tag {
			changed.Style = original.Style
		}
	}
	return changed, nil
}

// member is a field of a mapping. position orders the fields as in the source.
type member struct {
	key, value *yaml.Node
	position   int
}

func (t *tree) setMembers(changed *yaml.Node, at path, want map[string]any, original *yaml.Node) error {
	if original != nil && original.Kind == yaml.MappingNode {
		*changed = *original
	}
	var all []member
	for _, name := range slices.Sorted(maps.Keys(want)) {
		origin := at.with(name)
		if before, moved := t.moves[origin.String()]; moved {
			origin = before
		}
		key, old := &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagString}, (*yaml.Node)(nil)
		if found := yaml.NewRNode(valueAt(t.source, origin[:len(origin)-1]...)).Field(origin[len(origin)-1]); found != nil {
			*key, old = *found.Key.YNode(), found.Value.YNode()
		}
		have, _, _ := unstructured.NestedFieldNoCopy(t.have, origin...)
		value, err := t.valueNode(at.with(name), want[name], old, have)
		if err != nil {
			return err
		}
		place := position(key)
		if old == nil {
			place = firstPosition(value)
		}
		if place == 0 && value.Kind != yaml.ScalarNode {
			place = math.MaxInt // New scalars come first, since they are easy to miss after long blocks.
		}
		if key.Value != name {
			key.SetString(name)
			key.Style = 0
		}
		all = append(all, member{key, value, place})
	}
	slices.SortStableFunc(all, func(a, b member) int { return a.position - b.position })
	changed.Content = nil
	for _, member := range all {
		changed.Content = append(changed.Content, member.key, member.value)
	}
	return nil
}

// position returns one number for the line and column of a node; 0 if it is new.
func position(node *yaml.Node) int { return node.Line<<20 + node.Column }

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

// keepComments moves the comments of removed fields to the next field that remains. The comments in the status are removed with it.
func keepComments(source, changed *yaml.Node) {
	type place struct {
		line, column int
		kind         yaml.Kind
	}
	left, pending := map[place]*yaml.Node{}, ""
	visit(changed, func(node *yaml.Node, _ bool) { left[place{node.Line, node.Column, node.Kind}] = node })
	visit(source, func(node *yaml.Node, isKey bool) {
		if now := left[place{node.Line, node.Column, node.Kind}]; now == nil {
			pending = joined(pending, node.HeadComment, node.LineComment, node.FootComment)
		} else if isKey {
			now.HeadComment, pending = joined(pending, now.HeadComment), ""
		}
	})
	if end := len(changed.Content) - 2; pending != "" && end >= 0 {
		changed.Content[end].FootComment = joined(changed.Content[end].FootComment, pending)
	}
}

// visit calls see for all nodes below a node, in order, except for those of the status.
func visit(node *yaml.Node, see func(node *yaml.Node, isKey bool)) {
	for i, inner := range node.Content {
		if isMapping := node.Kind == yaml.MappingNode; !isMapping || node.Content[i-i%2].Value != "status" {
			see(inner, isMapping && i%2 == 0)
			visit(inner, see)
		}
	}
}

func joined(comments ...string) string {
	return strings.Join(slices.DeleteFunc(comments, func(comment string) bool { return comment == "" }), "\n")
}

// render returns the text of a changed document: the original with the changed lines of kyaml's output, because kyaml drops blank lines and alignment.
func render(original string, file *yaml.Node, want map[string]any) (string, error) {
	if json.Valid([]byte(original)) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if _, rest, found := strings.Cut(original, "\n"); found {
			encoder.SetIndent("", rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))])
		}
		err := encoder.Encode(want)
		return endedAs(original, out.String()), err
	}
	_, before, err := manifests.Parse(original)
	if err != nil {
		return "", err
	}
	var comments []string // That must stay.
	visit(before, func(node *yaml.Node, _ bool) {
		comments = append(comments, strings.Split(joined(node.HeadComment, node.LineComment, node.FootComment), "\n")...)
	})
	base, baseErr := encode(original, before)
	changed, changedErr := encode(original, file)
	if err := errors.Join(baseErr, changedErr); err != nil {
		return "", err
	}
	for _, candidate := range []string{merge(original, base, changed), changed} {
		if got, _, err := manifests.Parse(candidate); err != nil || !reflect.DeepEqual(got, want) {
			continue
		}
		if !slices.ContainsFunc(comments, func(comment string) bool { return !strings.Contains(candidate, comment) }) {
			return candidate, nil
		}
	}
	return "", errors.New("the converted document cannot be written as YAML without losing a value or a comment")
}

func encode(original string, file *yaml.Node) (string, error) {
	var out bytes.Buffer
	style := yaml.SequenceIndentStyle(yaml.DeriveSeqIndentStyle(original))
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: style})
	encoder.SetIndent(indentation(file.Content[0]))
	var hidden []string
	hideCharacters(file, &hidden)
	err := errors.Join(encoder.Encode(file), encoder.Close())
	return strings.NewReplacer(hidden...).Replace(out.String()), err
}

var troublesome = regexp.MustCompile(`(?m)\t| +$|[\x{10000}-\x{10ffff}]`)

// hideCharacters replaces characters for which the encoder would quote a block of text, such as a Terraform module, by private characters. hidden gets
// pairs of a private character and the text that it replaces.
func hideCharacters(node *yaml.Node, hidden *[]string) {
	if node.Kind == yaml.ScalarNode && node.Style&yaml.LiteralStyle != 0 {
		node.Value = troublesome.ReplaceAllStringFunc(node.Value, func(text string) string {
			if !slices.Contains(*hidden, text) {
				*hidden = append(*hidden, string('\ue000'+rune(len(*hidden))), text) //nolint:gosec // There are few.
			}
			return (*hidden)[slices.Index(*hidden, text)-1]
		})
	}
	for _, inner := range node.Content {
		hideCharacters(inner, hidden)
	}
}

func indentation(root *yaml.Node) int {
	for i := 1; i < len(root.Content) && root.Kind == yaml.MappingNode; i += 2 {
		key, value := root.Content[i-1], root.Content[i]
		if value.Kind == yaml.MappingNode && value.Line > key.Line && value.Column > key.Column {
			return value.Column - key.Column
		}
	}
	return yaml.DefaultIndent
}

// merge is a three-way merge by lines: the result has the lines of original where base and changed are equal, and those of changed elsewhere.
func merge(original, base, changed string) string {
	const end = "\x00" // It is in all three, so that the last lines are handled as all others.
	lines := func(text string) []string { return append(difflib.SplitLines(strings.TrimSuffix(text, "\n")), end) }
	o, b, c := lines(original), lines(base), lines(changed)
	inOriginal, inChanged := matches(squeezed(b), squeezed(o)), matches(b, c)
	var merged []string
	var i, j, k int
	for n := range b {
		at, found := inOriginal[n]
		to, both := inChanged[n]
		if !found || !both {
			continue
		}
		// Up to this line, which is in all three.
		if slices.Equal(b[i:n], c[k:to]) {
			merged = append(merged, o[j:at]...)
		} else {
			for ; j < at && strings.TrimSpace(o[j]) == ""; j++ {
				merged = append(merged, o[j])
			}
			merged = append(merged, c[k:to]...)
		}
		merged = append(merged, o[at])
		i, j, k = n+1, at+1, to+1
	}
	return endedAs(original, strings.Join(merged[:len(merged)-1], ""))
}

// endedAs returns a text with a line break at the end only if the original has one.
func endedAs(original, text string) string {
	if strings.HasSuffix(original, "\n") {
		return text
	}
	return strings.TrimSuffix(text, "\n")
}

var aligned = regexp.MustCompile(`(\S)\s+`)

// squeezed returns lines with single spaces, except for their indentation, as kyaml prints aligned comments and values.
func squeezed(lines []string) (squeezed []string) {
	for _, line := range lines {
		squeezed = append(squeezed, aligned.ReplaceAllString(line, "$1 "))
	}
	return squeezed
}

// matches returns the indexes in other of the lines of one that both have, by a difference algorithm.
func matches(one, other []string) map[int]int {
	found := map[int]int{}
	for _, block := range difflib.NewMatcherWithJunk(one, other, false, nil).GetMatchingBlocks() {
		for i := range block.Size {
			found[block.A+i] = block.B + i
		}
	}
	return found
}
