// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// servedVersion is the version that docs/api.md describes.
const servedVersion = "v1beta2"

const aboutAPI = `# API

<!-- Written by make generate from the definitions in config/crd. -->

The fields of CAPT's kinds in ` + "`v1beta2`" + `. ` + "`kubectl explain`" + ` shows the same in a cluster, in full. [fields.md](fields.md) has the
effect of each field, [admission.md](admission.md) the rules that a schema cannot express, [status.md](status.md) the conditions, and
[migration.md](migration.md) the differences to ` + "`v1beta1`" + `.

` + "`[]`" + ` is an element of a list, ` + "`{}`" + ` a value of a map. ` + "`yes`" + `: the field is required where its parent is set. Otherwise the column has the
default, if there is one in the schema.
`

// apiDocument has a table of the fields of each kind.
func apiDocument(repository string) (string, error) {
	definitions := os.DirFS(filepath.Join(repository, "config", "crd", "bases"))
	files, err := fs.Glob(definitions, "*.yaml")
	if err != nil {
		return "", err
	}
	kinds := map[string]apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		data, err := fs.ReadFile(definitions, file)
		if err != nil {
			return "", err
		}
		definition := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, &definition); err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		for _, version := range definition.Spec.Versions {
			if version.Name == servedVersion {
				kinds[definition.Spec.Names.Kind] = *version.Schema.OpenAPIV3Schema
			}
		}
	}
	var b strings.Builder
	b.WriteString(aboutAPI)
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| field | type | required, default | description |\n|---|---|---|---|\n", kind, oneLine(kinds[kind].Description))
		_, isTemplate := kinds[strings.TrimSuffix(kind, "Template")]
		for _, top := range []string{"spec", "status"} {
			if schema, ok := kinds[kind].Properties[top]; ok {
				writeFields(&b, &schema, top, isTemplate)
			}
		}
	}
	return b.String(), nil
}

// writeFields writes the fields below a path. The spec of an object in a template is described for its own kind.
func writeFields(b *strings.Builder, schema *apiextensionsv1.JSONSchemaProps, path string, inTemplate bool) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		field, below := schema.Properties[name], path+"."+name
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", below, typeOf(&field), requiredOrDefault(schema, name), describe(name, &field))
		if below == "status.conditions" || inTemplate && below == "spec.template.spec" {
			continue
		}
		if inner := innermost(&field, &below); inner != nil {
			writeFields(b, inner, below, inTemplate)
		}
	}
}

// innermost returns the schema of the object in a field, behind lists and maps, and extends the path to it; nil if there is none.
func innermost(field *apiextensionsv1.JSONSchemaProps, path *string) *apiextensionsv1.JSONSchemaProps {
	for {
		switch {
		case len(field.Properties) > 0:
			return field
		case field.Items != nil:
			field, *path = field.Items.Schema, *path+"[]"
		case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
			field, *path = field.AdditionalProperties.Schema, *path+"{}"
		default:
			return nil
		}
	}
}

// typeOf returns the type of a field, or its values.
func typeOf(field *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case len(field.Enum) > 0:
		values := make([]string, len(field.Enum))
		for i, value := range field.Enum {
			values[i] = "`" + strings.Trim(string(value.Raw), `"`) + "`"
		}
		return strings.Join(values, ", ")
	case field.Items != nil:
		return "list of " + typeOf(field.Items.Schema)
	case field.AdditionalProperties != nil && field.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(field.AdditionalProperties.Schema)
	case field.XIntOrString:
		return "integer or string"
	}
	return cmp.Or(cmp.Or(field.Format, field.Type), "any")
}

func requiredOrDefault(parent *apiextensionsv1.JSONSchemaProps, name string) string {
	field := parent.Properties[name]
	switch {
	case field.Default != nil:
		return "`" + strings.Trim(string(field.Default.Raw), `"`) + "`"
	case slices.Contains(parent.Required, name):
		return "yes"
	}
	return ""
}

// describe returns the description of a field, without its name at the start.
func describe(name string, field *apiextensionsv1.JSONSchemaProps) string {
	text := oneLine(field.Description)
	for _, start := range []string{name + " is ", name + " are "} {
		if after, ok := strings.CutPrefix(text, start); ok {
			text = after
			break
		}
	}
	return cell(text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
