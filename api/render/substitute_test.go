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

func TestPlaceholdersAreReplacedInEveryStringOfTheSpec(t *testing.T) {
	rendered := rendering{
		apply: variables("name", "demo", "secret", "creds"),
		template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.ProviderConfigRef.Name = "aws-${name}"
			spec.ForProvider.Module = "# ${name} ${name}"
			spec.ForProvider.Entrypoint = "${name}/eks"
			spec.ForProvider.Vars = []terraform.Var{{Key: "a", Value: "${name}-${secret}"}}
			spec.ForProvider.VarMap = varmap(`{"list": ["${name}", 1], "deep": {"a": "x${name}y"}}`)
			spec.ForProvider.Env = []terraform.EnvVar{{Name: "A", SecretKeyRef: &terraform.KeyReference{Name: "${secret}", Key: "k"}}}
			spec.ForProvider.PlanArgs = []string{"-parallelism=${name}"}
		})},
	}.must(t)

	assert.Equal(t, map[string]any{
		"providerConfigRef": map[string]any{"name": "aws-demo", "kind": "ClusterProviderConfig"},
		"forProvider": map[string]any{
			"source": "Inline", "module": "# demo demo", "entrypoint": "demo/eks",
			"vars":     []any{map[string]any{"key": "a", "value": "demo-creds"}},
			"varmap":   map[string]any{"list": []any{"demo", int64(1)}, "deep": map[string]any{"a": "xdemoy"}},
			"env":      []any{map[string]any{"name": "A", "secretKeyRef": map[string]any{"name": "creds", "key": "k"}}},
			"planArgs": []any{"-parallelism=demo"},
		},
	}, rendered.Object.Object["spec"])
}

func TestKeysAreNotStringsToReplaceIn(t *testing.T) {
	rendered := rendering{
		apply:    variables("name", "demo"),
		template: params(func(p *terraform.WorkspaceParameters) { p.VarMap = varmap(`{"${name}": "x"}`) }),
	}.must(t)
	assert.Equal(t, map[string]any{"${name}": "x"}, at(t, rendered, "spec", "forProvider", "varmap"))
}

func TestUnknownPlaceholdersAreTerraformsOwn(t *testing.T) {
	const module = "output \"a\" { value = \"${var.region}-${substr(local.id, 0, 8)}-${unknown}-$${name}-${ name }\" }\n"
	rendered := rendering{apply: variables("other", "x"), template: []builder.Option{builder.WithModule(module)}}.must(t)
	assert.Equal(t, module, at(t, rendered, "spec", "forProvider", "module"))
}

func TestAValueIsNotLookedAtForPlaceholdersAgain(t *testing.T) {
	rendered := rendering{
		apply:    variables("a", "${b}", "b", "never"),
		template: params(func(p *terraform.WorkspaceParameters) { p.Vars = []terraform.Var{{Key: "a", Value: "${a}"}} }),
	}.must(t)
	assert.Equal(t, []any{map[string]any{"key": "a", "value": "${b}"}}, at(t, rendered, "spec", "forProvider", "vars"))
}

func TestTheNameOfTheWorkspaceIsAVariable(t *testing.T) {
	rendered := rendering{
		apply: variables("WORKSPACE_NAME", "a user's own is not heard"),
		template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "${WORKSPACE_NAME}-connection"}
		})},
	}.must(t)
	assert.Equal(t, "demo-vpc-connection", at(t, rendered, "spec", "writeConnectionSecretToRef", "name"))
}

// hostile are values that meant something in the serialized text into which CAPT v0.3 put them (defect 12).
var hostile = map[string]string{
	"quote":              `x"`,
	"ends the string":    `x", "providerConfigRef": {"name": "admin"}, "a": "`,
	"brace":              `x"}}, {"y": {"z`,
	"line break":         "x\ny",
	"line break, quoted": `x\ny`,
	"backslash":          `x\`,
	"carriage return":    "x\r\ny",
	"null":               "null",
	"a number":           "12",
	"JSON":               `{"a": [1, 2]}`,
	"HCL":                `x" } resource "aws_iam_user" "evil" {`,
	"interpolation":      `${file("/etc/passwd")}`,
	"not ASCII":          "Größe 東京 \u2028 <&>",
	"empty":              "",
}

