// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/test/builder"
)

func inline(module string) terraform.WorkspaceParameters {
	return terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module}
}

func inlineJSON(module string) terraform.WorkspaceParameters {
	return terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: module, InlineFormat: terraform.FormatJSON}
}

func template(params terraform.WorkspaceParameters) field.ErrorList {
	return validation.ValidateWorkspaceTemplate(builder.WorkspaceTemplate("vpc", ofParameters(params))).Errors
}

func TestValidModules(t *testing.T) {
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

func TestErrorsOfModulesHaveLineAndColumn(t *testing.T) {
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

// The module may contain the value of a variable, and errors are shown in conditions and events.
func TestErrorsNeverQuoteTheModule(t *testing.T) {
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
			errs := modules.ValidateModule(params, field.NewPath("forProvider"))
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
		field  string // Empty when the parameters are valid.
	}{
		"nothing at all":                       {terraform.WorkspaceParameters{}, ""},
		"environment of the provider's plugin": {env("AWS_REGION"), ""},
		"environment that only looks like it":  {env("MY_TF_VAR"), ""},
		"environment PATHS":                    {env("PATHS"), ""},
		"environment TF_VAR_x":                 {env("TF_VAR_x"), ""},
		"environment TF_WORKSPACE":             {env("TF_WORKSPACE"), "forProvider.env[1].name"},
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
		"harmless arguments":                   {terraform.WorkspaceParameters{InitArgs: []string{"-upgrade"}, PlanArgs: []string{"-parallelism=2", "-lock-timeout=3s"}}, ""},
		"entrypoint":                           {terraform.WorkspaceParameters{Entrypoint: "modules/eks"}, ""},
		"entrypoint with dots in a name":       {terraform.WorkspaceParameters{Entrypoint: "v1..2/..eks"}, ""},
		"entrypoint out of the module":         {terraform.WorkspaceParameters{Entrypoint: "../correcthorse"}, "forProvider.entrypoint"},
		"entrypoint out of it by a detour":     {terraform.WorkspaceParameters{Entrypoint: "modules/../../other"}, "forProvider.entrypoint"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := modules.ValidateParameters(row.params, field.NewPath("forProvider"))
			if row.field == "" {
				assert.Empty(t, errs)
				return
			}
			require.NotEmpty(t, errs)
			assert.Equal(t, row.field, errs[0].Field)
			assert.NotContains(t, errs.ToAggregate().Error(), "correcthorse", "the entrypoint is not quoted")
		})
	}
}

func TestErrorsOfInvalidInputAreLimited(t *testing.T) {
	for name, row := range map[string]struct {
		params terraform.WorkspaceParameters
		more   string
	}{
		"every character": {inline(upTo("", "@")), "and 1048567 more errors. Correct"},
		"every line":      {inline(strings.Repeat("a = 1\n", 112)), "and 101 more errors. Correct"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, errs := range []field.ErrorList{template(row.params), modules.ValidateModule(row.params, field.NewPath("forProvider"))} {
				require.Len(t, errs, 11)
				assert.Contains(t, errs[9].Detail, "line ")
				assert.Contains(t, errs[10].Detail, row.more)
				assert.Less(t, len(errs.ToAggregate().Error()), 4000)
			}
		})
	}
	assert.Len(t, template(inline(strings.Repeat("a = 1\n", 11))), 10, "as many as may be")
}

func TestCacheOfValidModulesDistinguishesFormats(t *testing.T) {
	hcl := inline("locals { known = 1 }\n")
	json := hcl
	json.InlineFormat = terraform.FormatJSON
	for range 2 {
		assert.Empty(t, modules.ValidateModule(hcl, field.NewPath("forProvider")))
		assert.NotEmpty(t, modules.ValidateModule(json, field.NewPath("forProvider")))
	}
}

func TestErrorsInLinesWithPlaceholdersAreWarnings(t *testing.T) {
	const checkedLater = "it is checked again with the values of the variables"
	const module = templateSpec + "forProvider.module: "
	refused := func(where string) []finding {
		return []finding{{templateSpec + "forProvider.module", field.ErrorTypeInvalid, where}}
	}
	rows := map[string]templateRow{
		"placeholder on a separate line": {option: from("Inline", "locals {\n  a = 1\n  ${extra}\n  b = 2\n}\n"), warnings: []string{module + "line 3, column 3: "}},
		"within a number":                {option: from("Inline", "locals {\n  a = 10${n}\n}\n"), warnings: []string{module + "line 2, column 9: "}},
		"columns stay right":             {option: from("Inline", "locals {\n  a = \"${long_name}\" b\n}\n"), warnings: []string{module + "line 2, column 22: "}},
		"another line is wrong":          {option: from("Inline", "locals {\n  b = = 2\n  ${extra}\n}\n"), warnings: []string{module + "line 3"}, errors: refused("line 2, column 7: ")},
		"no placeholder":                 {option: from("Inline", "locals {\n  a = 1 {1}\n}\n"), errors: refused("line 2, column 9: ")},
		"a placeholder far away":         {option: from("Inline", "locals {\n  a = \"${a}\"\n  b = }\n"), errors: refused("line 3, column 7: ")},
		"JSON":                           {option: ofParameters(inlineJSON("{\"locals\": {\n  \"a\": ${a1},\n  \"b\": 1\n}}")), warnings: []string{module + "line 2, column 8: "}},
		"JSON that is wrong":             {option: ofParameters(inlineJSON("{\"locals\": {\n  \"a\": ${a1},\n  \"b\": x\n}}")), warnings: []string{module + "line 2"}, errors: refused("line 3, column 8: ")},
	}
	testTemplates(t, rows)
	for name, row := range rows {
		object := builder.WorkspaceTemplate("vpc", row.option)
		for _, warning := range validation.ValidateWorkspaceTemplate(object).Warnings {
			assert.Contains(t, warning, checkedLater, name)
		}
		// When all values are known, the error is final.
		assert.NotEmpty(t, modules.ValidateModule(object.Spec.Template.Spec.ForProvider, nil), name)
	}
	testTemplates(t, map[string]templateRow{
		"many lines": {option: from("Inline", strings.Repeat("${a}\n", 30)), warnings: append(slices.Repeat([]string{module + "line "}, 10), module+"and 20 more lines like these")},
	})
}

