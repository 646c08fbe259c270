// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package ssa computes what server-side apply would change, without a request, and which of its errors are temporary. Its functions are pure.
package ssa

import (
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Differs reports whether server-side apply of want, as a field manager, would change the live object. It compares locally and sends no request,
// so that nothing is written at rest. merged are the names of the fields with lists of type map or set: items of other managers are kept, and do
// not count as a difference. All other lists are atomic.
func Differs(live, want *unstructured.Unstructured, manager string, merged ...string) bool {
	if !contains(live.Object, want.Object, merged) {
		return true
	}
	removed, readable := removedFields(live, want, manager)
	return len(removed) > 0 || !readable // An apply rewrites an entry that cannot be decoded.
}

// Contains reports whether an object, such as the response to an apply, has every value of want. All lists are atomic.
func Contains(object, want *unstructured.Unstructured) bool {
	return contains(object.Object, want.Object, nil)
}

// Unstructured turns a typed object into an apply configuration: without status and other server-side fields.
func Unstructured(object any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "status")
	return u, nil
}

// contains reports whether every field of want has the same value in have.
func contains(have, want any, merged []string) bool {
	wantMap, ok := want.(map[string]any)
	if !ok {
		return equality.Semantic.DeepEqual(have, want)
	}
	haveMap, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range wantMap {
		if list, ok := value.([]any); ok && slices.Contains(merged, key) {
			if !containsAll(haveMap[key], list, merged) {
				return false
			}
			continue
		}
		if !contains(haveMap[key], value, merged) {
			return false
		}
	}
	return true
}

func containsAll(have any, want []any, merged []string) bool {
	list, ok := have.([]any)
	if !ok {
		return len(want) == 0
	}
	for _, item := range want {
		if !slices.ContainsFunc(list, func(other any) bool { return contains(other, item, merged) }) {
			return false
		}
	}
	return true
}

// Applied returns a copy of the live object as server-side apply of want, as a field manager, would leave it. All lists are atomic. It equals
// the live object exactly if Differs is false.
func Applied(live, want *unstructured.Unstructured, manager string) *unstructured.Unstructured {
	applied := live.DeepCopy()
	removed, _ := removedFields(live, want, manager)
	for _, path := range removed {
		removeField(applied.Object, path)
	}
	merge(applied.Object, want.DeepCopy().Object)
	return applied
}

// merge sets every field of want in have.
func merge(have, want map[string]any) {
	for key, value := range want {
		wantMap, isMap := value.(map[string]any)
		haveMap, hasMap := have[key].(map[string]any)
		if isMap && hasMap {
			merge(haveMap, wantMap)
		} else {
			have[key] = value
		}
	}
}

// removeField removes a field that is reached through maps only.
func removeField(node map[string]any, path fieldpath.Path) {
	var names []string
	for _, element := range path {
		if element.FieldName == nil {
			return
		}
		names = append(names, *element.FieldName)
	}
	unstructured.RemoveNestedField(node, names...)
}

// entriesOf returns the fields that entries of managedFields list for a manager. Those of other managers are not decoded: there are many of them.
func entriesOf(live *unstructured.Unstructured, manager string) (entries []map[string]any) {
	list, _, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", "managedFields")
	all, _ := list.([]any)
	for _, item := range all {
		entry, _ := item.(map[string]any)
		subresource, _ := entry["subresource"].(string)
		if fields, ok := entry["fieldsV1"].(map[string]any); ok && entry["manager"] == manager && subresource == "" {
			entries = append(entries, fields)
		}
	}
	return entries
}

// removedFields returns the fields that earlier applies of the manager set, and that the next one would remove. readable is false if an entry cannot be
// decoded.
func removedFields(live, want *unstructured.Unstructured, manager string) (removed []fieldpath.Path, readable bool) {
	readable = true
	for _, fields := range entriesOf(live, manager) {
		if of, err := missing(fields, want.Object, nil); err != nil {
			readable = false
		} else {
			removed = append(removed, of...)
		}
	}
	return removed, readable
}

// missing returns the paths of the fields of an entry, without those that have fields below them, that a node does not have. The node is nil if it does not
// exist itself.
func missing(fields map[string]any, node any, path fieldpath.Path) (paths []fieldpath.Path, err error) {
	for key, value := range fields {
		element, err := fieldpath.DeserializePathElement(key)
		switch {
		case key == ".", errors.Is(err, fieldpath.ErrUnknownPathElementType): // As the API server does.
			continue
		case err != nil:
			return nil, err
		}
		below, _ := value.(map[string]any)
		is := append(path[:len(path):len(path)], element)
		child, has, isWhole := step(node, &element)
		_, itself := below["."]
		switch isLeaf := len(below) == 0 || len(below) == 1 && itself; {
		case has && (isWhole || isLeaf):
		case isLeaf:
			paths = append(paths, is)
		default:
			of, err := missing(below, child, is)
			if err != nil {
				return nil, err
			}
			paths = append(paths, of...)
		}
	}
	return paths, nil
}

// step returns what a node has at an element of a path. isWhole is true for an item that has no fields of its own: one of a set, or of a list that is owned as
// a whole.
func step(node any, element *fieldpath.PathElement) (child any, has, isWhole bool) {
	switch list, _ := node.([]any); {
	case element.FieldName != nil:
		fields, _ := node.(map[string]any)
		child, has = fields[*element.FieldName]
	case element.Key != nil:
		i := slices.IndexFunc(list, func(item any) bool { return hasKey(item, element) })
		if has = i >= 0; has {
			child = list[i]
		}
	case element.Value != nil: // An item of a set.
		has, isWhole = slices.ContainsFunc(list, func(item any) bool { return equality.Semantic.DeepEqual(item, (*element.Value).Unstructured()) }), true
	default: // An item of a list by index: owned together with the list.
		has, isWhole = node != nil, true
	}
	return child, has, isWhole
}

func hasKey(item any, element *fieldpath.PathElement) bool {
	fields, ok := item.(map[string]any)
	if !ok {
		return false
	}
	for _, key := range *element.Key {
		if !equality.Semantic.DeepEqual(fields[key.Name], key.Value.Unstructured()) {
			return false
		}
	}
	return true
}

// IsUnknownOwnerVersion reports whether the admission of owner references (OwnerReferencesPermissionEnforcement) does not know the
// version of an owner yet. The admission plugin discovers new versions of a kind every 30 seconds.
func IsUnknownOwnerVersion(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot find RESTMapping")
}
