// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// filler draws values that a schema admits: of every field, with every limit, by the rules in CEL.
type filler struct {
	t      *testing.T
	random *rand.Rand
	// empty draws empty strings, lists and objects as well. In v1beta2 Go's types can not tell those from absent, so that
	// nobody who writes with them can write one.
	empty bool
}

// draw a value for a field.
func (f filler) draw(path string, schema *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case len(schema.Enum) > 0:
		return f.member(schema.Enum)
	case schema.Type == "object":
		return f.object(path, schema)
	case schema.Type == "array":
		return f.list(path, schema)
	case schema.Type == "string":
		return f.text(path, schema)
	case schema.Type == "integer":
		return f.integer(schema)
	case schema.Type == "boolean":
		return f.chance(0.5)
	default:
		require.Failf(f.t, "no value", "%s is of type %q, which is new to this test", path, schema.Type)
		return nil
	}
}

func (f filler) chance(p float64) bool { return f.random.Float64() < p }

func pick[T any](f filler, choices ...T) T { return choices[f.random.Intn(len(choices))] }

func (f filler) member(values []apiextensionsv1.JSON) any {
	return strings.Trim(string(pick(f, values...).Raw), `"`)
}

func (f filler) object(path string, schema *apiextensionsv1.JSONSchemaProps) any {
	content := map[string]any{}
	names := slices.Sorted(maps.Keys(schema.Properties))
	for _, name := range names {
		if slices.Contains(schema.Required, name) || f.chance(0.5) {
			content[name] = f.draw(path+"."+name, ptr(schema.Properties[name]))
		}
	}
	if len(names) > 0 && schema.MinProperties != nil && len(content) == 0 {
		name := pick(f, names...)
		content[name] = f.draw(path+"."+name, ptr(schema.Properties[name]))
	}
	if schema.AdditionalProperties != nil {
		for range f.length() {
			content[f.word()] = f.draw(path+"{}", schema.AdditionalProperties.Schema)
		}
	}
	if schema.XPreserveUnknownFields != nil && f.chance(0.3) {
		content["future"+f.word()] = f.anything()
	}
	if mend, found := rules[suffix(path)]; found {
		mend(f, content)
	}
	return content
}

func (f filler) list(path string, schema *apiextensionsv1.JSONSchemaProps) any {
	length := f.length()
	if schema.MinItems != nil {
		length = max(length, int(*schema.MinItems))
	}
	items, seen := []any{}, map[string]bool{}
	for range length {
		item := f.draw(path+"[]", schema.Items.Schema)
		if identity, unique := identity(schema, item); !unique || !seen[identity] {
			items, seen[identity] = append(items, item), true
		}
	}
	return items
}

// length of a list or table.
func (f filler) length() int {
	if f.empty {
		return f.random.Intn(3)
	}
	return 1 + f.random.Intn(2)
}

// identity of an element in a list that may hold it only once. Where v1beta1 has no such rule, two of one name are left out
// all the same: they may be there, but not with anything else that v1beta2 refuses. See TestTheseViolationsDoNotRatchet.
func identity(schema *apiextensionsv1.JSONSchemaProps, item any) (_ string, unique bool) {
	names := schema.XListMapKeys
	if schema.XListType == nil {
		names = []string{"name"}
	} else if *schema.XListType == "set" {
		return fmt.Sprint(item), true
	}
	var keys []any
	for _, name := range names {
		content, _ := item.(map[string]any)
		key, found := content[name]
		if !found {
			return "", false
		}
		keys = append(keys, key)
	}
	return fmt.Sprintf("%q", keys), len(keys) > 0
}

func (f filler) integer(schema *apiextensionsv1.JSONSchemaProps) any {
	low, high := int64(0), int64(1<<31-1)
	if schema.Minimum != nil {
		low = int64(*schema.Minimum)
	}
	if schema.Maximum != nil {
		high = int64(*schema.Maximum)
	}
	return pick(f, low, high, low+f.random.Int63n(high-low+1), low+f.random.Int63n(min(high-low+1, 3000)))
}

func (f filler) text(path string, schema *apiextensionsv1.JSONSchemaProps) any {
	if sample, found := samples[suffix(path)]; found {
		return sample(f)
	}
	if schema.Pattern != "" {
		sample, found := patterns[schema.Pattern]
		require.True(f.t, found, "the pattern %s of %s is new to this test: give it samples", schema.Pattern, path)
		return sample(f)
	}
	if schema.Format == "date-time" { // In the form that clients in Go write, all of which go by metav1.Time.
		return time.Unix(f.random.Int63n(1<<31), 0).UTC().Format(time.RFC3339)
	}
	words := []string{f.word(), f.word() + " " + f.word(), "https://" + f.word(), "<&>\"\\\n\t", "größer – 大", "null", "7"}
	if schema.MinLength == nil && f.empty {
		words = append(words, "")
	}
	text := []rune(pick(f, words...))
	if schema.MaxLength != nil && len(text) > int(*schema.MaxLength) {
		text = text[:*schema.MaxLength]
	}
	return string(text)
}

// word is a name that Kubernetes accepts nearly everywhere.
func (f filler) word() string {
	word := make([]byte, 1+f.random.Intn(12))
	for i := range word {
		word[i] = byte('a' + f.random.Intn(26))
	}
	return string(word)
}

// anything is what a field may hold of which nothing is known.
func (f filler) anything() any {
	return pick[any](f, true, int64(7), 2.5, "text", []any{}, map[string]any{}, []any{int64(1), "two", nil}, map[string]any{"a": map[string]any{"b": ""}})
}

// metadata are random labels and annotations.
func (f filler) metadata() map[string]any {
	labels, annotations := map[string]any{}, map[string]any{}
	for range f.random.Intn(3) {
		labels["example.com/"+f.word()] = f.word()
		annotations[f.word()+".example.com/"+f.word()] = f.text("", &apiextensionsv1.JSONSchemaProps{})
	}
	metadata := map[string]any{}
	for name, table := range map[string]map[string]any{"labels": labels, "annotations": annotations} {
		if len(table) > 0 {
			metadata[name] = table
		}
	}
	if f.chance(0.3) {
		metadata["finalizers"] = []any{"example.com/" + f.word()}
	}
	return metadata
}

func ptr[T any](v T) *T { return &v }

// suffix is the last two names of a path: enough to tell fields that have rules of their own.
func suffix(path string) string {
	names := strings.Split(path, ".")
	return strings.Join(names[max(0, len(names)-2):], ".")
}
