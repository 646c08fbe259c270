// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"encoding/json"
	"reflect"
	"strings"
)

// restore sets a lost field in an object, if the plain rules returned the same value as when the field was stored. Otherwise a client
// changed the field since, and the stored value is dropped. A value that does not match the type is dropped, too: every client can write
// the annotation, and a wrong one must not make the object unreadable.
func (f field) restore(s *shape, object reflect.Value) {
	f.restoreIn(s, object, names(f.Path))
}

// restoreIn restores the field in a value; path is the rest of the path within the value.
func (f field) restoreIn(s *shape, v reflect.Value, path []string) {
	switch {
	case len(path) == 0:
		f.set(v)
	case s.members != nil:
		if m, in, ok := s.find(v, path[0]); ok {
			f.restoreIn(m, in, path[1:])
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		f.restoreIn(s.elem, v.Elem(), path)
	case v.Kind() == reflect.Slice:
		f.restoreInList(s, v, path)
	}
}

// restoreInList restores the field in an element of a list, or removes the element.
func (f field) restoreInList(s *shape, list reflect.Value, path []string) {
	for i := range list.Len() {
		element := list.Index(i)
		if k := s.elem.keyOf(element); k == "" || k != path[0] {
			continue
		}
		if len(path) > 1 || f.Is != nil {
			f.restoreIn(s.elem, element, path[1:])
		} else if f.unchanged(element) {
			list.Set(reflect.AppendSlice(list.Slice3(0, i, i), list.Slice(i+1, list.Len())))
		}
		return
	}
}

// find returns the member with a name, also of embedded structs; false if there is none.
func (s *shape) find(v reflect.Value, name string) (*shape, reflect.Value, bool) {
	for _, m := range s.members {
		if m.name == name && name != "" {
			return m.shape, v.Field(m.index), true
		}
		if m.name == "" && m.members != nil {
			if found, in, ok := m.find(v.Field(m.index), name); ok {
				return found, in, true
			}
		}
	}
	return nil, reflect.Value{}, false
}

// set sets a value to the lost field, if the value did not change.
func (f field) set(v reflect.Value) {
	if f.Is == nil || !v.CanSet() || !f.unchanged(v) {
		return
	}
	value := reflect.New(v.Type()).Elem()
	if err := decode(f.Is, value); err == nil {
		v.Set(value)
	}
}

// decode is json.Unmarshal without the check of the syntax, for a part of a text that was decoded before.
func decode(text json.RawMessage, v reflect.Value) error {
	if v.Kind() == reflect.Pointer && string(text) != "null" {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if own, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		return own.UnmarshalJSON(text)
	}
	return json.Unmarshal(text, v.Addr().Interface())
}

// unchanged reports whether a value is the same as when the field was stored.
func (f field) unchanged(v reflect.Value) bool {
	is, err := fingerprint(v)
	return err == nil && is == f.Was
}

// names splits a path into its names.
func names(path string) []string {
	found := strings.Split(strings.TrimPrefix(path, "/"), "/")
	if strings.Contains(path, "~") {
		for i := range found {
			found[i] = unescaper.Replace(found[i])
		}
	}
	return found
}
