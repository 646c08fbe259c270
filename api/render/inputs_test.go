// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/test/builder"
	"github.com/capt-provider/capt/test/cputime"
)

// withInput renders a remote module with one input.
func withInput(schema string, value apiextensionsv1.JSON) (*Rendered, string) {
	template := builder.WorkspaceTemplate("vpc", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.PassVariables, template.Spec.Inputs = infrav1.PassDeclared, []infrav1.TemplateInput{{Name: "v", Schema: &apiextensionsv1.JSON{Raw: []byte(schema)}}}
		template.Spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceRemote, Module: "git::https://example.com/x"}
	}))
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.Variables = infrav1.Variables{"v": value}
	}))
	rendered, errs := Workspace(Input{Apply: apply, Template: template, Name: "demo-vpc"})
	if len(errs) > 0 {
		return rendered, errs.ToAggregate().Error()
	}
	return rendered, ""
}

func TestNumbersInATextAreThoseThatTheAPIServerReturns(t *testing.T) {
	const list = `{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true}}`
	for _, text := range []string{`[1.0]`, `[1E+2, {"a": 0.1e1}]`, `[-0.0]`, `[12345678901234567890]`, `[9223372036854775808]`, `[null]`, `["<>&\u2028\ud800"]`, `[{"a":1,"a":2}]`} {
		rendered, problem := withInput(list, infrav1.TextValue(text))
		require.Empty(t, problem, text)
		body, err := json.Marshal(rendered.Object.Object)
		require.NoError(t, err)
		live := &unstructured.Unstructured{}
		require.NoError(t, live.UnmarshalJSON(body))
		assert.False(t, rendered.Differs(live), "%s would be written at each reconcile", text)
	}
	_, problem := withInput(list, infrav1.TextValue(`[1e400]`))
	assert.Equal(t, `spec.variables[v]: Invalid value: is not valid for the module: must be of type array. Correct the value`, problem)
}

func TestMessagesOfSchemasHaveNoValues(t *testing.T) {
	for schema, row := range map[string][2]string{
		`{"type":"string","format":"ipv4"}`:                                       {`"S3CR3T"`, "must be of type ipv4"},
		`{"type":"string","format":"date-time"}`:                                  {`"S3CR3T: in body x"`, "must be of type date-time"},
		`{"type":"string","pattern":"^a$"}`:                                       {`"S3CR3T"`, "should match '^a$'"},
		`{"type":"string","enum":["a"]}`:                                          {`"S3CR3T"`, `supported values: "a"`},
		`{"type":"string","not":{"pattern":"S"}}`:                                 {`"S3CR3T"`, `"value" must not validate the schema (not)`},
		`{"type":"array","items":{"type":"string","format":"uuid"}}`:              {`["S3CR3T"]`, "[0]: must be of type uuid"},
		`{"type":"object","properties":{"a":{"type":"integer"}}}`:                 {`{"a":"S3CR3T"}`, "a: must be of type integer"},
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}`: {`{"S3CR3T":1}`, "a: Required value"},
	} {
		_, problem := withInput(schema, apiextensionsv1.JSON{Raw: []byte(row[0])})
		assert.Equal(t, "spec.variables[v]: Invalid value: is not valid for the module: "+row[1]+". Correct the value", problem)
	}
}

// Every user who may write a WorkspaceTemplate and a variable could otherwise stop the manager: this took half a minute.
func TestTheTimeToCheckASchemaIsLimited(t *testing.T) {
	patterns := strings.TrimSuffix(strings.Repeat(`{"pattern":"^x$"},`, 400), ",")
	schema := `{"type":"array","items":{"type":"string","anyOf":[` + patterns + `]}}`
	list := func(elements int) apiextensionsv1.JSON {
		return apiextensionsv1.JSON{Raw: []byte(`["a"` + strings.Repeat(`,"a"`, elements-1) + `]`)}
	}
	_, problem := withInput(schema, list(100))
	assert.Contains(t, problem, "must validate at least one schema")
	took := cputime.Of(t, func() { _, problem = withInput(schema, list(20_000)) })
	assert.Less(t, took, 5*time.Second)
	assert.Empty(t, problem, "Terraform checks it")

	for schema, want := range map[string]string{
		`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`:         "uniqueItems is not supported",
		`{"type":"string","description":"` + strings.Repeat("a", 33<<10) + `"}`: "it has more than 32 KiB",
	} {
		assert.Contains(t, modules.CheckInputSchema(&infrav1.TemplateInput{Schema: &apiextensionsv1.JSON{Raw: []byte(schema)}}), want)
	}
}