func ofParameters(params terraform.WorkspaceParameters) builder.Option {
	return builder.WithParameters(func(p *terraform.WorkspaceParameters) { *p = params })
}

const megabyte = 1 << 20

// upTo appends a text repeatedly to a prefix, up to one megabyte. API servers reject larger modules.
func upTo(start, text string) string { return filled(megabyte, start, text) }

// large returns an unusually large module that is parsed nevertheless.
func large(start, text string) string { return filled(megabyte/8, start, text) }

func filled(size int, start, text string) string {
	return start + strings.Repeat(text, (size-len(start))/len(text))
}

// Parsing most of these modules terminated the process or took minutes.
func TestModulesThatExceedALimitAreRejected(t *testing.T) {
	const deep = "line 2: nested more than 200 levels deep"
	hcl := func(text string) terraform.WorkspaceParameters { return inline(upTo("\na = ", text)) }
	json := func(text string) terraform.WorkspaceParameters { return inlineJSON(upTo("\n", text)) }
	for name, row := range map[string]struct {
		params terraform.WorkspaceParameters
		want   string
	}{
		"brackets":                       {hcl("["), deep},
		"parentheses":                    {hcl("("), deep},
		"calls":                          {hcl("f("), deep},
		"objects":                        {hcl("{a="), deep},
		"loops":                          {hcl("[for a in "), deep},
		"indexes":                        {hcl("a["), deep},
		"strings":                        {hcl(`"${`), deep},
		"directives in strings":          {hcl(`"%{if `), deep},
		"heredocs":                       {inline(upTo("\na = ", "<<A\n${")), "levels deep"},
		"blocks":                         {inline(upTo("", "a {\n")), "line 201: nested"},
		"not":                            {hcl("!"), deep},
		"minus":                          {hcl("-"), deep},
		"both":                           {hcl("! - "), deep},
		"not, by lines":                  {inline(upTo("a = (", "!\n")), "line 201: nested"},
		"closed in a string":             {hcl(`["]",`), deep},
		"closed in a comment":            {hcl("[/*]*/"), deep},
		"closed by something else":       {hcl("[)"), deep},
		"conditionals within each other": {hcl("a?"), "line 2: the module has more than 10000 conditionals"},
		"conditionals in a row":          {hcl("a?b:"), "10000 conditionals"},
		"splats":                         {inline(upTo("a = a", "[*]")), "line 1: the module has more than 10000 splats"},
		"splats, by lines":               {inline(upTo("a = (a[,{]", "[*]\n")), "10000 splats"},
		"splats that are not closed":     {inline(upTo("a = (a[,]", "[*,")), "line 1: nested"},
		"if":                             {inline(upTo(`a = "`, "%{if a}")), "10000 template directives"},
		"else":                           {inline(upTo(`a = "`, "%{if a}x%{else}")), "10000 template directives"},
		"for":                            {inline(upTo(`a = "`, "%{~for a in b~}")), "10000 template directives"},
		"namespaces":                     {inline(upTo("a = a", "::a")), "10000 namespaces"},
		"digits":                         {hcl("1"), "line 2: a number of more than 1000 characters"},
		"JSON lists":                     {json("["), deep},
		"JSON objects":                   {json(`{"a":`), deep},
		"JSON closed in a string":        {json(`["]",`), deep},
		"JSON closed by an escape":       {json(`["\"]",`), deep},
		"JSON closed by something else":  {json("[}"), deep},
		"JSON digits":                    {json("1"), "line 2: a number of more than"},
		"JSON words":                     {json("true"), "line 2: a number of more than"},
		"JSON strings that go on":        {inlineJSON("[\"\u0600\", \"" + strings.Repeat("[", megabyte) + "\"]"), "line 1: HCL combines the character U+0600"},
	} {
		t.Run(name, func(t *testing.T) {
			errs := modules.ValidateModule(row.params, field.NewPath("forProvider"))
			require.Len(t, errs, 1)
			assert.Equal(t, "forProvider.module", errs[0].Field)
			assert.Contains(t, errs[0].Detail, row.want)
			assert.Less(t, len(errs[0].Error()), 300)
		})
	}
}

