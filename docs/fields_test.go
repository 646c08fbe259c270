// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/config/crd"
)

var fieldRow = regexp.MustCompile("^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// fieldsOf lists the fields below spec and status of all kinds in v1beta2, from the definitions.
func fieldsOf(t *testing.T) map[string][]string {
	t.Helper()
	names, err := fs.Glob(crd.Definitions, "bases/*.yaml")
	require.NoError(t, err)
	kinds := map[string][]string{}
	for _, name := range names {
		data, err := crd.Definitions.ReadFile(name)
		require.NoError(t, err)
		definition := apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(data, &definition))
		for _, version := range definition.Spec.Versions {
			for _, top := range []string{"spec", "status"} {
				if schema, ok := version.Schema.OpenAPIV3Schema.Properties[top]; ok && version.Name == "v1beta2" {
					kinds[definition.Spec.Names.Kind] = append(kinds[definition.Spec.Names.Kind], leaves(&schema, top)...)
				}
			}
		}
	}
	return kinds
}

// leaves lists the fields without fields of their own.
func leaves(schema *apiextensionsv1.JSONSchemaProps, path string) (paths []string) {
	switch values := schema.AdditionalProperties; {
	case path == "status.conditions[]":
		return []string{path}
	case schema.Items != nil:
		return leaves(schema.Items.Schema, path+"[]")
	case values != nil && values.Schema != nil && len(values.Schema.Properties) > 0:
		return leaves(values.Schema, path+"{}")
	case len(schema.Properties) == 0:
		return []string{path}
	}
	for name, property := range schema.Properties {
		paths = append(paths, leaves(&property, path+"."+name)...)
	}
	return paths
}

// rowsOf returns, for each kind, the paths in its table of fields.md. A heading can name two kinds. It checks the tests that a row names.
func rowsOf(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("fields.md")
	require.NoError(t, err)
	exists, rows, kinds := testsOfRepository(t), map[string][]string{}, []string(nil)
	for line := range strings.SplitSeq(string(text), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			kinds = strings.Split(heading, " and ")
		}
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		row := fieldRow.FindStringSubmatch(line)
		require.NotNil(t, row, "not a row of field, effect and test: %s", line)
		for _, kind := range kinds {
			rows[kind] = append(rows[kind], row[1])
		}
		tests := named.FindAllStringSubmatch(row[3], -1)
		assert.NotEmpty(t, tests, "%s names no test", row[1])
		for _, test := range tests {
			assert.True(t, exists[test[1]], "%s names %s, which does not exist", row[1], test[1])
		}
	}
	return rows
}

// covers reports whether a row is about a field: about that one, or with .* about all fields below a path.
func covers(row, field string) bool {
	parent, all := strings.CutSuffix(row, ".*")
	return row == field || all && (strings.HasPrefix(field, parent+".") || strings.HasPrefix(field, parent+"[]."))
}

func TestEveryFieldHasOneRowThatNamesItsTest(t *testing.T) {
	fields, rows := fieldsOf(t), rowsOf(t)
	require.Len(t, fields, 11)
	for kind, paths := range fields {
		used := map[string]int{}
		for _, path := range paths {
			in := kind
			if base, ok := strings.CutSuffix(kind, "Template"); ok && fields[base] != nil && strings.HasPrefix(path, "spec.template.spec.") {
				in, path = base, "spec."+strings.TrimPrefix(path, "spec.template.spec.")
			}
			found := 0
			for _, row := range rows[in] {
				if covers(row, path) {
					found++
					used[row]++
				}
			}
			assert.Equal(t, 1, found, "docs/fields.md has %d rows for %s of %s", found, path, in)
		}
		for _, row := range rows[kind] {
			assert.Positive(t, used[row], "docs/fields.md: %s of %s is not a field", row, kind)
		}
	}
}
