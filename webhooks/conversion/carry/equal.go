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

// equality tells whether two values of one type, which lie at these addresses, are equal. That is what reflect.DeepEqual
// says, except that times are compared by the moment.
//
// Every conversion compares every field, nearly always to find it equal, and by reflection that would be the largest part
// of it. This file is the only one that knows addresses. It reads only, and what lies there it has from reflection.
type equality func(have, want unsafe.Pointer) bool

// of compares two fields of objects, or elements of lists in them.
func (e equality) of(have, want reflect.Value) bool {
	return e(have.Addr().UnsafePointer(), want.Addr().UnsafePointer())
}

var (
	// leaves are the structs that are compared, and carried, as a whole.
	leaves = map[reflect.Type]equality{
		reflect.TypeFor[metav1.Time]():          by((*metav1.Time).Equal),
		reflect.TypeFor[metav1.Duration]():      by(sameDuration),
		reflect.TypeFor[runtime.RawExtension](): by(sameExtension),
		reflect.TypeFor[apiextensionsv1.JSON](): by(sameJSON),
	}
	// plain are the kinds that are compared in the same way whatever the type is called.
	plain = map[reflect.Kind]equality{
		reflect.String: func(have, want unsafe.Pointer) bool { return *(*string)(have) == *(*string)(want) },
		reflect.Bool:   func(have, want unsafe.Pointer) bool { return *(*bool)(have) == *(*bool)(want) },
		reflect.Int:    func(have, want unsafe.Pointer) bool { return *(*int)(have) == *(*int)(want) },
		reflect.Int32:  func(have, want unsafe.Pointer) bool { return *(*int32)(have) == *(*int32)(want) },
		reflect.Int64:  func(have, want unsafe.Pointer) bool { return *(*int64)(have) == *(*int64)(want) },
	}
)

// equalityOf values of a type, of which the rest of the shape is known.
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
		return sameLists(s.elem.equal, t.Elem().Size())
	case kind == reflect.Map && t.Key().Kind() == reflect.String && t.Elem().Kind() == reflect.String:
		return by(sameTables)
	default:
		return func(have, want unsafe.Pointer) bool {
			return reflect.DeepEqual(reflect.NewAt(t, have).Interface(), reflect.NewAt(t, want).Interface())
		}
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

func sameDuration(have, want *metav1.Duration) bool { return *have == *want }

// sameTables also compares maps of other types of strings, which lie in memory in the same way.
func sameTables(have, want *map[string]string) bool {
	return maps.Equal(*have, *want) && (*have == nil) == (*want == nil)
}

func sameJSON(have, want *apiextensionsv1.JSON) bool { return sameBytes(have.Raw, want.Raw) }

func sameExtension(have, want *runtime.RawExtension) bool {
	return sameBytes(have.Raw, want.Raw) && reflect.DeepEqual(have.Object, want.Object)
}

func sameBytes(have, want []byte) bool {
	return bytes.Equal(have, want) && (have == nil) == (want == nil)
}