func TestAnyValueArrivesInVarsAndVarmapByteForByteAndAddsNothing(t *testing.T) {
	for name, value := range hostile {
		t.Run(name, func(t *testing.T) {
			rendered := rendering{
				apply: variables("value", value, "cluster_name", "demo"),
				template: params(func(p *terraform.WorkspaceParameters) {
					p.Vars = []terraform.Var{{Key: "a", Value: "${value}"}}
					p.VarMap = varmap(`{"a": "${value}", "b": ["<${value}>"]}`)
				}),
			}.must(t)
			assert.Equal(t, map[string]any{
				"providerConfigRef": map[string]any{"name": "aws", "kind": "ClusterProviderConfig"},
				"forProvider": map[string]any{
					"source": "Inline", "module": "variable \"cluster_name\" {}\n",
					"vars":   []any{map[string]any{"key": "a", "value": value}},
					"varmap": map[string]any{"a": value, "b": []any{"<" + value + ">"}},
				},
			}, rendered.Object.Object["spec"])
		})
	}
}

func TestOnlyHarmlessValuesMayBecomePartOfTheModule(t *testing.T) {
	const module = `output "a" { value = "${value}" }`
	for value, legal := range map[string]bool{
		"":                             true,
		"demo-cluster":                 true,
		"10.0.0.0/16, 10.1.0.0/16":     true,
		"arn:aws:iam::123:role/x+y=@_": true,
		`x"`:                           false,
		"x\ny":                         false,
		"x\n":                          false,
		`x\`:                           false,
		"${path.module}":               false,
		"%{if true}":                   false,
		"x}":                           false,
		"a#b":                          false,
		"größe":                        false,
		"*":                            false,
		"'":                            false,
		"(":                            false,
	} {
		t.Run(value, func(t *testing.T) {
			_, errs := Workspace(rendering{apply: variables("value", value), template: []builder.Option{builder.WithModule(module)}}.input())
			assert.Equal(t, legal, len(errs) == 0, "%v", errs)
		})
	}
}

func TestARefusedValueIsReportedByTheNameOfItsVariableOnly(t *testing.T) {
	input := rendering{
		apply:    variables("password", `hunter2"`, "fine", "x"),
		template: []builder.Option{builder.WithModule(`output "a" { value = "${password}${password}${fine}" }`)},
	}.input()
	_, errs := Workspace(input)
	require.Len(t, errs, 1, "once a variable, however often it occurs")
	assert.Equal(t, "spec.template.spec.forProvider.module", errs[0].Field)
	assert.Contains(t, errs[0].Detail, `variable "password"`)
	assert.Contains(t, errs[0].Detail, "forProvider.vars or varmap")
	assert.NotContains(t, errs.ToAggregate().Error(), "hunter2")
}

func TestAValueThatTheModuleDoesNotUseIsNotLookedAt(t *testing.T) {
	rendering{apply: variables("cluster_name", "demo", "unused", `x"`)}.must(t)
}

// The address of a module says which code runs. A value may choose a name or a version in it, but not lead elsewhere.
func TestAValueDoesNotLeadToAnotherModule(t *testing.T) {
	for name, row := range map[string]struct {
		module, value string
		want          string // Empty when it is refused.
	}{
		"a name":                      {"git::https://example.com/acme/${value}.git", "vpc", "git::https://example.com/acme/vpc.git"},
		"a version":                   {"git::https://example.com/acme/vpc.git?ref=${value}", "release/1.2", "git::https://example.com/acme/vpc.git?ref=release/1.2"},
		"out of the folder":           {"git::https://example.com/acme/${value}/vpc.git", "..", ""},
		"another folder":              {"git::https://example.com/${value}/vpc.git", "evil/x", ""},
		"another host, behind a user": {"git::https://${value}example.com/vpc.git", "evil.com@", ""},
		"another scheme":              {"${value}//example.com/vpc", "git::ssh:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, errs := Workspace(rendering{apply: variables("value", row.value), template: params(func(p *terraform.WorkspaceParameters) {
				p.Source, p.Module = terraform.SourceRemote, row.module
			})}.input())
			if row.want == "" {
				require.Len(t, errs, 1)
				assert.Equal(t, "spec.template.spec.forProvider.module", errs[0].Field)
				assert.Contains(t, errs[0].Detail, `"value"`)
				return
			}
			require.Empty(t, errs)
			assert.Equal(t, row.want, at(t, rendered, "spec", "forProvider", "module"))
		})
	}
}

func TestNothingBetweenADollarAndABraceIsNotAnExpressionInJSON(t *testing.T) {
	input := func(module, value string) Input {
		return rendering{apply: variables("value", value), template: params(func(p *terraform.WorkspaceParameters) {
			p.InlineFormat, p.Module = terraform.FormatJSON, module
		})}.input()
	}
	const module = `{"output": {"a": {"value": "$${value}{abspath(path.root)} ${var.b}"}}}`
	_, errs := Workspace(input(module, ""))
	require.Len(t, errs, 1)
	assert.Contains(t, errs[0].Detail, "would change the structure of the module")
	_, errs = Workspace(input(module, "x"))
	assert.Empty(t, errs)
}
