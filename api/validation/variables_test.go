// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/test/builder"
)

var variablesPath = field.NewPath("spec", "variables")

func TestNamesOfVariables(t *testing.T) {
	for name, legal := range map[string]bool{
		"a": true, "A_1": true, "_": true, "cluster_name": true,
		"": false, "1a": false, "a-b": false, "a.b": false, "a b": false, "é": false, "a\n": false, "tags_a/b": false,
	} {
		t.Run(name, func(t *testing.T) {
			errs := modules.Variables(map[string]string{name: "correcthorse"}, variablesPath)
			if legal {
				assert.Empty(t, errs)
				return
			}
			assertRefused(t, errs, finding{"spec.variables[" + name + "]", field.ErrorTypeInvalid, "Use letters, digits and underscores"})
			assert.NotContains(t, errs.ToAggregate().Error(), "correcthorse")
		})
	}
}

func TestOnlyCAPTNamesVariablesAfterTags(t *testing.T) {
	variables := map[string]string{"tags_kubernetes.io/cluster/x": "owned", "b-c": "", "a-b": ""}
	assert.Len(t, modules.Variables(variables, variablesPath), 3)
	errs := modules.AppliedVariables(variables, variablesPath)
	require.Len(t, errs, 2)
	assert.Equal(t, []string{"spec.variables[a-b]", "spec.variables[b-c]"}, []string{errs[0].Field, errs[1].Field}, "sorted")
	assert.Len(t, variables, 3, "the map of the caller stays as it is")
}

func TestValuesThatBecomePartOfAModule(t *testing.T) {
	inModule := builder.WithModule(`output "a" { value = "${owner}" }`)
	inVars := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Vars = []terraform.Var{{Key: "a", Value: "${owner}"}}
	})
	inAddress := builder.WithParameters(func(params *terraform.WorkspaceParameters) {
		params.Source, params.Module = terraform.SourceRemote, "git::https://example.com/${owner}"
	})
	for name, row := range map[string]struct {
		option  builder.Option
		value   string
		refused bool
	}{
		"a plain value":                             {inModule, "Team-1 ._:/@+=,-", false},
		"an empty value":                            {inModule, "", false},
		"one that ends a string":                    {inModule, `correcthorse"`, true},
		"one that begins an expression":             {inModule, "${correcthorse}", true},
		"one of two lines":                          {inModule, "correcthorse\n", true},
		"one with an escape":                        {inModule, `correcthorse\`, true},
		"one beyond ASCII":                          {inModule, "correcthörse", true},
		"anything, where it can change nothing":     {inVars, `correcthorse"`, false},
		"one in an address":                         {inAddress, "correcthorse;", true},
		"anything, when the template has no use it": {builder.WithModule(""), `correcthorse"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			findings := modules.VariablesOfTemplate(builder.WorkspaceTemplate("vpc", row.option), map[string]string{"owner": row.value}, variablesPath)
			if !row.refused {
				assert.Empty(t, findings)
				return
			}
			assertRefused(t, findings.Errors, finding{"spec.variables[owner]", field.ErrorTypeInvalid, "the value of variable \"owner\" has characters that could change the module"})
			assert.NotContains(t, findings.Errors.ToAggregate().Error(), "correct")
		})
	}
}

func TestTheNameOfTheWorkspaceIsNotTheUsersToGive(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithModule(`locals { a = "${WORKSPACE_NAME}" }`))
	given := map[string]string{"WORKSPACE_NAME": `"`}
	assert.Empty(t, modules.VariablesOfTemplate(template, given, variablesPath), "what has no effect does no harm")
	assertWarned(t, modules.UnusedVariables(template, given, variablesPath),
		"spec.variables[WORKSPACE_NAME]: has no effect: CAPT always sets ${WORKSPACE_NAME} to the name of the Workspace")
}

func TestVariablesThatLookMisspelled(t *testing.T) {
	const missing = "spec.variables: placeholder ${b} of WorkspaceTemplate default/vpc has no value and is not replaced"
	with := func(change func(*terraform.WorkspaceSpec)) builder.Option {
		return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			*spec = terraform.WorkspaceSpec{ForProvider: terraform.WorkspaceParameters{Source: terraform.SourceInline}}
			change(spec)
		})
	}
	for name, row := range map[string]struct {
		option  builder.Option
		given   []string
		further []string
		want    []string
	}{
		"all is used": {builder.With(func(_ *infrav1.WorkspaceTemplate) {}), []string{"cluster_name"}, nil, nil},
		"one is not": {builder.With(func(_ *infrav1.WorkspaceTemplate) {}), []string{"cluster_name", "cluster_nam"}, nil, []string{
			"spec.variables[cluster_nam]: has no effect: WorkspaceTemplate default/vpc has no placeholder ${cluster_nam}"}},
		"used in the module":    {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Module = "${b}" }), []string{"b"}, nil, nil},
		"missing in the module": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Module = "${b}" }), nil, nil, nil},
		"missing in an address": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Source, s.ForProvider.Module = "Remote", "x/${b}" }), nil, nil, []string{missing}},
		"missing in vars":       {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${b}"}} }), nil, nil, []string{missing}},
		"missing in env":        {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Env = []terraform.EnvVar{{Name: "A", Value: "${b}"}} }), nil, nil, []string{missing}},
		"missing in the name of a Secret": {with(func(s *terraform.WorkspaceSpec) {
			s.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "${b}-x"}
		}), nil, nil, []string{missing}},
		"missing deep within varmap": {with(func(s *terraform.WorkspaceSpec) {
			s.ForProvider.VarMap = &apiextensionsv1.JSON{Raw: []byte(`{"a": {"${key}": [1, "x-${b}"]}}`)}
		}), nil, nil, []string{missing}},
		"missing in a field that CAPT does not know": {with(func(s *terraform.WorkspaceSpec) {
			assert.NoError(t, json.Unmarshal([]byte(`{"source": "Inline", "module": "", "new": "${b}"}`), &s.ForProvider))
		}), nil, nil, []string{missing}},
		"CAPT gives it": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${b}"}} }), nil, []string{"b", "c"}, nil},
		"the name of the Workspace is always there": {
			with(func(s *terraform.WorkspaceSpec) {
				s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${WORKSPACE_NAME}"}}
			}), nil, nil, nil},
		"Terraform's own": {with(func(s *terraform.WorkspaceSpec) { s.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${var.b}"}} }), nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := map[string]string{}
			for _, variable := range row.given {
				given[variable] = "correcthorse"
			}
			warnings := modules.UnusedVariables(builder.WorkspaceTemplate("vpc", row.option), given, variablesPath, row.further...)
			assertWarned(t, warnings, row.want...)
			assert.NotContains(t, strings.Join(warnings, "\n"), "correcthorse")
		})
	}
}
