// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/test/builder"
)

func inline(module string) terraform.WorkspaceParameters {
	return terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module}
}

func inlineJSON(module string) terraform.WorkspaceParameters {
	return terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module, InlineFormat: terraform.FormatJSON}
}

func template(params terraform.WorkspaceParameters) field.ErrorList {
	object := builder.WorkspaceTemplate("vpc", builder.WithParameters(func(p *terraform.WorkspaceParameters) { *p = params }))
	return templates.WorkspaceTemplate(object).Errors
}

func TestModulesThatParse(t *testing.T) {
	for name, params := range map[string]terraform.WorkspaceParameters{
		"HCL":                               inline("variable \"a\" {\n  type = string\n}\noutput \"b\" { value = \"${var.a}-b\" }\n"),
		"empty":                             inline(""),
		"JSON":                              inlineJSON(`{"output": {"a": {"value": "${1 + 1}"}}}`),
		"Terraform's own interpolation":     inline(`output "a" { value = "vpc-${substr(terraform_data.vpc.id, 0, 8)}" }`),
		"placeholder inside of quotes":      inline(`output "a" { value = "${cluster_name}" }`),
		"placeholder outside of quotes":     inline("locals {\n  count = ${count}\n}\n"),
		"placeholder as a name":             inline(`resource "terraform_data" "${name}" {}`),
		"placeholder within JSON":           inlineJSON(`{"locals": {"a": "${a}"}}`),
		"remote, which cannot be checked":   {Source: terraform.SourceRemote, Module: "}{"},
		"from Flux, which cannot be either": {Source: terraform.SourceFlux, Module: "GitRepository::default/modules"},
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, template(params)) })
	}
}

func TestModulesThatDoNotParseSayWhere(t *testing.T) {
	for name, row := range map[string]struct {
		params terraform.WorkspaceParameters
		want   string
	}{
		"a brace is missing":         {inline("variable \"a\" {\n  type = string\n"), "line 1, column 14: "},
		"something is left over":     {inline("locals {}\n}\n"), "line 2, column 1: "},
		"a value is missing":         {inline("locals {\n  a =\n}\n"), "line 2, column 6: "},
		"JSON is not closed":         {inlineJSON("{\n  \"locals\": {\n"), "line 3, column 1: "},
		"JSON with a comma too many": {inlineJSON("{\n  \"a\": {},\n}\n"), "line 2, column 10: "},
		"HCL where JSON is declared": {inlineJSON("variable \"a\" {}\n"), "line 1, column 1: "},
	} {
		t.Run(name, func(t *testing.T) {
			errs := template(row.params)
			require.NotEmpty(t, errs)
			assert.Equal(t, "spec.template.spec.forProvider.module", errs[0].Field)
			assert.Contains(t, errs[0].Detail, row.want)
			assert.Contains(t, errs[0].Detail, "Correct the module in the WorkspaceTemplate")
		})
	}
}

// A variable may have been substituted into the module, and an error ends up in a condition and in an event.
func TestAnErrorNeverQuotesTheModule(t *testing.T) {
	const secret = "correcthorse"
	for name, params := range map[string]terraform.WorkspaceParameters{
		"HCL word":               inline("locals {\n  a = " + secret + " b\n}\n"),
		"HCL string not closed":  inline("locals {\n  a = \"" + secret + "\n}\n"),
		"HCL set twice":          inline("locals {\n  " + secret + " = 1\n  " + secret + " = 2\n}\n"),
		"HCL single line":        inline("locals { a = 1, " + secret + " = 2 }\n"),
		"HCL block in a line":    inline("locals { a { " + secret + " { } } }\n"),
		"HCL template keyword":   inline("locals {\n  a = \"%{ " + secret + " }\"\n}\n"),
		"HCL legacy index":       inline("locals {\n  a = " + secret + ".0.1[\n}\n"),
		"JSON word":              inlineJSON(`{"a": ` + secret + `}`),
		"JSON key":               inlineJSON(`{"a": 1 "` + secret + `": 2}`),
		"JSON string not closed": inlineJSON(`{"a": "` + secret),
	} {
		t.Run(name, func(t *testing.T) {
			errs := modules.Module(params, field.NewPath("forProvider"))
			require.NotEmpty(t, errs)
			assert.NotContains(t, errs.ToAggregate().Error(), secret)
		})
	}
}

