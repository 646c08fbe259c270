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

package carry

import (
	"bytes"
	"maps"
	"reflect"
	"unsafe"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// equality compares two values of one type, which lie at these addresses. It is what reflect.DeepEqual is, except that
// times are compared by the moment.
//
// Every conversion compares every field, nearly always to find that they are equal. Addresses make that a fraction of a
// conversion; by reflection it would be half of it. Nothing is written here, and no address leaves this file.
type equality func(have, want unsafe.Pointer) bool

// at gives the address of a value, which is part of an object.
func (e equality) of(have, want reflect.Value) bool {
	return e(have.Addr().UnsafePointer(), want.Addr().UnsafePointer())
}

// leaves are the structs that are compared, and carried, as a whole.
var leaves = map[reflect.Type]equality{
	reflect.TypeFor[metav1.Time]():          by((*metav1.Time).Equal),
	reflect.TypeFor[metav1.Duration]():      by(same[metav1.Duration]),
	reflect.TypeFor[runtime.RawExtension](): by(sameExtension),
	reflect.TypeFor[apiextensionsv1.JSON](): by(func(have, want *apiextensionsv1.JSON) bool { return sameBytes(have.Raw, want.Raw) }),
}

// equalityOf values of a type of that shape.
func equalityOf(t reflect.Type, s *shape) equality {
	if leaf, ok := leaves[t]; ok {
		return leaf
	}
	switch t.Kind() {
	case reflect.Struct:
		return sameMembers(s.members)
	case reflect.Pointer:
		return samePointers(s.elem.equal)
	case reflect.Slice:
		return sameLists(s.elem.equal, t.Elem().Size())
	case reflect.String:
		return func(have, want unsafe.Pointer) bool { return *(*string)(have) == *(*string)(want) }
	case reflect.Bool:
		return func(have, want unsafe.Pointer) bool { return *(*bool)(have) == *(*bool)(want) }
	case reflect.Int:
		return by(same[int])
	case reflect.Int32:
		return by(same[int32])
	case reflect.Int64:
		return by(same[int64])
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String {
			return by(sameTables)
		}
	default:
	}
	return func(have, want unsafe.Pointer) bool {
		return reflect.DeepEqual(reflect.NewAt(t, have).Interface(), reflect.NewAt(t, want).Interface())
	}
}

func sameMembers(members []member) equality {
	return func(have, want unsafe.Pointer) bool {
		for i := range members {
			m := &members[i]
			if !m.equal(unsafe.Add(have, m.offset), unsafe.Add(want, m.offset)) {
				return false
			}
		}
		return true
	}
}

func samePointers(equal equality) equality {
	return func(have, want unsafe.Pointer) bool {
		h, w := *(*unsafe.Pointer)(have), *(*unsafe.Pointer)(want)
		if h == nil || w == nil {
			return h == w
		}
		return equal(h, w)
	}
}

// list is how every list lies in memory.
type list struct {
	first         unsafe.Pointer
	length, space int
}

func sameLists(equal equality, size uintptr) equality {
	return func(have, want unsafe.Pointer) bool {
		h, w := (*list)(have), (*list)(want)
		if h.length != w.length || (h.first == nil) != (w.first == nil) {
			return false
		}
		for i := range h.length {
			if !equal(unsafe.Add(h.first, uintptr(i)*size), unsafe.Add(w.first, uintptr(i)*size)) {
				return false
			}
		}
		return true
	}
}

func by[T any](equal func(have, want *T) bool) equality {
	return func(have, want unsafe.Pointer) bool { return equal((*T)(have), (*T)(want)) }
}

func same[T comparable](have, want *T) bool { return *have == *want }

// sameTables also compares maps of other types of strings, which lie in memory in the same way.
func sameTables(have, want *map[string]string) bool {
	return maps.Equal(*have, *want) && (*have == nil) == (*want == nil)
}

func sameExtension(have, want *runtime.RawExtension) bool {
	return sameBytes(have.Raw, want.Raw) && reflect.DeepEqual(have.Object, want.Object)
}

func sameBytes(have, want []byte) bool {
	return bytes.Equal(have, want) && (have == nil) == (want == nil)
}
