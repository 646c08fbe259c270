// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package tenancy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// What the controller says about values that it does not let become code.
const (
	unsafe  = `the value of variable "value" has characters that could change the module. Declare a Terraform variable and pass the value in forProvider.vars or varmap`
	outline = `the values of its variables ("value") would change the structure of the module. Declare Terraform variables, and set them in forProvider.vars or varmap`
)

func TestValuesDoNotBecomeCode(t *testing.T) {
	const quoted = `output "cluster_name" { value = "${value}" }`
	w := newWorld(t)
	count := 0
	for name, row := range map[string]struct{ module, value, message string }{
		"a quote ends the string":              {quoted, `" } resource "terraform_data" "evil" {} output "x" { value = "`, unsafe},
		"an expression":                        {quoted, `${file("/etc/passwd")}`, unsafe},
		"a directive":                          {quoted, `%{ if true }x%{ endif }`, unsafe},
		"a line break":                         {quoted, "a\nb", unsafe},
		"a backslash before the quote":         {quoted, `a\`, unsafe},
		"a placeholder of its own":             {quoted, `${value}`, unsafe},
		"text that is not ASCII":               {quoted, "naïve", unsafe},
		"the end of a heredoc":                 {"output \"cluster_name\" {\n  value = <<EOT\n${value}\n${file(\"x\")}\nEOT\n}\n", "EOT", ""},
		"the end of a comment":                 {"/* a *${value} resource \"terraform_data\" \"evil\" {} /* */", "/", outline},
		"nothing, and then there is a bracket": {`output "cluster_name" { value = "$${value}{abspath(path.root)}" }`, "", outline},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, Client: w.Client, a: w.a, b: w.b, canary: w.canary}
			count++
			try := fmt.Sprintf("try-%d", count)
			spec := complete()
			spec.ForProvider.Module = row.module
			w.tries(try, terraform.ScopeNamespaced, false, spec, map[string]string{"value": row.value})
			message := w.awaitRefused(try, infrav1.RenderedCondition, infrav1.TemplateInvalidReason)
			require.Contains(t, message, "spec.template.spec.forProvider.module")
			require.Contains(t, message, row.message)
		})
	}
}

// Strings of a module in JSON are templates, too.
func TestValuesDoNotBecomeCodeInJSON(t *testing.T) {
	w := newWorld(t)
	for name, row := range map[string]struct{ module, value, message string }{
		"quote":   {`{"output": {"cluster_name": {"value": "${value}"}}}`, `", "sensitive": "`, unsafe},
		"nothing": {`{"output": {"cluster_name": {"value": "$${value}{abspath(path.root)}"}}}`, "", outline},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, Client: w.Client, a: w.a, b: w.b, canary: w.canary}
			spec := complete()
			spec.ForProvider.InlineFormat, spec.ForProvider.Module = terraform.FormatJSON, row.module
			w.tries(name, terraform.ScopeNamespaced, false, spec, map[string]string{"value": row.value})
			require.Contains(t, w.awaitRefused(name, infrav1.RenderedCondition, infrav1.TemplateInvalidReason), row.message)
		})
	}
}

func TestValuesDoNotChangeHowTerraformRuns(t *testing.T) {
	w := newWorld(t)
	for name, row := range map[string]struct {
		change  func(*terraform.WorkspaceParameters)
		value   string
		message string
	}{
		"entrypoint": {func(p *terraform.WorkspaceParameters) { p.Entrypoint = "${value}" }, "modules/../../..", "must be a directory within the module"},
		"env":        {func(p *terraform.WorkspaceParameters) { p.Env[0].Name = "${value}" }, "TF_CLI_CONFIG_FILE", "are reserved for the provider"},
		"initargs":   {func(p *terraform.WorkspaceParameters) { p.InitArgs = []string{"${value}"} }, "-backend-config=secret_suffix=theirs", "the Terraform backend is set in the ProviderConfig"},
		"planargs":   {func(p *terraform.WorkspaceParameters) { p.PlanArgs = []string{"-${value}"} }, "state=/theirs", "the Terraform backend is set in the ProviderConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, Client: w.Client, a: w.a, b: w.b, canary: w.canary}
			spec := complete()
			row.change(&spec.ForProvider)
			w.tries(name, terraform.ScopeNamespaced, false, spec, map[string]string{"value": row.value})
			require.Contains(t, w.awaitRefused(name, infrav1.RenderedCondition, infrav1.TemplateInvalidReason), row.message)
		})
	}
}

// What is refused in a module arrives through a Terraform variable, byte for byte.
func TestAnyValueArrivesThroughAVariable(t *testing.T) {
	const hostile = "\" }\n${file(\"/etc/passwd\")} %{ if true } \\ ' 日本 \t"
	w := newWorld(t)
	w.apply(w.a, echo("mine", ""))
	require.NoError(t, w.Create(t.Context(), &infrav1.WorkspaceTemplateApply{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.a, Name: "user"},
		Spec: infrav1.WorkspaceTemplateApplySpec{
			TemplateRef: infrav1.WorkspaceTemplateReference{Name: "mine"}, Variables: map[string]string{"word": hostile},
		},
	}))
	require.Equal(t, hostile, w.awaitReady(w.a, "user").Status.Outputs[terraform.OutputClusterName])
}
