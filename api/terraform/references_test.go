// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
)

// The security rules must cover every new field with a namespace.
func TestReferencesListsEveryFieldWithANamespace(t *testing.T) {
	spec := &terraform.WorkspaceSpec{}
	want := fill(reflect.ValueOf(spec).Elem(), "")
	require.NotEmpty(t, want)
	var known []string
	for _, reference := range spec.References(nil) {
		known = append(known, strings.ReplaceAll(strings.TrimPrefix(reference.Path.String(), "<nil>."), "[0]", ""))
	}
	require.ElementsMatch(t, want, known)
}

// fill sets every pointer of a type and adds an element to every list. It returns the paths of structs with a namespace.
func fill(value reflect.Value, path string) (found []string) {
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		return fill(value.Elem(), path)
	case reflect.Slice:
		if value.Type().Elem().Kind() != reflect.Uint8 {
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
			return fill(value.Index(0), path)
		}
	case reflect.Struct:
		if value.FieldByName("Namespace").IsValid() {
			found = append(found, strings.TrimPrefix(path, "."))
		}
		for i := range value.NumField() {
			if field := value.Type().Field(i); field.IsExported() {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				found = slices.Concat(found, fill(value.Field(i), path+"."+name))
			}
		}
	default:
	}
	return found
}