func TestParameters(t *testing.T) {
	env := func(name string) terraform.WorkspaceParameters {
		return terraform.WorkspaceParameters{Env: []terraform.EnvVar{{Name: "FINE"}, {Name: name}}}
	}
	for name, row := range map[string]struct {
		params terraform.WorkspaceParameters
		field  string // Empty when the parameters are legal.
	}{
		"nothing at all":                       {terraform.WorkspaceParameters{}, ""},
		"environment of the provider's plugin": {env("AWS_REGION"), ""},
		"environment that only looks like it":  {env("MY_TF_VAR"), ""},
		"environment PATHS":                    {env("PATHS"), ""},
		"environment TF_VAR_x":                 {env("TF_VAR_x"), "forProvider.env[1].name"},
		"environment TF_CLI_ARGS":              {env("TF_CLI_ARGS"), "forProvider.env[1].name"},
		"environment LD_PRELOAD":               {env("LD_PRELOAD"), "forProvider.env[1].name"},
		"environment PATH":                     {env("PATH"), "forProvider.env[1].name"},
		"initArgs -backend-config":             {terraform.WorkspaceParameters{InitArgs: []string{"-upgrade", "-backend-config=bucket=x"}}, "forProvider.initArgs[1]"},
		"initArgs -backend-config as two":      {terraform.WorkspaceParameters{InitArgs: []string{"-backend-config", "bucket=x"}}, "forProvider.initArgs[0]"},
		"initArgs --backend":                   {terraform.WorkspaceParameters{InitArgs: []string{"--backend=false"}}, "forProvider.initArgs[0]"},
		"initArgs -migrate-state":              {terraform.WorkspaceParameters{InitArgs: []string{"-migrate-state"}}, "forProvider.initArgs[0]"},
		"initArgs -reconfigure":                {terraform.WorkspaceParameters{InitArgs: []string{"-reconfigure"}}, "forProvider.initArgs[0]"},
		"planArgs -state":                      {terraform.WorkspaceParameters{PlanArgs: []string{"-state=x"}}, "forProvider.planArgs[0]"},
		"applyArgs -state-out":                 {terraform.WorkspaceParameters{ApplyArgs: []string{"-state-out=x"}}, "forProvider.applyArgs[0]"},
		"applyArgs -backup":                    {terraform.WorkspaceParameters{ApplyArgs: []string{"-backup=x"}}, "forProvider.applyArgs[0]"},
		"destroyArgs -chdir":                   {terraform.WorkspaceParameters{DestroyArgs: []string{"-chdir=/"}}, "forProvider.destroyArgs[0]"},
		"initArgs -from-module":                {terraform.WorkspaceParameters{InitArgs: []string{"-from-module=x"}}, "forProvider.initArgs[0]"},
		"initArgs -plugin-dir":                 {terraform.WorkspaceParameters{InitArgs: []string{"-plugin-dir=x"}}, "forProvider.initArgs[0]"},
		"applyArgs -destroy":                   {terraform.WorkspaceParameters{ApplyArgs: []string{"-destroy"}}, "forProvider.applyArgs[0]"},
		"arguments that change nothing of it":  {terraform.WorkspaceParameters{InitArgs: []string{"-upgrade"}, PlanArgs: []string{"-parallelism=2", "-lock-timeout=3s"}}, ""},
		"entrypoint":                           {terraform.WorkspaceParameters{Entrypoint: "modules/eks"}, ""},
		"entrypoint with dots in a name":       {terraform.WorkspaceParameters{Entrypoint: "v1..2/..eks"}, ""},
		"entrypoint out of the module":         {terraform.WorkspaceParameters{Entrypoint: "../other"}, "forProvider.entrypoint"},
		"entrypoint out of it by a detour":     {terraform.WorkspaceParameters{Entrypoint: "modules/../../other"}, "forProvider.entrypoint"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := templates.Parameters(row.params, field.NewPath("forProvider"))
			if row.field == "" {
				assert.Empty(t, errs)
				return
			}
			require.NotEmpty(t, errs)
			assert.Equal(t, row.field, errs[0].Field)
		})
	}
}

// The errors become the message of a condition. In another order they would be another message, and a status write.
func TestErrorsComeInTheSameOrderEveryTime(t *testing.T) {
	params := terraform.WorkspaceParameters{
		InitArgs: []string{"-backend=false"}, PlanArgs: []string{"-state=x"},
		ApplyArgs: []string{"-state=x"}, DestroyArgs: []string{"-state=x"}, Entrypoint: "..",
	}
	want := template(params).ToAggregate().Error()
	require.Equal(t, 5, strings.Count(want, "spec.template.spec.forProvider"))
	for range 100 {
		require.Equal(t, want, template(params).ToAggregate().Error())
	}
}
