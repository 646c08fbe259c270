// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// render prints a changed document. kyaml drops blank lines, alignment and the like, so that its output is merged with the original:
// lines that it prints before the change as after it stay as they are in the original.
func render(original string, file *yaml.Node, want map[string]any) (string, error) {
	if trimmed := strings.TrimSpace(original); json.Valid([]byte(trimmed)) {
		return renderJSON(original, want)
	}
	_, before, err := parse(original)
	if err != nil {
		return "", err
	}
	comments := commentsOf(before)
	base, err := encode(original, before)
	if err != nil {
		return "", err
	}
	changed, err := encode(original, file)
	if err != nil {
		return "", err
	}
	for _, candidate := range []string{merge(original, base, changed), changed} {
		if got, _, err := parse(candidate); err != nil || !reflect.DeepEqual(got, want) {
			continue
		}
		if !slices.ContainsFunc(comments, func(comment string) bool { return !strings.Contains(candidate, comment) }) {
			return candidate, nil
		}
	}
	return "", errors.New("the converted document cannot be written as YAML without losing a value or a comment")
}

// encode prints with the indentation of the original.
func encode(original string, file *yaml.Node) (string, error) {
	var out bytes.Buffer
	style := yaml.SequenceIndentStyle(yaml.DeriveSeqIndentStyle(original))
	encoder := yaml.NewEncoderWithOptions(&out, &yaml.EncoderOptions{SeqIndent: style})
	encoder.SetIndent(indentation(file.Content[0]))
	h := hidden{}
	h.hide(file)
	err := errors.Join(encoder.Encode(file), encoder.Close())
	return h.show(out.String()), err
}

// hidden are characters because of which the encoder would put a block of text, such as a whole Terraform module, in double quotes.
// While it prints, characters of the private use area stand for them.
type hidden map[string]string

const firstPrivate = '\ue000'

var troublesome = regexp.MustCompile(`(?m)\t| +$|[\x{10000}-\x{10ffff}]`)

func (h hidden) hide(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.Style&yaml.LiteralStyle != 0 {
		node.Value = troublesome.ReplaceAllStringFunc(node.Value, func(text string) string {
			if h[text] == "" {
				h[text] = string(firstPrivate + rune(len(h))) //nolint:gosec // There are few.
			}
			return h[text]
		})
	}
	for _, inner := range node.Content {
		h.hide(inner)
	}
}

func (h hidden) show(text string) string {
	for original, private := range h {
		text = strings.ReplaceAll(text, private, original)
	}
	return text
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

// commentsOf are the lines of all comments that must stay: those of a status go with it.
func commentsOf(node *yaml.Node) []string {
	comments := strings.FieldsFunc(node.HeadComment+"\n"+node.LineComment+"\n"+node.FootComment, func(r rune) bool { return r == '\n' })
	for i, inner := range node.Content {
		if node.Kind != yaml.MappingNode || node.Content[i-i%2].Value != "status" {
			comments = append(comments, commentsOf(inner)...)
		}
	}
	return comments
}

// merge is a three-way merge by lines: where base and changed are equal, original is taken, and changed elsewhere.
func merge(original, base, changed string) string {
	const end = "\x00" // It is in all three, so that the last lines are handled as all others.
	o, b, c := append(lines(original), end), append(lines(base), end), append(lines(changed), end)
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
	out := strings.Join(merged[:len(merged)-1], "")
	if !strings.HasSuffix(original, "\n") {
		return strings.TrimSuffix(out, "\n")
	}
	return out
}

func lines(text string) []string {
	return slices.Collect(strings.Lines(strings.TrimSuffix(text, "\n") + "\n"))
}

var aligned = regexp.MustCompile(`(\S)\s+`)

// squeezed are lines with single spaces, but for their indentation: how kyaml prints what was aligned.
func squeezed(lines []string) (squeezed []string) {
	for _, line := range lines {
		squeezed = append(squeezed, aligned.ReplaceAllString(line, "$1 "))
	}
	return squeezed
}

// matches are the lines of one text that are in the other, by their indices.
func matches(one, other []string) map[int]int {
	found := map[int]int{}
	for _, block := range difflib.NewMatcherWithJunk(one, other, false, nil).GetMatchingBlocks() {
		for i := range block.Size {
			found[block.A+i] = block.B + i
		}
	}
	return found
}

// renderJSON prints JSON as kubectl does: with sorted keys.
func renderJSON(original string, want map[string]any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if _, rest, found := strings.Cut(original, "\n"); found {
		encoder.SetIndent("", rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))])
	}
	if err := encoder.Encode(want); err != nil {
		return "", err
	}
	if !strings.HasSuffix(original, "\n") {
		return strings.TrimSuffix(out.String(), "\n"), nil
	}
	return out.String(), nil
}
