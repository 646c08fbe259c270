// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Field is one field of an object before and after a step. A list to which the step adds one element is described by that element.
type Field struct {
	// Path is a JSON pointer (RFC 6901) through objects, for example /spec/workspaceName.
	Path string `json:"path"`
	// Element says that the path is a list, and that before and after are an element of it. Key is the field that identifies an element;
	// empty for a list of strings.
	Element bool   `json:"element,omitempty"`
	Key     string `json:"key,omitempty"`
	// Before is empty if the field or element did not exist.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after"`
}

// FieldState is where a live object is between before and after.
type FieldState string

const (
	// Pending: the field has the value of before the step.
	Pending FieldState = "Pending"
	// Applied: the field has what the step writes. Fields that were added to it do not count.
	Applied FieldState = "Applied"
	// Changed: the field has another value.
	Changed FieldState = "Changed"
)

// State compares a live object with the field.
func (f *Field) State(object map[string]any) (FieldState, error) {
	before, after, err := f.values()
	if err != nil {
		return "", err
	}
	live, found := find(object, f.path())
	if f.Element {
		live, found = f.element(live, after)
	}
	switch {
	case found && covers(after, live):
		return Applied, nil
	case found == (f.Before != nil) && (!found || reflect.DeepEqual(before, normal(live))):
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
		list, _ := find(object, path)
		elements, _ := list.([]any)
		_, after, err := f.values()
		if err != nil {
			return err
		}
		elements = slices.Clone(elements)
		i := slices.IndexFunc(elements, func(element any) bool { return f.same(element, after) })
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
	return set(object, path, value, exists)
}

// element of a list which has the same key as another element.
func (f *Field) element(list, like any) (any, bool) {
	elements, _ := list.([]any)
	for _, element := range elements {
		if f.same(element, like) {
			return element, true
		}
	}
	return nil, false
}

func (f *Field) same(a, b any) bool {
	if f.Key == "" {
		return reflect.DeepEqual(a, b)
	}
	one, isObject := a.(map[string]any)
	other, isToo := b.(map[string]any)
	return isObject && isToo && reflect.DeepEqual(one[f.Key], other[f.Key])
}

func (f *Field) values() (before, after any, err error) {
	if f.Before != nil {
		if err := json.Unmarshal(f.Before, &before); err != nil {
			return nil, nil, fmt.Errorf("field %s: reading before: %w", f.Path, err)
		}
	}
	if err := json.Unmarshal(f.After, &after); err != nil {
		return nil, nil, fmt.Errorf("field %s: reading after: %w", f.Path, err)
	}
	return normal(before), normal(after), nil
}

func (f *Field) path() []string {
	parts := strings.Split(f.Path, "/")[1:]
	for i := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
	}
	return parts
}

func find(content any, path []string) (any, bool) {
	for _, part := range path {
		parent, isObject := content.(map[string]any)
		if !isObject {
			return nil, false
		}
		child, found := parent[part]
		if !found {
			return nil, false
		}
		content = child
	}
	return content, true
}

func set(object map[string]any, path []string, value any, exists bool) error {
	if len(path) == 1 {
		if exists {
			object[path[0]] = value
		} else {
			delete(object, path[0])
		}
		return nil
	}
	child, found := object[path[0]]
	if !found && !exists {
		return nil
	}
	if !found {
		child = map[string]any{}
	}
	parent, isObject := child.(map[string]any)
	if !isObject {
		return fmt.Errorf("%s is not an object", path[0])
	}
	if err := set(parent, path[1:], value, exists); err != nil {
		return err
	}
	object[path[0]] = parent
	if !exists && len(parent) == 0 && path[0] != "spec" {
		delete(object, path[0])
	}
	return nil
}

// covers reports whether everything that is wanted exists; there may be more.
func covers(want, live any) bool {
	fields, isObject := want.(map[string]any)
	if !isObject {
		return reflect.DeepEqual(want, normal(live))
	}
	object, isObject := live.(map[string]any)
	for name, value := range fields {
		if !isObject || !covers(value, object[name]) {
			return false
		}
	}
	return isObject
}

// normal gives whole numbers the type that the decoder of unstructured objects gives them.
func normal(value any) any {
	switch value := value.(type) {
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, field := range value {
			copied[name] = normal(field)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i := range value {
			copied[i] = normal(value[i])
		}
		return copied
	}
	return value
}
