// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

const typedModule = `
variable "cluster_name" { type = string }
variable "auto_mode" {
  type    = bool
  default = true
}
variable "zones" { type = list(string) }
variable "addons" {
  type = list(object({ name = string, version = optional(string) }))
}
variable "labels" {
  type    = map(string)
  default = {}
}
variable "document" { type = string }
variable "anything" {}
variable "fixed" { type = number }
variable "from_env" { type = string }
variable "cidr" {
  type    = string
  default = "10.0.0.0/16"
  validation {
    condition     = can(cidrnetmask(var.cidr))
    error_message = "Set cidr to a network of IPv4."
  }
}
`

// passing renders a template with the module above for variables in YAML.
func passing(t *testing.T, variables string, options ...builder.Option) (*Rendered, []string) {
	t.Helper()
	template := builder.WorkspaceTemplate("vpc", append([]builder.Option{builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Substitution, template.Spec.PassVariables = infrav1.SubstitutionFields, infrav1.PassDeclared
		template.Spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{
			Source: terraform.SourceInline, Module: typedModule, Vars: []terraform.Var{{Key: "fixed", Value: "1"}}, Env: []terraform.EnvVar{{Name: "TF_VAR_from_env", Value: "x"}},
		}
	})}, options...)...)
	apply := builder.WorkspaceTemplateApply("demo-vpc", builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
		apply.Spec.Variables = nil
		require.NoError(t, yaml.Unmarshal([]byte(variables), &apply.Spec.Variables))
	}))
	rendered, errs := Workspace(Input{Apply: apply, Template: template, Name: "demo-vpc"})
	var messages []string
	for _, err := range errs {
		messages = append(messages, err.Error())
	}
	return rendered, messages
}

const complete = `{cluster_name: demo, zones: [a, "${b}"], addons: '[{"name": "vpc-cni"}]', document: {a: [1, true]}, anything: {b: 1}, fixed: 2, unknown: x}`

func TestVariablesThatTheModuleDeclaresArePassedWithTheirTypes(t *testing.T) {
	rendered, errs := passing(t, complete)
	require.Empty(t, errs)
	assert.Equal(t, map[string]any{
		"cluster_name": "demo", "zones": []any{"a", "${b}"}, "addons": []any{map[string]any{"name": "vpc-cni"}}, "document": `{"a":[1,true]}`, "anything": map[string]any{"b": int64(1)},
	}, at(t, rendered, "spec", "forProvider", "varmap"), "what is in vars, and what the module does not declare, is not passed; a list in a text is a list; a string gets the text")
}

func TestATemplateWithoutPassVariablesIsRenderedAsBefore(t *testing.T) {
	for _, mode := range []infrav1.PassVariables{"", infrav1.PassNone} {
		rendered, errs := passing(t, complete, builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.PassVariables = mode }))
		require.Empty(t, errs)
		assert.NotContains(t, rendered.Object.Object["spec"].(map[string]any)["forProvider"], "varmap")
	}
}

func TestVariablesThatTerraformWouldRefuse(t *testing.T) {
	for name, row := range map[string]struct {
		variables string
		want      []string
	}{
		"missing":    {`{cluster_name: demo, zones: [], addons: []}`, []string{`spec.variables[anything]: Required value: the module requires this variable (line 16 of the module). Set it`, `spec.variables[document]: Required value: the module requires this variable (line 15 of the module). Set it`}},
		"a type":     {`{cluster_name: demo, zones: a, addons: [{}], document: x, anything: x, auto_mode: maybe}`, []string{"spec.variables[addons]", "spec.variables[auto_mode]", "spec.variables[zones]"}},
		"validation": {`{cluster_name: demo, zones: [], addons: [], document: x, anything: x, cidr: correcthorse}`, []string{"spec.variables[cidr]: Invalid value: is not valid for the module: Set cidr to a network of IPv4"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := passing(t, row.variables)
			require.Len(t, errs, len(row.want), "%v", errs)
			for i := range row.want {
				assert.Contains(t, errs[i], row.want[i])
				assert.NotContains(t, errs[i], "correcthorse")
				assert.NotContains(t, errs[i], "maybe")
			}
		})
	}
}

func TestInputsOfAModuleThatCAPTCannotRead(t *testing.T) {
	json := func(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }
	remote := builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceRemote, Module: "git::https://example.com/m.git"}
		template.Spec.Inputs = []infrav1.TemplateInput{
			{Name: "size", Default: json(`"small"`), Schema: json(`{"type": "string", "enum": ["small", "large"]}`)},
			{Name: "tags", Schema: json(`{"type": "object", "additionalProperties": {"type": "string"}}`)},
			{Name: "zones", Required: true, Schema: json(`{"type": "array", "minItems": 2, "items": {"type": "string"}}`)},
		}
	})
	rendered, errs := passing(t, `{tags: '{"a": "b"}', zones: [a, b], cluster_name: demo}`, remote)
	require.Empty(t, errs)
	assert.Equal(t, map[string]any{"size": "small", "tags": map[string]any{"a": "b"}, "zones": []any{"a", "b"}}, at(t, rendered, "spec", "forProvider", "varmap"))

	_, errs = passing(t, `{size: correcthorse}`, remote)
	require.Len(t, errs, 2)
	assert.Contains(t, errs[0], "spec.variables[size]")
	assert.NotContains(t, errs[0], "correcthorse")
	assert.Contains(t, errs[1], "spec.variables[zones]: Required value")
}
