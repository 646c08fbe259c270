// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package preserve

import (
	"bytes"
	"maps"
	"reflect"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// equality reports whether two values of one type are equal. It returns the same result as reflect.DeepEqual, except that times are equal
// if they are the same instant.
type equality func(have, want reflect.Value) bool

var (
	// leaves are the structs that are compared and stored as a whole, with their equality.
	leaves = map[reflect.Type]equality{
		reflect.TypeFor[metav1.Time]():          compareAddressable((*metav1.Time).Equal),
		reflect.TypeFor[metav1.Duration]():      compareAddressable(sameDuration),
		reflect.TypeFor[runtime.RawExtension](): compareAddressable(sameExtension),
		reflect.TypeFor[apiextensionsv1.JSON](): compareAddressable(sameJSON),
	}
	// plain has the equality of basic types, and of types that are defined from them.
	plain = map[reflect.Kind]equality{
		reflect.String: func(have, want reflect.Value) bool { return have.String() == want.String() },
		reflect.Bool:   func(have, want reflect.Value) bool { return have.Bool() == want.Bool() },
		reflect.Int:    sameNumbers,
		reflect.Int32:  sameNumbers,
		reflect.Int64:  sameNumbers,
	}
)

// equalityOf returns the equality for a type. All other fields of its shape must be set.
func equalityOf(t reflect.Type, s *shape) equality {
	if leaf, ok := leaves[t]; ok {
		return leaf
	}
	switch kind := t.Kind(); {
	case plain[kind] != nil:
		return plain[kind]
	case kind == reflect.Struct:
		return sameMembers(s.members)
	case kind == reflect.Pointer:
		return samePointers(s.elem.equal)
	case kind == reflect.Slice:
		return sameLists(s.elem.equal)
	case t == reflect.TypeFor[map[string]string]():
		return compareAddressable(sameStringMaps)
	default:
		return func(have, want reflect.Value) bool { return reflect.DeepEqual(have.Interface(), want.Interface()) }
	}
}

func sameNumbers(have, want reflect.Value) bool { return have.Int() == want.Int() }

func sameMembers(members []member) equality {
	return func(have, want reflect.Value) bool {
		for i := range members {
			m := &members[i]
			if !m.equal(have.Field(m.index), want.Field(m.index)) {
				return false
			}
		}
		return true
	}
}

func samePointers(equal equality) equality {
	return func(have, want reflect.Value) bool {
		if have.IsNil() || want.IsNil() {
			return have.IsNil() == want.IsNil()
		}
		return equal(have.Elem(), want.Elem())
	}
}

func sameLists(equal equality) equality {
	return func(have, want reflect.Value) bool {
		if have.Len() != want.Len() || have.IsNil() != want.IsNil() {
			return false
		}
		for i := range have.Len() {
			if !equal(have.Index(i), want.Index(i)) {
				return false
			}
		}
		return true
	}
}

// compareAddressable returns an equality that compares addressable values without copying them. All parts of an object are addressable.
func compareAddressable[T any](equal func(have, want *T) bool) equality {
	return func(have, want reflect.Value) bool {
		return equal(have.Addr().Interface().(*T), want.Addr().Interface().(*T))
	}
}

func sameDuration(have, want *metav1.Duration) bool { return *have == *want }

func sameStringMaps(have, want *map[string]string) bool {
	return maps.Equal(*have, *want) && (*have == nil) == (*want == nil)
}

func sameJSON(have, want *apiextensionsv1.JSON) bool { return sameBytes(have.Raw, want.Raw) }

func sameExtension(have, want *runtime.RawExtension) bool {
	return sameBytes(have.Raw, want.Raw) && reflect.DeepEqual(have.Object, want.Object)
}

func sameBytes(have, want []byte) bool {
	return bytes.Equal(have, want) && (have == nil) == (want == nil)
}
