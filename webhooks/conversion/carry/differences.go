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
	"maps"
	"reflect"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaves are structs that are compared and carried as a whole.
var leaves = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.Duration](), reflect.TypeFor[runtime.RawExtension](),
	reflect.TypeFor[apiextensionsv1.JSON](),
}

// differences lists the fields of spec and status in which have is not want.
func differences(have, want client.Object) ([]field, error) {
	h, w := reflect.ValueOf(have).Elem(), reflect.ValueOf(want).Elem()
	var lost []field
	for i := range h.NumField() {
		f := h.Type().Field(i)
		if f.Anonymous { // TypeMeta and ObjectMeta.
			continue
		}
		in, err := compare(h.Field(i), w.Field(i))
		if err != nil {
			return nil, err
		}
		lost = appendIn(lost, name(f), in)
	}
	return lost, nil
}

func compare(have, want reflect.Value) ([]field, error) {
	switch {
	case isBranch(have.Type()):
		return compareStruct(have, want)
	case have.Kind() == reflect.Pointer && isBranch(have.Type().Elem()) && !have.IsNil() && !want.IsNil():
		return compareStruct(have.Elem(), want.Elem())
	case have.Kind() == reflect.Slice:
		return compareList(have, want)
	default:
		return compareLeaf(have, want)
	}
}

// isBranch tells whether values of a type have fields that are compared one by one.
func isBranch(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !slices.Contains(leaves, t)
}

func compareStruct(have, want reflect.Value) ([]field, error) {
	var lost []field
	for i := range have.NumField() {
		in, err := compare(have.Field(i), want.Field(i))
		if err != nil {
			return nil, err
		}
		if len(in) > 0 {
			lost = appendIn(lost, names(have.Type())[i], in)
		}
	}
	return lost, nil
}

func compareLeaf(have, want reflect.Value) ([]field, error) {
	if equalLeaves(have, want) {
		return nil, nil
	}
	return whole(have, want)
}

// equalLeaves is reflect.DeepEqual, except that it compares times by the moment, and the usual types without allocating:
// every conversion compares every field.
func equalLeaves(have, want reflect.Value) bool {
	if have.Kind() == reflect.Pointer {
		if have.IsNil() || want.IsNil() {
			return have.IsNil() == want.IsNil()
		}
		have, want = have.Elem(), want.Elem()
	}
	switch have.Kind() {
	case reflect.String:
		return have.String() == want.String()
	case reflect.Bool:
		return have.Bool() == want.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		return have.Int() == want.Int()
	default:
		return equalValues(have, want)
	}
}

func equalValues(have, want reflect.Value) bool {
	switch h := have.Addr().Interface().(type) {
	case *metav1.Time:
		return h.Equal(want.Addr().Interface().(*metav1.Time))
	case *map[string]string:
		w := *want.Addr().Interface().(*map[string]string)
		return maps.Equal(*h, w) && (*h == nil) == (w == nil)
	default:
		return reflect.DeepEqual(have.Interface(), want.Interface())
	}
}

// compareList compares element by element where that is safe: where every element is identified, and want is have, less
// some elements, in the same order. Another list is carried as a whole.
func compareList(have, want reflect.Value) ([]field, error) {
	if have.IsNil() != want.IsNil() {
		return whole(have, want)
	}
	if same, err := equalLists(have, want); err != nil || same {
		return nil, err
	}
	haveKeys, ok := keys(have)
	wantKeys, alsoOK := keys(want)
	if !ok || !alsoOK || !isSubsequence(wantKeys, haveKeys) {
		return whole(have, want)
	}
	var lost []field
	next := 0
	for i, k := range haveKeys {
		if next == len(wantKeys) || wantKeys[next] != k {
			was, err := fingerprint(have.Index(i))
			if err != nil {
				return nil, err
			}
			lost = append(lost, field{Was: was}.in(k))
			continue
		}
		in, err := compare(have.Index(i), want.Index(next))
		if err != nil {
			return nil, err
		}
		lost = appendIn(lost, k, in)
		next++
	}
	return lost, nil
}

func equalLists(have, want reflect.Value) (bool, error) {
	if have.Len() != want.Len() {
		return false, nil
	}
	for i := range have.Len() {
		lost, err := compare(have.Index(i), want.Index(i))
		if err != nil || len(lost) > 0 {
			return false, err
		}
	}
	return true, nil
}

// keys of a list's elements; ok is false when two are the same, or one has none.
func keys(list reflect.Value) (found []string, ok bool) {
	found = make([]string, 0, list.Len())
	for i := range list.Len() {
		k, ok := key(list.Index(i))
		if !ok || k == "" || slices.Contains(found, k) {
			return nil, false
		}
		found = append(found, k)
	}
	return found, true
}

func isSubsequence(part, all []string) bool {
	for _, k := range all {
		if len(part) > 0 && part[0] == k {
			part = part[1:]
		}
	}
	return len(part) == 0
}

// whole carries want as it is.
func whole(have, want reflect.Value) ([]field, error) {
	was, err := fingerprint(have)
	if err != nil {
		return nil, err
	}
	is, err := encode(want.Interface())
	if err != nil {
		return nil, err
	}
	return []field{{Was: was, Is: is}}, nil
}

func appendIn(lost []field, name string, in []field) []field {
	for _, f := range in {
		if name != "" {
			f = f.in(name)
		}
		lost = append(lost, f)
	}
	return lost
}
