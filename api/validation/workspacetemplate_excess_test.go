// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/api/validation/templates"
	"github.com/capt-provider/capt/test/builder"
)

const megabyte = 1 << 20

// upTo repeats a text after another, to a module of a megabyte. Larger ones no API server takes.
func upTo(start, text string) string { return filled(megabyte, start, text) }

// large makes what no person writes, and is parsed all the same.
func large(start, text string) string { return filled(megabyte/8, start, text) }

func filled(size int, start, text string) string {
	return start + strings.Repeat(text, (size-len(start))/len(text))
}

// Most of these ended the process, or took minutes, when they were parsed.
func TestModulesThatWouldExhaustTheParserAreRefused(t *testing.T) {
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
			errs := modules.Module(row.params, field.NewPath("forProvider"))
			require.Len(t, errs, 1)
			assert.Equal(t, "forProvider.module", errs[0].Field)
			assert.Contains(t, errs[0].Detail, row.want)
			assert.Less(t, len(errs[0].Error()), 300)
		})
	}
}

func TestRefusedModulesAreNotParsed(t *testing.T) {
	path := field.NewPath("spec", "template", "spec", "forProvider")
	for _, params := range []terraform.WorkspaceParameters{inline(upTo("a = ", "[")), inlineJSON(upTo("", "["))} {
		object := builder.WorkspaceTemplate("vpc", ofParameters(params))
		object.Spec.PublishOutputs = []string{"a"}
		findings := templates.WorkspaceTemplate(object)
		require.Len(t, findings.Errors, 1)
		assert.Empty(t, findings.Warnings)
		assert.Equal(t, findings.Errors, modules.Module(params, path))
		assert.Equal(t, findings.Errors, modules.Parseable(params, path))
	}
	assert.Empty(t, modules.Parseable(inline("a ="), path), "it can be parsed, and the parser reports what is wrong")
	assert.Empty(t, modules.Parseable(terraform.WorkspaceParameters{Source: terraform.SourceRemote, Module: upTo("", "[")}, path))
}

func TestLargeModulesAreParsed(t *testing.T) {
	deep := func(open, text, end string) string {
		return "a = " + strings.Repeat(open, 199) + text + strings.Repeat(end, 199) + "\n"
	}
	for name, params := range map[string]terraform.WorkspaceParameters{
		"as deep as it may be":        inline(deep("[", "1", "]") + strings.Replace(deep("!", "a", ""), "a", "b", 1)),
		"often as deep as it may be":  inline("a = [\n" + strings.Repeat(strings.Repeat("[", 198)+strings.Repeat("]", 198)+",\n", 1000) + "]\n"),
		"JSON as deep as it may be":   inlineJSON(`{"a": ` + strings.Repeat("[", 199) + strings.Repeat("]", 199) + "}"),
		"as many conditionals":        inline("a = " + strings.Repeat("a?", 10000) + "b" + strings.Repeat(":c", 10000) + "\n"),
		"as many splats":              inline("a = a" + strings.Repeat("[*]", 10000) + "\n"),
		"as many directives":          inline(`a = "` + strings.Repeat("%{if a}", 5000) + strings.Repeat("%{endif}", 5000) + "\"\n"),
		"as many namespaces":          inline("a = a" + strings.Repeat("::a", 10000) + "()\n"),
		"attributes":                  inline(large("a = a", ".b") + "\n"),
		"indexes":                     inline(large("a = a", "[0]") + "\n"),
		"indexes by reference":        inline(large("a = a", "[b]") + "\n"),
		"legacy splats":               inline(large("a = a", ".*[b]") + "\n"),
		"sums":                        inline(large("a = a", "+a") + "\n"),
		"operators of all kinds":      inline(large("a = a", "||a&&a==a<a+a*a") + "\n"),
		"lists":                       inline(large("a = [", "1,") + "]\n"),
		"templates":                   inline(large(`a = "`, "${a}") + "\"\n"),
		"negative numbers":            inline(large("a = [", "-1,") + "]\n"),
		"blocks":                      inline(large("", "b {\n}\n")),
		"brackets in strings":         inline(large(`a = "`, "[({") + "\"\n"),
		"brackets in comments":        inline(large("# ", "[({") + "\n"),
		"JSON lists":                  inlineJSON(large(`{"a": [`, "1,") + "1]}"),
		"JSON objects":                inlineJSON(large(`{`, `"a":{},`) + `"b":{}}`),
		"JSON brackets in strings":    inlineJSON(large(`{"a": "`, "[{") + "\"}"),
		"JSON, a character that goes": inlineJSON(`{"a": "\u0600"}`),
		"JSON in other languages":     inlineJSON(`{"a": "日本語", "b": "é🙂"}`),
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, template(params)) })
	}
}

// Some operators are not counted, and evaluating this takes time by the square of its length.
func TestALongExpressionIsNotEvaluated(t *testing.T) {
	object := builder.WorkspaceTemplate("vpc", builder.WithParameters(func(p *terraform.WorkspaceParameters) {
		*p = inline(upTo("output \"a\" {\n  value = 1\n  sensitive = a", "+a") + "\n}\n")
	}))
	object.Spec.PublishOutputs = []string{"a"}
	assert.Empty(t, templates.WorkspaceTemplate(object).Errors)
}

// Where HCL reads on after the end of a string, brackets could hide: no such character may be overlooked.
func TestStringsOfJSONEndWhereHCLEndsThem(t *testing.T) {
	for r := rune(0x80); r < 0x20000; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		params := inlineJSON(fmt.Sprintf(`{"a": "%c"}`, r))
		_, diags := hclparse.NewParser().ParseJSON([]byte(params.Module), "")
		if diags.HasErrors() {
			require.NotEmpty(t, modules.Parseable(params, nil), "%U", r)
		}
	}
}
