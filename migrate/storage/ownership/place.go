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

package ownership

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// place is where a value is in a JSON document: a JSON Pointer, with indices of lists.
type place string

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func (p place) key(name string) place { return p + "/" + place(escaper.Replace(name)) }
func (p place) index(i int) place     { return p + "/" + place(strconv.Itoa(i)) }

// field is what owns a value, in the terms of managedFields.
type field struct {
	path fieldpath.Path
	// elements are the elements of lists and the keys of maps that the path leads through, and the fields that identify the
	// elements. Who owns something in an element owns that there is one.
	elements []fieldpath.Path
}

// fieldsOf finds the field of every value in an object that is no list or map, or an empty one. The schema says what lists and
// maps are: owned as a whole, or element by element. What the schema does not know is treated as the API server does: maps key
// by key, lists as a whole.
func fieldsOf(structural *schema.Structural, object map[string]any) map[place]field {
	found := fields{}
	for _, part := range []string{"spec", "status"} {
		if value, ok := object[part]; ok {
			found.walk(member(structural, part), value, place("").key(part), field{path: fieldpath.MakePathOrDie(part)})
		}
	}
	return found
}

type fields map[place]field

func (f fields) walk(structural *schema.Structural, content any, at place, owner field) {
	switch content := content.(type) {
	case map[string]any:
		if len(content) == 0 || structural != nil && structural.XMapType != nil && *structural.XMapType == "atomic" {
			f.whole(content, at, owner)
			return
		}
		for name, value := range content {
			child := owner.child(fieldpath.PathElement{FieldName: &name})
			if structural == nil || !isProperty(structural, name) { // A key that somebody chose is like an element of a list.
				child.elements = append(slices.Clone(child.elements), child.path)
			}
			f.walk(member(structural, name), value, at.key(name), child)
		}
	case []any:
		f.list(structural, content, at, owner)
	default:
		f[at] = owner
	}
}

func (f fields) list(structural *schema.Structural, content []any, at place, owner field) {
	kind := "atomic"
	if structural != nil && structural.XListType != nil {
		kind = *structural.XListType
	}
	switch {
	case len(content) == 0 || kind == "atomic":
		f.whole(content, at, owner)
	case kind == "set":
		for i, element := range content {
			v := value.NewValueInterface(element)
			f[at.index(i)] = owner.child(fieldpath.PathElement{Value: &v})
		}
	default:
		for i, element := range content {
			if key, ok := keyOf(structural.XListMapKeys, element); ok {
				f.walk(structural.Items, element, at.index(i), owner.element(key))
			}
		}
	}
}

// whole says that everything below a place belongs to one field.
func (f fields) whole(content any, at place, owner field) {
	for _, below := range scalars(content, at) {
		f[below] = owner
	}
}

// child is the field below a field.
func (f field) child(element fieldpath.PathElement) field {
	return field{path: append(f.path.Copy(), element), elements: f.elements}
}

// element is the field of an element of a list that is identified by keys.
func (f field) element(key fieldpath.PathElement) field {
	child := f.child(key)
	child.elements = append(slices.Clone(f.elements), child.path)
	for _, part := range *key.Key {
		child.elements = append(child.elements, append(child.path.Copy(), fieldpath.PathElement{FieldName: &part.Name}))
	}
	return child
}

func keyOf(names []string, element any) (fieldpath.PathElement, bool) {
	content, ok := element.(map[string]any)
	if !ok {
		return fieldpath.PathElement{}, false
	}
	keys := value.FieldList{}
	for _, name := range names {
		part, ok := content[name]
		if !ok {
			return fieldpath.PathElement{}, false
		}
		keys = append(keys, value.Field{Name: name, Value: value.NewValueInterface(part)})
	}
	keys.Sort()
	return fieldpath.PathElement{Key: &keys}, true
}

func isProperty(structural *schema.Structural, name string) bool {
	_, ok := structural.Properties[name]
	return ok
}

// member is the schema of a key of a map; nil when the schema does not know it.
func member(structural *schema.Structural, name string) *schema.Structural {
	if structural == nil {
		return nil
	}
	if known, ok := structural.Properties[name]; ok {
		return &known
	}
	if structural.AdditionalProperties != nil {
		return structural.AdditionalProperties.Structural
	}
	return nil
}

// scalars are the places, from one place on, of everything that is no list or map, or an empty one.
func scalars(content any, at place) (found []place) {
	switch content := content.(type) {
	case map[string]any:
		for name, value := range content {
			found = append(found, scalars(value, at.key(name))...)
		}
		if len(content) > 0 {
			return found
		}
	case []any:
		for i, value := range content {
			found = append(found, scalars(value, at.index(i))...)
		}
		if len(content) > 0 {
			return found
		}
	}
	return append(found, at)
}

// owned are the places of the values that a set of managedFields means in an object, spec and status only.
func owned(set *fieldpath.Set, object map[string]any) (found []place) {
	for _, part := range []string{"spec", "status"} {
		element := fieldpath.PathElement{FieldName: &part}
		if content, ok := object[part]; ok {
			found = append(found, ownedElement(set, element, content, place("").key(part))...)
		}
	}
	return found
}

func ownedBelow(set *fieldpath.Set, content any, at place) (found []place) {
	seen := func(element fieldpath.PathElement) {
		if value, below, ok := resolve(element, content, at); ok {
			found = append(found, ownedElement(set, element, value, below)...)
		}
	}
	set.Members.Iterate(seen)
	set.Children.Iterate(func(element fieldpath.PathElement) {
		if !set.Members.Has(element) {
			seen(element)
		}
	})
	return found
}

// ownedElement looks at one element of a set. An element without anything below it is a value, a list that is owned as a whole,
// or no more than the fact that there is a map.
func ownedElement(set *fieldpath.Set, element fieldpath.PathElement, content any, at place) []place {
	if children, ok := set.Children.Get(element); ok {
		return ownedBelow(children, content, at)
	}
	if !set.Members.Has(element) {
		return nil
	}
	if table, ok := content.(map[string]any); ok && len(table) > 0 {
		return nil
	}
	return scalars(content, at)
}

// resolve finds what an element of a path means below a value.
func resolve(element fieldpath.PathElement, content any, at place) (any, place, bool) {
	if element.FieldName != nil {
		table, _ := content.(map[string]any)
		value, ok := table[*element.FieldName]
		return value, at.key(*element.FieldName), ok
	}
	list, _ := content.([]any)
	for i, candidate := range list {
		if matches(element, candidate, i) {
			return candidate, at.index(i), true
		}
	}
	return nil, "", false
}

func matches(element fieldpath.PathElement, candidate any, index int) bool {
	switch {
	case element.Index != nil:
		return *element.Index == index
	case element.Value != nil:
		return value.Equals(*element.Value, value.NewValueInterface(candidate))
	case element.Key != nil:
		content, ok := candidate.(map[string]any)
		for _, part := range *element.Key {
			if !ok || !value.Equals(part.Value, value.NewValueInterface(content[part.Name])) {
				return false
			}
		}
		return ok
	}
	return false
}
