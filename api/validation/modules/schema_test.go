// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

func TestTypesAsSchemas(t *testing.T) {
	for declaration, want := range map[string]string{
		"string": `{"type":"string"}`, "bool": `{"type":"boolean"}`,
		"set(number)":                   `{"items":{"type":"number"},"type":"array"}`,
		"map(list(string))":             `{"additionalProperties":{"items":{"type":"string"},"type":"array"},"type":"object"}`,
		"object({ a = optional(any) })": "", "any": "", "tuple([string])": "", "list(any)": "",
		"object({ a = string, b = optional(bool, true) })": `{"properties":{"a":{"type":"string"},"b":{"type":"boolean"}},"required":["a"],"type":"object"}`,
	} {
		schema := declared(t, ofType(declaration)).Schema()
		if want == "" {
			assert.Nil(t, schema, declaration)
			continue
		}
		require.NotNil(t, schema, declaration)
		assert.Equal(t, want, string(schema.Raw), declaration)
		assert.Empty(t, modules.CheckInputSchema(&infrav1.TemplateInput{Name: "x", Schema: schema}), declaration)
	}
}

func TestSchemasAreThoseOfAField(t *testing.T) {
	for _, schema := range []string{`{"items": {"type": "string"}}`, `{"type": "array"}`, `{"typ": "string"}`, `{"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}`} {
		assert.NotEmpty(t, modules.CheckInputSchema(&infrav1.TemplateInput{Name: "x", Schema: &apiextensionsv1.JSON{Raw: []byte(schema)}}), schema)
	}
}

func TestViolationsOfASchemaAreShownWithoutTheValue(t *testing.T) {
	for _, row := range []struct{ schema, value, want string }{
		{`{"type": "array", "minItems": 2, "items": {"type": "string"}}`, `["a"]`, "should have at least 2 items"},
		{`{"type": "array", "items": {"type": "string"}}`, `["a", 1]`, `[1]: must be of type string`},
		{`{"type": "string", "enum": ["a", "b"]}`, `"secret"`, `supported values: "a", "b"`},
		{`{"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}`, `{}`, "x: Required value"},
	} {
		input := &infrav1.TemplateInput{Name: "v", Schema: &apiextensionsv1.JSON{Raw: []byte(row.schema)}, Default: &apiextensionsv1.JSON{Raw: []byte(row.value)}}
		assert.Equal(t, row.want, modules.CheckInputDefault(input, nil))
	}
}

// CAPT sets texts.
func TestTextsBecomeWhatTheSchemaOfAnInputHas(t *testing.T) {
	for _, row := range []struct{ declaration, text, want, problem string }{
		{"bool", "true", "true", ""}, {"bool", "yes", `"yes"`, "must be of type boolean"}, {"number", "3", "3", ""}, {"number", "true", `"true"`, "must be of type number"},
		{"string", "true", `"true"`, ""}, {"list(string)", `["a"]`, `["a"]`, ""},
	} {
		template := &infrav1.WorkspaceTemplateSpec{PassVariables: infrav1.PassDeclared, Inputs: []infrav1.TemplateInput{{Name: "x", Schema: declared(t, ofType(row.declaration)).Schema()}}}
		passed := modules.InterfaceOf(template, terraform.WorkspaceParameters{Source: terraform.SourceRemote}, nil).Pass(infrav1.Variables{"x": infrav1.TextValue(row.text)})
		assert.Equal(t, row.want, string(passed.Values["x"]), row)
		if row.problem == "" {
			assert.Empty(t, passed.Invalid, row)
		} else {
			assert.Contains(t, passed.Invalid["x"], row.problem, row)
		}
	}
}
