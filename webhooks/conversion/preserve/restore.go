// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// restoreAll sets the lost fields in an object, if the plain rules returned the same value as when the field was stored. Otherwise a client
// changed the field since, and the stored value is dropped. A value that does not match the type is dropped, too: every client can write
// the annotation, and a wrong one must not make the object unreadable.
func restoreAll(fields []field, s *shape, object reflect.Value) {
	var l lists
	for _, f := range fields {
		f.restoreIn(s, object, names(f.Path), &l)
	}
	l.sweep()
}

// restoreIn restores the field in a value; path is the rest of the path within the value.
func (f field) restoreIn(s *shape, v reflect.Value, path []string, l *lists) {
	switch {
	case len(path) == 0:
		f.set(v)
	case s.members != nil:
		if m, in, ok := s.find(v, path[0]); ok {
			f.restoreIn(m, in, path[1:], l)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		f.restoreIn(s.elem, v.Elem(), path, l)
	case v.Kind() == reflect.Slice:
		f.restoreInList(s, v, path, l)
	}
}

// restoreInList restores the field in an element of a list, or removes the element.
func (f field) restoreInList(s *shape, v reflect.Value, path []string, l *lists) {
	list := l.indexOf(s, v)
	i, ok := list.positions[path[0]]
	if !ok {
		return
	}
	if element := v.Index(i); len(path) > 1 || f.Is != nil {
		f.restoreIn(s.elem, element, path[1:], l)
	} else if f.unchanged(element) {
		list.removed[i] = true
	}
}

// lists are the lists with lost fields. Each is indexed once, and its elements are removed at the end: both for each field would take
// quadratic time, and every client can write an annotation with thousands of fields.
type lists struct {
	byAddress map[any]*indexed
	visited   []*indexed
}

// indexed is a list with the positions of its elements, by key.
type indexed struct {
	list      reflect.Value
	content   content
	positions map[string]int
	removed   map[int]bool
}

// content identifies the elements of a list, which a lost field may replace.
type content struct {
	first  any
	length int
}

func contentOf(list reflect.Value) content {
	if list.Len() == 0 {
		return content{}
	}
	return content{list.Index(0).Addr().Interface(), list.Len()}
}

// indexOf returns the index of a list.
func (l *lists) indexOf(s *shape, list reflect.Value) *indexed {
	address := list.Addr().Interface()
	found := l.byAddress[address]
	if found != nil && found.content == contentOf(list) {
		return found
	}
	found = &indexed{list: list, content: contentOf(list), positions: make(map[string]int, list.Len()), removed: map[int]bool{}}
	for i := range list.Len() {
		k := s.elem.key(list.Index(i))
		if _, known := found.positions[k]; k != "" && !known {
			found.positions[k] = i
		}
	}
	if l.byAddress == nil {
		l.byAddress = map[any]*indexed{}
	}
	l.byAddress[address] = found
	l.visited = append(l.visited, found)
	return found
}

// sweep removes the elements that are to be removed: those of inner lists first, because the others move them.
func (l *lists) sweep() {
	for _, in := range slices.Backward(l.visited) {
		if len(in.removed) == 0 || in.content != contentOf(in.list) {
			continue
		}
		kept := 0
		for i := range in.list.Len() {
			if in.removed[i] {
				continue
			}
			if kept < i {
				in.list.Index(kept).Set(in.list.Index(i))
			}
			kept++
		}
		in.list.Set(in.list.Slice(0, kept))
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
