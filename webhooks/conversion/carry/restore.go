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
	"encoding/json"
	"reflect"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restore puts the field into an object in which the plain rules left what they left when it was taken. Where they left
// something else, somebody changed it since, and the field is forgotten. So is one that does not fit: the annotation is
// open to everybody, and must not make an object unreadable.
func (f field) restore(o client.Object) {
	path := strings.Split(strings.TrimPrefix(f.Path, "/"), "/")
	for i := range path {
		path[i] = unescaper.Replace(path[i])
	}
	root := reflect.ValueOf(o).Elem()
	for i := range root.NumField() {
		if t := root.Type().Field(i); !t.Anonymous && name(t) == path[0] {
			f.restoreIn(root.Field(i), path[1:])
		}
	}
}

func (f field) restoreIn(v reflect.Value, path []string) {
	if len(path) == 0 {
		f.set(v)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.restoreIn(v.Elem(), path)
		}
	case reflect.Struct:
		if member, ok := member(v, path[0]); ok {
			f.restoreIn(member, path[1:])
		}
	case reflect.Slice:
		f.restoreInList(v, path)
	default:
	}
}

func (f field) restoreInList(list reflect.Value, path []string) {
	for i := range list.Len() {
		if k, ok := key(list.Index(i)); !ok || k != path[0] {
			continue
		}
		if len(path) == 1 && f.Is == nil {
			if f.unchanged(list.Index(i)) {
				list.Set(reflect.AppendSlice(list.Slice3(0, i, i), list.Slice(i+1, list.Len())))
			}
			return
		}
		f.restoreIn(list.Index(i), path[1:])
		return
	}
}

// member finds the field of that name, also in embedded structs.
func member(v reflect.Value, wanted string) (reflect.Value, bool) {
	for i, n := range names(v.Type()) {
		if n == wanted {
			return v.Field(i), true
		}
		if n == "" && v.Field(i).Kind() == reflect.Struct {
			if found, ok := member(v.Field(i), wanted); ok {
				return found, true
			}
		}
	}
	return reflect.Value{}, false
}

func (f field) set(v reflect.Value) {
	if f.Is == nil || !v.CanSet() || !f.unchanged(v) {
		return
	}
	value := reflect.New(v.Type())
	if err := json.Unmarshal(f.Is, value.Interface()); err != nil {
		return
	}
	v.Set(value.Elem())
}

func (f field) unchanged(v reflect.Value) bool {
	is, err := fingerprint(v)
	return err == nil && is == f.Was
}
