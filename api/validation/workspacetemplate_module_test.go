// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation_test

import (
	"slices"
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

func TestGarbageHasAShortAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		params terraform.WorkspaceParameters
		more   string
	}{
		"every character": {inline(upTo("", "@")), "and 1048567 more errors. Correct"},
		"every line":      {inline(strings.Repeat("a = 1\n", 112)), "and 101 more errors. Correct"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, errs := range []field.ErrorList{template(row.params), modules.Module(row.params, field.NewPath("forProvider"))} {
				require.Len(t, errs, 11)
				assert.Contains(t, errs[9].Detail, "line ")
				assert.Contains(t, errs[10].Detail, row.more)
				assert.Less(t, len(errs.ToAggregate().Error()), 4000)
			}
		})
	}
	assert.Len(t, template(inline(strings.Repeat("a = 1\n", 11))), 10, "as many as may be")
}

func TestAModuleIsFineInTheFormatInWhichItWasFine(t *testing.T) {
	hcl := inline("locals { known = 1 }\n")
	json := hcl
	json.InlineFormat = terraform.FormatJSON
	for range 2 {
		assert.Empty(t, modules.Module(hcl, field.NewPath("forProvider")))
		assert.NotEmpty(t, modules.Module(json, field.NewPath("forProvider")))
	}
}

func TestAPlaceholderMayStillMakeAModuleValid(t *testing.T) {
	const checkedLater = "it is checked again with the values of the variables"
	const module = templateSpec + "forProvider.module: "
	refused := func(where string) []finding {
		return []finding{{templateSpec + "forProvider.module", field.ErrorTypeInvalid, where}}
	}
	rows := map[string]templateRow{
		"a line of its own":      {option: from("Inline", "locals {\n  a = 1\n  ${extra}\n  b = 2\n}\n"), warnings: []string{module + "line 3, column 3: "}},
		"within a number":        {option: from("Inline", "locals {\n  a = 10${n}\n}\n"), warnings: []string{module + "line 2, column 9: "}},
		"columns stay right":     {option: from("Inline", "locals {\n  a = \"${long_name}\" b\n}\n"), warnings: []string{module + "line 2, column 22: "}},
		"another line is wrong":  {option: from("Inline", "locals {\n  b = = 2\n  ${extra}\n}\n"), warnings: []string{module + "line 3"}, errors: refused("line 2, column 7: ")},
		"no placeholder":         {option: from("Inline", "locals {\n  a = 1 {1}\n}\n"), errors: refused("line 2, column 9: ")},
		"a placeholder far away": {option: from("Inline", "locals {\n  a = \"${a}\"\n  b = }\n"), errors: refused("line 3, column 7: ")},
		"JSON":                   {option: ofParameters(inlineJSON("{\"locals\": {\n  \"a\": ${a1},\n  \"b\": 1\n}}")), warnings: []string{module + "line 2, column 8: "}},
		"JSON that is wrong":     {option: ofParameters(inlineJSON("{\"locals\": {\n  \"a\": ${a1},\n  \"b\": x\n}}")), warnings: []string{module + "line 2"}, errors: refused("line 3, column 8: ")},
	}
	testTemplates(t, rows)
	for name, row := range rows {
		object := builder.WorkspaceTemplate("vpc", row.option)
		for _, warning := range templates.WorkspaceTemplate(object).Warnings {
			assert.Contains(t, warning, checkedLater, name)
		}
		// When all values are known, nothing is left that could make it right.
		assert.NotEmpty(t, modules.Module(object.Spec.Template.Spec.ForProvider, nil), name)
	}
	testTemplates(t, map[string]templateRow{
		"many lines": {option: from("Inline", strings.Repeat("${a}\n", 30)), warnings: append(slices.Repeat([]string{module + "line "}, 10), module+"and 20 more lines like these")},
	})
}

func ofParameters(params terraform.WorkspaceParameters) builder.Option {
	return builder.WithParameters(func(p *terraform.WorkspaceParameters) { *p = params })
}

func TestTheEntrypointIsNotQuoted(t *testing.T) {
	errs := templates.Parameters(terraform.WorkspaceParameters{Entrypoint: "../correcthorse"}, field.NewPath("forProvider"))
	require.Len(t, errs, 1)
	assert.NotContains(t, errs.ToAggregate().Error(), "correcthorse")
}
