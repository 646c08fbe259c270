// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// shape is the information about a type that this package needs. It is computed once per type, because reflection is slow. API types are
// not recursive, so the computation ends.
type shape struct {
	// equal compares two values of the type.
	equal equality
	// members are the members of a struct that is compared and stored member by member; nil for all other types.
	members []member
	// elem is the shape of the target of a pointer, or of the elements of a list; nil for all other types.
	elem *shape
	// key returns what identifies an element of a list; empty when there is nothing.
	key func(element reflect.Value) string
}

// member is a member of a struct, with its index.
type member struct {
	*shape
	index int
	// name is the JSON name of the member; empty for an embedded struct, whose members are part of the outer struct.
	name string
}

var (
	// shapes caches the shapes by type.
	shapes sync.Map

	// copied are the embedded structs that are the same in every version, so that conversion copies them.
	copied = []reflect.Type{reflect.TypeFor[metav1.TypeMeta](), reflect.TypeFor[metav1.ObjectMeta]()}
)

// shapeOf returns the shape of a type, from the cache if it was computed before.
func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	found := newShape(t)
	shapes.Store(t, found)
	return found
}

// newShape computes the shape of a type.
func newShape(t reflect.Type) *shape {
	s := &shape{key: func(reflect.Value) string { return "" }}
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

// conversionData is the member of status that has lost fields. It is part of no comparison.
const conversionData = "ConversionData"

// membersOf returns the members of a struct, without those that conversion copies or sets itself.
func membersOf(t reflect.Type) []member {
	var found []member
	for i := range t.NumField() {
		if f := t.Field(i); !slices.Contains(copied, f.Type) && f.Name != conversionData {
			found = append(found, member{shape: shapeOf(f.Type), index: i, name: nameOf(f)})
		}
	}
	return found
}

// nameOf returns the JSON name of a member; empty for an embedded struct.
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

// keyOf returns the function for the key of a struct: the field that identifies it in a list.
func keyOf(t reflect.Type) func(element reflect.Value) string {
	for _, candidate := range []string{"Type", "Name"} {
		if f, ok := t.FieldByName(candidate); ok && f.Type.Kind() == reflect.String {
			return func(element reflect.Value) string { return element.FieldByIndex(f.Index).String() }
		}
	}
	return func(reflect.Value) string { return "" }
}