func TestRejectedModulesAreNotParsed(t *testing.T) {
	path := field.NewPath("spec", "template", "spec", "forProvider")
	for _, params := range []terraform.WorkspaceParameters{inline(upTo("a = ", "[")), inlineJSON(upTo("", "["))} {
		object := builder.WorkspaceTemplate("vpc", ofParameters(params))
		object.Spec.PublishOutputs = []string{"a"}
		findings := validation.ValidateWorkspaceTemplate(object)
		require.Len(t, findings.Errors, 1)
		assert.Empty(t, findings.Warnings)
		assert.Equal(t, findings.Errors, modules.ValidateModule(params, path))
		assert.Equal(t, findings.Errors, modules.ValidateComplexity(params, path))
	}
	assert.Empty(t, modules.ValidateComplexity(inline("a ="), path), "it can be parsed, and the parser reports what is wrong")
	assert.Empty(t, modules.ValidateComplexity(terraform.WorkspaceParameters{Source: terraform.SourceRemote, Module: upTo("", "[")}, path))
}

func TestLargeModulesAreParsed(t *testing.T) {
	deep := func(open, text, end string) string {
		return "a = " + strings.Repeat(open, 199) + text + strings.Repeat(end, 199) + "\n"
	}
	for name, params := range map[string]terraform.WorkspaceParameters{
		"as deep as it may be":            inline(deep("[", "1", "]") + strings.Replace(deep("!", "a", ""), "a", "b", 1)),
		"often as deep as it may be":      inline("a = [\n" + strings.Repeat(strings.Repeat("[", 198)+strings.Repeat("]", 198)+",\n", 1000) + "]\n"),
		"JSON as deep as it may be":       inlineJSON(`{"a": ` + strings.Repeat("[", 199) + strings.Repeat("]", 199) + "}"),
		"as many conditionals":            inline("a = " + strings.Repeat("a?", 10000) + "b" + strings.Repeat(":c", 10000) + "\n"),
		"as many splats":                  inline("a = a" + strings.Repeat("[*]", 10000) + "\n"),
		"as many directives":              inline(`a = "` + strings.Repeat("%{if a}", 5000) + strings.Repeat("%{endif}", 5000) + "\"\n"),
		"as many namespaces":              inline("a = a" + strings.Repeat("::a", 10000) + "()\n"),
		"attributes":                      inline(large("a = a", ".b") + "\n"),
		"indexes":                         inline(large("a = a", "[0]") + "\n"),
		"indexes by reference":            inline(large("a = a", "[b]") + "\n"),
		"legacy splats":                   inline(large("a = a", ".*[b]") + "\n"),
		"sums":                            inline(large("a = a", "+a") + "\n"),
		"operators of all kinds":          inline(large("a = a", "||a&&a==a<a+a*a") + "\n"),
		"lists":                           inline(large("a = [", "1,") + "]\n"),
		"templates":                       inline(large(`a = "`, "${a}") + "\"\n"),
		"negative numbers":                inline(large("a = [", "-1,") + "]\n"),
		"blocks":                          inline(large("", "b {\n}\n")),
		"brackets in strings":             inline(large(`a = "`, "[({") + "\"\n"),
		"brackets in comments":            inline(large("# ", "[({") + "\n"),
		"JSON lists":                      inlineJSON(large(`{"a": [`, "1,") + "1]}"),
		"JSON objects":                    inlineJSON(large(`{`, `"a":{},`) + `"b":{}}`),
		"JSON brackets in strings":        inlineJSON(large(`{"a": "`, "[{") + "\"}"),
		"JSON, allowed Prepend character": inlineJSON(`{"a": "\u0600"}`),
		"JSON in other languages":         inlineJSON(`{"a": "日本語", "b": "é🙂"}`),
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, template(params)) })
	}
}

// Some operators are not counted, and the evaluation of this expression takes quadratic time.
func TestLongExpressionsAreNotEvaluated(t *testing.T) {
	object := builder.WorkspaceTemplate("vpc", ofParameters(inline(upTo("output \"a\" {\n  value = 1\n  sensitive = a", "+a")+"\n}\n")))
	object.Spec.PublishOutputs = []string{"a"}
	assert.Empty(t, validation.ValidateWorkspaceTemplate(object).Errors)
}

// If HCL continued a string after its end according to the scanner, brackets would not be counted. So both must agree for every character.
func TestStringsOfJSONEndAsInHCL(t *testing.T) {
	for r := rune(0x80); r < 0x20000; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		params := inlineJSON(fmt.Sprintf(`{"a": "%c"}`, r))
		_, diags := hclparse.NewParser().ParseJSON([]byte(params.Module), "")
		if diags.HasErrors() {
			require.NotEmpty(t, modules.ValidateComplexity(params, nil), "%U", r)
		}
	}
}
