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

package ownership

import (
	"bytes"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// entry is one of managedFields, with its fields read.
type entry struct {
	metav1.ManagedFieldsEntry
	set *fieldpath.Set
}

func read(object *unstructured.Unstructured) ([]entry, error) {
	var entries []entry
	for _, managed := range object.GetManagedFields() {
		set := fieldpath.NewSet()
		if managed.FieldsV1 != nil {
			if err := set.FromJSON(managed.FieldsV1.GetRawReader()); err != nil {
				return nil, fmt.Errorf("reading which fields %s of %s has: %w", managed.Manager, managed.APIVersion, err)
			}
		}
		entries = append(entries, entry{managed, set})
	}
	return entries, nil
}

// write puts entries into an object. Those without a field are left out. None at all means that nobody owns anything, and has
// to be said: the API server takes a missing list for that of a client which does not know what managedFields are.
func write(object *unstructured.Unstructured, entries []entry) error {
	list := []any{}
	for _, e := range entries {
		if e.set.Empty() {
			continue
		}
		var data bytes.Buffer
		if err := e.set.ToJSONStream(&data); err != nil {
			return fmt.Errorf("writing which fields %s has: %w", e.Manager, err)
		}
		e.FieldsType, e.FieldsV1 = "FieldsV1", &metav1.FieldsV1{}
		if err := e.FieldsV1.UnmarshalJSON(data.Bytes()); err != nil {
			return err
		}
		managed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&e.ManagedFieldsEntry)
		if err != nil {
			return err
		}
		list = append(list, managed)
	}
	return unstructured.SetNestedSlice(object.Object, list, "metadata", "managedFields")
}

// moveEntries translates entries of older versions. Where a manager has an entry of today's version already, they become one.
func moveEntries(live *unstructured.Unstructured, entries []entry) ([]entry, error) {
	d, err := newDeriver(live)
	if err != nil {
		return nil, err
	}
	var moved []entry
	for _, e := range entries {
		if isOlder(e.ManagedFieldsEntry) {
			e.APIVersion, e.set = live.GetAPIVersion(), d.set(e.set)
		}
		if i := indexOf(moved, e.ManagedFieldsEntry); i >= 0 && moved[i].APIVersion == e.APIVersion {
			moved[i].set = moved[i].set.Union(e.set)
			if e.Time != nil && moved[i].Time.Before(e.Time) {
				moved[i].Time = e.Time
			}
			continue
		}
		moved = append(moved, e)
	}
	return moved, nil
}

func indexOf(entries []entry, of metav1.ManagedFieldsEntry) int {
	return slices.IndexFunc(entries, func(e entry) bool { return same(e.ManagedFieldsEntry, of) })
}

// same tells whether two entries are of one manager, in whatever version.
func same(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource
}
