// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Field is one field of an object before and after a step. A list to which the step adds one element is described by that element.
type Field struct {
	Path string `json:"path"` // Path is a JSON pointer (RFC 6901) through objects, for example /spec/workspaceName.
	// Element says that before and after are an element of the list at the path. Key identifies it; empty for a list of strings.
	Element bool            `json:"element,omitempty"`
	Key     string          `json:"key,omitempty"`
	Before  json.RawMessage `json:"before,omitempty"` // Before is empty if the field or element did not exist.
	After   json.RawMessage `json:"after"`
}

// FieldState is where a live object is between before and after.
type FieldState string

// States of fields.
const (
	Pending FieldState = "Pending" // The field has the value of before the step.
	Applied FieldState = "Applied" // The field has what the step writes. Fields that were added to it do not count.
	Changed FieldState = "Changed" // The field has another value.
)

// State compares a live object with the field.
func (f *Field) State(object map[string]any) (FieldState, error) {
	before, after, err := f.values()
	if err != nil {
		return "", err
	}
	live, found, _ := unstructured.NestedFieldNoCopy(object, f.path()...)
	if f.Element {
		elements, _ := live.([]any)
		i := f.index(elements, after)
		if found = i >= 0; found {
			live = elements[i]
		}
	}
	switch {
	case found && covers(after, live):
		return Applied, nil
	case found == (f.Before != nil) && (!found || reflect.DeepEqual(before, live)):
		return Pending, nil
	}
	return Changed, nil
}

// Set gives the field of an object the value of after.
func (f *Field) Set(object map[string]any) error {
	_, after, err := f.values()
	if err != nil {
		return err
	}
	return f.put(object, after, true)
}

// Revert gives the field of an object the value of before. A parent that becomes empty by that is removed.
func (f *Field) Revert(object map[string]any) error {
	before, _, err := f.values()
	if err != nil {
		return err
	}
	return f.put(object, before, f.Before != nil)
}

func (f *Field) put(object map[string]any, value any, exists bool) error {
	path := f.path()
	if f.Element {
		elements, _, _ := unstructured.NestedSlice(object, path...)
		_, after, err := f.values()
		if err != nil {
			return err
		}
		i := f.index(elements, after)
		switch {
		case exists && i >= 0:
			elements[i] = value
		case exists:
			elements = append(elements, value)
		case i >= 0:
			elements = slices.Delete(elements, i, i+1)
		}
		value, exists = elements, len(elements) > 0
	}
	if !exists {
		remove(object, path)
		return nil
	}
	return unstructured.SetNestedField(object, value, path...)
}

// index of the element of a list which has the same key as another element.
func (f *Field) index(elements []any, like any) int {
	return slices.IndexFunc(elements, func(element any) bool { return f.same(element, like) })
}

func (f *Field) same(a, b any) bool {
	if f.Key == "" {
		return reflect.DeepEqual(a, b)
	}
	one, isObject := a.(map[string]any)
	other, isToo := b.(map[string]any)
	return isObject && isToo && reflect.DeepEqual(one[f.Key], other[f.Key])
}

// values decodes before and after as the content of unstructured objects is decoded.
func (f *Field) values() (before, after any, err error) {
	if f.Before != nil {
		err = utiljson.Unmarshal(f.Before, &before)
	}
	if err := errors.Join(err, utiljson.Unmarshal(f.After, &after)); err != nil {
		return nil, nil, fmt.Errorf("field %s: reading before and after: %w", f.Path, err)
	}
	return before, after, nil
}

func (f *Field) path() []string {
	parts := strings.Split(f.Path, "/")[1:]
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

// remove removes a field, and the parents that become empty by that, but for spec.
func remove(object map[string]any, path []string) {
	unstructured.RemoveNestedField(object, path...)
	for parents := path[:len(path)-1]; len(parents) > 0 && !slices.Equal(parents, []string{"spec"}); parents = parents[:len(parents)-1] {
		parent, found, err := unstructured.NestedMap(object, parents...)
		if !found || err != nil || len(parent) > 0 {
			return
		}
		unstructured.RemoveNestedField(object, parents...)
	}
}

// covers reports whether everything that is wanted exists; there may be more.
func covers(want, live any) bool {
	fields, isObject := want.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(want, live)
	}
	object, isObject := live.(map[string]any)
	for name, value := range fields {
		if !isObject || !covers(value, object[name]) {
			return false
		}
	}
	return isObject
}
