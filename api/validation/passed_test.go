// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capt-provider/capt/api/controlplane/v1beta2"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/test/builder"
)

// typed is a template whose module has typed variables.
func typed(options ...builder.Option) *infrav1.WorkspaceTemplate {
	return builder.WorkspaceTemplate("typed", append([]builder.Option{builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.Substitution, template.Spec.PassVariables = infrav1.SubstitutionFields, infrav1.PassDeclared
		template.Spec.Template.Spec = terraform.WorkspaceSpec{ForProvider: terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: `
variable "cluster_name" { type = string }
variable "region" { type = string }
variable "kubernetes_version" { type = string }
variable "service_cidr" { type = string }
variable "zones" { type = list(string) }
variable "auto_mode" {
  type    = bool
  default = true
}
output "x" { value = [var.cluster_name, var.region, var.kubernetes_version, var.service_cidr, var.zones, var.auto_mode] }
`}}
	})}, options...)...)
}

func given(t *testing.T, text string) (variables infrav1.Variables) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(text), &variables))
	return variables
}

func TestVariablesOfAControlPlaneAreCheckedAgainstTheModule(t *testing.T) {
	for name, row := range map[string]struct {
		variables string
		want      []finding
	}{
		"valid":      {`{zones: [a, b], auto_mode: false}`, nil},
		"in a text":  {`{zones: '["a"]', auto_mode: "true"}`, nil},
		"missing":    {`{auto_mode: true}`, []finding{{"spec.variables[zones]", field.ErrorTypeRequired, "the module of WorkspaceTemplate default/typed requires this variable (line 6 of the module). Set it"}}},
		"wrong type": {`{zones: [[a]]}`, []finding{{"spec.variables[zones]", field.ErrorTypeTypeInvalid, "is not valid for the module of WorkspaceTemplate default/typed: element 0"}}},
		"unknown":    {`{zones: [], zone: a}`, []finding{{"spec.variables[zone]", field.ErrorTypeTypeInvalid, "declares no variable zone"}}},
		"null":       {`{zones: [], auto_mode: null}`, []finding{{"spec.variables[auto_mode]", field.ErrorTypeInvalid, "is null"}}},
	} {
		t.Run(name, func(t *testing.T) {
			controlPlane := builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
				c.Spec.WorkspaceTemplateRef, c.Spec.Variables = infrav1.WorkspaceTemplateReference{Name: "typed"}, given(t, row.variables)
			}))
			findings, err := validation.ValidateCAPTControlPlane(t.Context(), newFakeReader(typed()), controlPlane)
			require.NoError(t, err)
			assertRefused(t, findings.Errors, row.want...)

			apply := builder.WorkspaceTemplateApply("demo", of("", "typed"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
				apply.Spec.Variables = given(t, row.variables)
				for _, variable := range []string{"cluster_name", "region", "kubernetes_version", "service_cidr"} {
					apply.Spec.Variables[variable] = infrav1.TextValue("x")
				}
			}))
			findings, err = validation.ValidateWorkspaceTemplateApply(t.Context(), newFakeReader(typed()), apply)
			require.NoError(t, err)
			assertRefused(t, findings.Errors, row.want...)
		})
	}
}

func TestInputsOfATemplateAreChecked(t *testing.T) {
	raw := func(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }
	for name, row := range map[string]struct {
		input infrav1.TemplateInput
		want  []finding
	}{
		"valid":           {infrav1.TemplateInput{Name: "zones", Default: raw(`["a"]`), Schema: raw(`{"type": "array", "items": {"type": "string"}}`)}, nil},
		"not declared":    {infrav1.TemplateInput{Name: "zone"}, []finding{{"spec.inputs[0].name", field.ErrorTypeInvalid, `the module declares no variable "zone"`}}},
		"no schema":       {infrav1.TemplateInput{Name: "zones", Schema: raw(`{"tipe": "array"}`)}, []finding{{"spec.inputs[0].schema", field.ErrorTypeInvalid, "unknown field"}}},
		"rules in CEL":    {infrav1.TemplateInput{Name: "zones", Schema: raw(`{"type": "string", "x-kubernetes-validations": [{"rule": "true"}]}`)}, []finding{{"spec.inputs[0].schema", field.ErrorTypeInvalid, "CEL"}}},
		"another default": {infrav1.TemplateInput{Name: "zones", Default: raw(`"a"`)}, []finding{{"spec.inputs[0].default", field.ErrorTypeInvalid, "Correct the value"}}},
		"not in the enum": {infrav1.TemplateInput{Name: "cluster_name", Default: raw(`"a"`), Schema: raw(`{"type": "string", "enum": ["b"]}`)}, []finding{{"spec.inputs[0].default", field.ErrorTypeInvalid, `supported values: "b"`}}},
	} {
		t.Run(name, func(t *testing.T) {
			findings := validation.ValidateWorkspaceTemplate(typed(builder.With(func(template *infrav1.WorkspaceTemplate) {
				template.Spec.Inputs = []infrav1.TemplateInput{row.input}
			})))
			assertRefused(t, findings.Errors, row.want...)
		})
	}
	without := typed(builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.PassVariables, template.Spec.Inputs = infrav1.PassNone, []infrav1.TemplateInput{{Name: "zones"}}
	}))
	assert.Contains(t, validation.ValidateWorkspaceTemplate(without).Warnings, "spec.inputs: has no effect, because spec.passVariables is not Declared. Set it to Declared, or remove the inputs")
}

// The module may have been changed while the object existed.
func TestVariablesOfMovedObjectsAreOnlyReported(t *testing.T) {
	variables := given(t, `{zones: [[a]], zone: a, vpc_id: vpc-1}`)
	for name, object := range map[string]validation.Owner{
		"CAPTControlPlane": builder.CAPTControlPlane("demo", builder.With(func(c *controlplanev1.CAPTControlPlane) {
			c.Spec.WorkspaceTemplateRef, c.Spec.Variables = infrav1.WorkspaceTemplateReference{Name: "typed"}, variables
		})),
		"restored without its owner": builder.WorkspaceTemplateApply("helper", of("", "typed"), builder.With(func(apply *infrav1.WorkspaceTemplateApply) {
			apply.Spec.Variables = variables
		})),
	} {
		t.Run(name, func(t *testing.T) {
			object.SetFinalizers(nil)
			fresh, err := validation.ValidateNew(t.Context(), newFakeReader(typed()), object)
			require.NoError(t, err)
			require.NotEmpty(t, fresh.Errors)
			object.SetFinalizers([]string{"example.com/finalizer"})
			moved, err := validation.ValidateNew(t.Context(), newFakeReader(typed()), object)
			require.NoError(t, err)
			assert.Empty(t, moved.Errors)
			assert.Len(t, moved.Warnings, len(fresh.Warnings)+len(fresh.Errors))
		})
	}
}

func TestAVariableWhoseNameUsersCannotSet(t *testing.T) {
	with := func(params ...terraform.Var) []string {
		return validation.ValidateWorkspaceTemplate(typed(builder.WithParameters(func(p *terraform.WorkspaceParameters) {
			p.Module, p.Vars = p.Module+"\nvariable \"node-count\" { type = number }\n", append(p.Vars, params...)
		}))).Warnings
	}
	assert.Contains(t, strings.Join(with(), "\n"), `variable "node-count" cannot get a value: names in spec.variables have only letters, digits and underscores. Add it to forProvider.vars`)
	assert.NotContains(t, strings.Join(with(terraform.Var{Key: "node-count", Value: "${node_count}"}), "\n"), "cannot get a value")
}
