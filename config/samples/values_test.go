// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package samples_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/test/builder"
)

func TestValuesReachTerraformByteForByte(t *testing.T) {
	const special = "a \"quote\", a 'quote', ${var.none} %{ if true } $${x} \\ \\n\nnext\r\n\tgrößer 大 😀 <&> \u2028"
	a := newAccount(t)
	a.templates["echo"] = builder.WorkspaceTemplate("echo", builder.With(func(template *infrav1.WorkspaceTemplate) {
		template.Spec.PassVariables, template.Spec.Substitution = infrav1.PassDeclared, infrav1.SubstitutionFields
		template.Spec.Template.Spec.ForProvider = terraform.WorkspaceParameters{Source: terraform.SourceInline, Module: `
variable "long" { type = string }
variable "groups" { type = list(object({ name = string, size = number, spot = bool, labels = map(string), more = optional(string) })) }
variable "untyped" {}
variable "text" { type = string }
output "long" { value = var.long }
output "groups" { value = var.groups }
output "untyped" { value = var.untyped }
output "text" { value = var.text }
`}
	}))
	groups := []any{map[string]any{"name": special, "size": 3.0, "spot": true, "labels": map[string]any{special: special}, "more": nil}}
	untyped := map[string]any{"list": []any{"a", 1.5, false, map[string]any{"x": special}}}
	encoded := func(value any) apiextensionsv1.JSON {
		raw, err := json.Marshal(value)
		require.NoError(t, err)
		return apiextensionsv1.JSON{Raw: raw}
	}
	outputs := a.open("echo", infrav1.Variables{
		"long": infrav1.TextValue(strings.Repeat(special, 300<<10/len(special)+1)), "groups": encoded(groups), "untyped": encoded(untyped), "text": encoded(untyped),
	}).apply()
	require.Equal(t, strings.Repeat(special, 300<<10/len(special)+1), outputs["long"])
	require.Equal(t, groups, outputs["groups"])
	require.Equal(t, untyped, outputs["untyped"])
	var text any
	require.NoError(t, json.Unmarshal([]byte(outputs["text"].(string)), &text))
	require.Equal(t, any(untyped), text)
}
