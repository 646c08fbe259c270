// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestAValueDoesNotChangeWhatTheModuleConsistsOf(t *testing.T) {
	for name, row := range map[string]struct{ module, value string }{
		"ends a heredoc":        {"a = <<EOT\n${value}\nb = <<EOT\nEOT\n", "EOT"},
		"ends half a heredoc":   {"a = <<EOT\n${value}\nEOT\n", "EOT"},
		"ends a comment":        {"/* *${value} resource \"a\" \"b\" {} /* */\n", "/"},
		"begins a reference":    {`a = "$${value}{var.secret}"`, ""},
		"begins a function":     {`a = "$${value}{timestamp()}"`, ""},
		"begins a condition":    {`a = "%${value}{ if true }x%${value}{ endif }"`, ""},
		"begins a loop":         {`a = "%${value}{ for x in [1] }x%${value}{ endfor }"`, ""},
		"brings in another one": {`a = "${value}$${value}{var.value}"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, errs := Workspace(rendering{apply: variables("value", row.value), template: []builder.Option{builder.WithModule(row.module)}}.input())
			assert.Nil(t, rendered)
			require.Len(t, errs, 1)
			assert.Equal(t, "spec.template.spec.forProvider.module", errs[0].Field)
			assert.Contains(t, errs[0].Detail, `("value") would change the structure of the module`)
			assert.Contains(t, errs[0].Detail, "forProvider.vars or varmap")
		})
	}
}

func TestAPlaceholderMayStandWhereverAModuleHasAText(t *testing.T) {
	for _, module := range []string{
		`a = "${value}"`,
		`a = "x${value}y${var.b}$${value}"`,
		`a = { "${value}" = 1, "x${value}" = local.b["${value}"].c, d = value["${value}"] }`,
		`a = "${var.b == "${value}" ? upper("${value}") : join(",", ["${value}", "x"])}"`,
		`a = [for value in var.b : "${value}-%{ if value == "${value}" }x%{ endif }"]`,
		"a = <<-EOT\n  x ${value}\n  EOT\nb = <<EOT\n${value}\nEOT\n",
		"# ${value}\n// ${value}\n/* ${value} */\na = 1\n",
		"resource \"terraform_data\" \"a\" {\n  input = \"${value}\"\n  provisioner \"local-exec\" { command = \"${value}\" }\n}\n",
		// Where HCL knows no placeholder, it is meant to become a part of the module.
		"resource \"terraform_data\" \"${value}\" {}\n",
		"a = ${value}\n", "${value} = 1\n", "a = [${value}, ${value}]\n",
	} {
		t.Run(module, func(t *testing.T) {
			rendering{apply: variables("value", "demo"), template: []builder.Option{builder.WithModule(module)}}.must(t)
		})
	}
}

// Nothing that is safe in a module means anything in a JSON text.
func TestAPlaceholderMayStandInEveryTextOfAModuleInJSON(t *testing.T) {
	rendered := rendering{
		apply: variables("value", "demo"),
		template: params(func(p *terraform.WorkspaceParameters) {
			p.InlineFormat, p.Module = terraform.FormatJSON, `{"resource": {"terraform_data": {"${value}": {"input": "${value}"}}}}`
		}),
	}.must(t)
	assert.Equal(t, `{"resource": {"terraform_data": {"demo": {"input": "demo"}}}}`, at(t, rendered, "spec", "forProvider", "module"))
}
