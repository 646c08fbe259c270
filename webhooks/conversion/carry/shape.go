// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package carry

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shape is all that this package needs to know of a type. It is computed once: most of what reflection reports about a
// type is slow to ask for. The types of an API are trees, so that a shape has an end.
type shape struct {
	// equal compares two values of the type.
	equal equality
	// members of a struct that is compared and carried member by member; nil for all other types.
	members []member
	// elem is the shape behind a pointer, or of the elements of a list; nil for all other types.
	elem *shape
	// key leads to the field by which an element of a list is found again; nil when there is none.
	key []int
}

// member of a struct, and where it is in it.
type member struct {
	*shape
	index int
	// name of the member in a path; empty when it is embedded, so that its own members appear in its place.
	name string
}

var (
	// shapes holds the shape of every type that was met.
	shapes sync.Map

	// copied are the structs in an object that are the same in every version.
	copied = []reflect.Type{reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[metav1.ObjectMeta]()}
)

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	found := newShape(t)
	shapes.Store(t, found)
	return found
}

func newShape(t reflect.Type) *shape {
	s := &shape{}
	if _, leaf := leaves[t]; !leaf {
		switch t.Kind() {
		case reflect.Struct:
			s.members, s.key = membersOf(t), keyOf(t)
		case reflect.Pointer, reflect.Slice:
			s.elem = shapeOf(t.Elem())
		default:
		}
	}
	s.equal = equalityOf(t, s)
	return s
}

// membersOf a struct, less those that conversion copies as they are.
func membersOf(t reflect.Type) []member {
	var found []member
	for i := range t.NumField() {
		if f := t.Field(i); !slices.Contains(copied, f.Type) {
			found = append(found, member{shape: shapeOf(f.Type), index: i, name: nameOf(f)})
		}
	}
	return found
}

func nameOf(f reflect.StructField) string {
	tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	switch {
	case tag == "-":
		return f.Name
	case tag == "" && (f.Anonymous || strings.Contains(options, "inline")):
		return ""
	case tag == "":
		return f.Name
	default:
		return tag
	}
}

// keyOf the elements of a list of that type.
func keyOf(t reflect.Type) []int {
	for _, candidate := range []string{"Type", "Name"} {
		if f, ok := t.FieldByName(candidate); ok && f.Type.Kind() == reflect.String {
			return f.Index
		}
	}
	return nil
}

// keyOf an element of a list; empty when nothing identifies it.
func (s *shape) keyOf(element reflect.Value) string {
	if s.key == nil {
		return ""
	}
	return element.FieldByIndex(s.key).String()
}
