// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
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

// Unknown placeholders, keys of varmap, and what the value of a variable looks like are not replaced.
func TestWhatIsNotReplaced(t *testing.T) {
	const module = "output \"a\" { value = \"${var.region}-${substr(local.id, 0, 8)}-${unknown}-$${name}-${ name }\" }\n"
	rendered := rendering{apply: variables("a", "${b}", "b", "never"), template: params(func(p *terraform.WorkspaceParameters) {
		p.Module, p.VarMap, p.Vars = module, varmap(`{"${b}": "x"}`), []terraform.Var{{Key: "a", Value: "${a}"}}
	})}.must(t)
	assert.Equal(t, module, at(t, rendered, "spec", "forProvider", "module"))
	assert.Equal(t, map[string]any{"${b}": "x"}, at(t, rendered, "spec", "forProvider", "varmap"))
	assert.Equal(t, []any{map[string]any{"key": "a", "value": "${b}"}}, at(t, rendered, "spec", "forProvider", "vars"))
}

// Names of iterators are placeholders by their form. CAPT v0.3 replaced them; escapes of Terraform too.
func TestWhereVariablesAreSubstituted(t *testing.T) {
	const module = "locals {\n  a = [for region in [\"x\"] : \"${region} $${region} ${missing}\"]\n}\n"
	for mode, want := range map[infrav1.Substitution]struct{ module, field string }{
		infrav1.SubstitutionFields: {module, "eu ${region}"},
		infrav1.SubstitutionAll:    {"locals {\n  a = [for region in [\"x\"] : \"eu $${region} ${missing}\"]\n}\n", "eu ${region}"},
		"":                         {"locals {\n  a = [for region in [\"x\"] : \"eu $eu ${missing}\"]\n}\n", "eu $eu"},
	} {
		substitution := builder.With(func(template *infrav1.WorkspaceTemplate) { template.Spec.Substitution = mode })
		rendered := rendering{apply: variables("region", "eu"), template: append(params(func(p *terraform.WorkspaceParameters) {
			p.Module, p.Vars = module, []terraform.Var{{Key: "a", Value: "${region} $${region}"}}
		}), substitution)}.must(t)
		assert.Equal(t, want.module, at(t, rendered, "spec", "forProvider", "module"), mode)
		assert.Equal(t, []any{map[string]any{"key": "a", "value": want.field}}, at(t, rendered, "spec", "forProvider", "vars"), mode)
	}
}

// Terraform would receive the text ${owner}.
func TestAPlaceholderOfAFieldMustHaveAValue(t *testing.T) {
	template := builder.WorkspaceTemplate("vpc", builder.WithParameters(func(p *terraform.WorkspaceParameters) {
		p.Vars = []terraform.Var{{Key: "a", Value: "x-${owner}"}}
	}))
	for mode, refused := range map[infrav1.Substitution]bool{infrav1.SubstitutionFields: true, infrav1.SubstitutionAll: false, "": false} {
		template.Spec.Substitution = mode
		_, errs := Workspace(Input{Apply: builder.WorkspaceTemplateApply("vpc"), Template: template, Name: "vpc"})
		require.Equal(t, refused, len(errs) == 1, "%s: %s", mode, errs)
		if refused {
			assert.Equal(t, field.ErrorTypeRequired, errs[0].Type)
			assert.Equal(t, "spec.template.spec.forProvider.vars[0].value: Required value: placeholder ${owner} has no value. Set the variable, or write $${owner} for the text ${owner}", errs[0].Error())
		}
	}
}

// A Cluster without infrastructureRef has no VPC, and nothing else says so.
func TestAMissingVPCNamesTheReferenceOfTheCluster(t *testing.T) {
	template := builder.WorkspaceTemplate("eks", builder.WithParameters(func(p *terraform.WorkspaceParameters) {
		p.Vars = []terraform.Var{{Key: "vpc_id", Value: "${vpc_id}"}}
	}))
	template.Spec.Substitution = infrav1.SubstitutionFields
	_, errs := Workspace(Input{Apply: builder.WorkspaceTemplateApply("eks"), Template: template, Name: "eks"})
	require.ErrorContains(t, errs.ToAggregate(), "set spec.infrastructureRef of the Cluster")
}

func TestWorkspaceNameIsAVariable(t *testing.T) {
	rendered := rendering{
		apply: variables("WORKSPACE_NAME", "a user's own is not heard"),
		template: []builder.Option{builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
			spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "${WORKSPACE_NAME}-connection"}
		})},
	}.must(t)
	assert.Equal(t, "demo-vpc-connection", at(t, rendered, "spec", "writeConnectionSecretToRef", "name"))
}

// hostile are values with a meaning in serialized text, in which CAPT v0.3 replaced placeholders (defect 12).
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

func TestErrorAboutAValueHasOnlyTheNameOfTheVariable(t *testing.T) {
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

	rendering{apply: variables("cluster_name", "demo", "unused", `x"`)}.must(t) // What is not used is not checked.
}

// The address of a module determines which code runs. A value can select a name or a version, but not another host or path.
func TestValuesCannotSelectAnotherModule(t *testing.T) {
	for name, row := range map[string]struct {
		module, value string
		want          string // Empty when it is rejected.
	}{
		"a name":                            {"git::https://example.com/acme/${value}.git", "vpc", "git::https://example.com/acme/vpc.git"},
		"a version":                         {"git::https://example.com/acme/vpc.git?ref=${value}", "release/1.2", "git::https://example.com/acme/vpc.git?ref=release/1.2"},
		"out of the folder":                 {"git::https://example.com/acme/${value}/vpc.git", "..", ""},
		"another folder":                    {"git::https://example.com/${value}/vpc.git", "evil/x", ""},
		"another host, behind a user":       {"git::https://${value}example.com/vpc.git", "evil.com@", ""},
		"another scheme":                    {"${value}//example.com/vpc", "git::ssh:", ""},
		"another parameter":                 {"git::https://example.com/acme/vpc.git?ref=${value}", "main&sshkey=x", ""},
		"behind a dollar sign":              {"git::https://example.com/$${value}/vpc.git", "x/../evil", ""},
		"another host, after a dollar sign": {"git::https://$${value}example.com/vpc.git", "evil.com@", ""},
		"an end of the address":             {"git::https://example.com/acme/vpc.git?ref=${value}", "main\nx", ""},
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

func TestEmptyValueCannotStartAnExpressionInJSON(t *testing.T) {
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

func TestValuesCannotChangeTheStructureOfAModule(t *testing.T) {
	for name, row := range map[string]struct{ module, value string }{
		"ends a heredoc":        {"a = <<EOT\n${value}\nb = <<EOT\nEOT\n", "EOT"},
		"ends half a heredoc":   {"a = <<EOT\n${value}\nEOT\n", "EOT"},
		"ends a comment":        {"/* *${value} resource \"a\" \"b\" {} /* */\n", "/"},
		"begins a reference":    {`a = "$${value}{var.secret}"`, ""},
		"begins a function":     {`a = "$${value}{timestamp()}"`, ""},
		"begins a condition":    {`a = "%${value}{ if true }x%${value}{ endif }"`, ""},
		"begins a loop":         {`a = "%${value}{ for x in [1] }x%${value}{ endfor }"`, ""},
		"brings in another one": {`a = "${value}$${value}{var.value}"`, ""},
		// Not valid before the substitution.
		"is a name":                      {"a = ${value}\n", "demo"},
		"is a reference":                 {"a = ${value}\n", "var.secret"},
		"is null":                        {"a = ${value}\n", "null"},
		"is a keyword in a string":       {`a = "${${value}}"`, "path.root"},
		"selects a variable":             {"a = var.${value}\n", "secret"},
		"selects a variable by its end":  {"a = var.x${value}\n", "0"},
		"selects a variable by a bool":   {"a = var.${value}\n", "true"},
		"selects an element":             {"a = local.all.${value}\n", "1"},
		"selects an alias of a provider": {"resource \"a\" \"b\" {\n  provider = aws.${value}\n}\n", "other"},
		"is the name of an argument":     {"${value} = 1\n", "demo"},
		"is the type of a block":         {"${value} \"a\" \"b\" {}\n", "provider"},
		"is a label without quotes":      {"resource a ${value} {}\n", "demo"},
		"is a name of a heredoc":         {"a = <<${value}\nx\nEOT\n", "EOT"},
		"adds fields":                    {"tags = { Name = ${value} }\n", "1, Owner = 2"},
		"adds elements":                  {"a = [${value}, 3]\n", "1, 2"},
		"is a name in a list":            {"a = [\"${value}\", ${value}]\n", "demo"},
		"subtracts":                      {"a = 5${value}\n", "-1"},
		"divides":                        {"a = ${value}\n", "1/2"},
		"compares":                       {"a = ${value}\n", "1 == 2"},
		"begins a comment":               {"a = ${value} + 5\n", "1 //"},
		"calls a function":               {"a = ${value}(1)\n", "abs"},
		"is the variable of a loop":      {"a = [for ${value} in [1] : x]\n", "x"},
		"is an escape":                   {`a = "\${value}"`, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			requireStructureError(t, row.module, row.value, "")
		})
	}
}

// requireStructureError requires that a value of the variable "value" is refused in a module.
func requireStructureError(t *testing.T, module, value string, format terraform.FileFormat) {
	t.Helper()
	rendered, errs := Workspace(rendering{apply: variables("value", value), template: params(func(p *terraform.WorkspaceParameters) {
		p.InlineFormat, p.Module = format, module
	})}.input())
	assert.Nil(t, rendered)
	require.NotEmpty(t, errs)
	assert.Equal(t, "spec.template.spec.forProvider.module", errs[0].Field)
	assert.Contains(t, errs[0].Detail, `("value") would change the structure of the module`)
	assert.Contains(t, errs[0].Detail, "forProvider.vars or varmap")
}

// In JSON, every name is in quotes, too.
func TestValuesCannotChangeTheStructureOfAModuleInJSON(t *testing.T) {
	for name, row := range map[string]struct{ module, value string }{
		"starts an expression":       {`{"output": {"a": {"value": "$${value}{abspath(path.root)}"}}}`, ""},
		"selects a variable":         {`{"output": {"a": {"value": "${var.${value}}"}}}`, "secret"},
		"is a name in an expression": {`{"output": {"a": {"value": "${${value}}"}}}`, "path.root"},
		"is the name of an argument": {`{"output": {"a": {"${value}": "x"}}}`, "sensitive"},
		"is the type of a block":     {`{"${value}": {"a": {"value": "x"}}}`, "output"},
		"is the name of a local":     {`{"locals": {"${value}": 1}}`, "a"},
		"adds elements":              {`{"locals": {"a": [${value}]}}`, "1, 2"},
		"is null":                    {`{"locals": {"a": ${value}}}`, "null"},
	} {
		t.Run(name, func(t *testing.T) {
			requireStructureError(t, row.module, row.value, terraform.FormatJSON)
		})
	}
}

func TestPlaceholdersAreAllowedForLiteralsInAModule(t *testing.T) {
	for module, values := range map[string][]string{
		`a = "${value}"`:                    {"demo", "", "-1", "10.0.0.0/16", "a=b, c"},
		`a = "x${value}y${var.b}$${value}"`: {"demo"},
		`a = { "${value}" = 1, "x${value}" = local.b["${value}"].c, d = value["${value}"] }`:                                        {"demo"},
		`a = "${var.b == "${value}" ? upper("${value}") : join(",", ["${value}", "x"])}"`:                                           {"demo"},
		`a = [for value in var.b : "${value}-%{ if value == "${value}" }x%{ endif }"]`:                                              {"demo"},
		"a = <<-EOT\n  x ${value}\n  EOT\nb = <<EOT\n${value}\nEOT\n":                                                               {"demo", ""},
		"# ${value}\n// ${value}\n/* ${value} */\na = 1\n":                                                                          {"demo", ""},
		"resource \"terraform_data\" \"a\" {\n  input = \"${value}\"\n  provisioner \"local-exec\" { command = \"${value}\" }\n}\n": {"demo"},
		// Not valid before the substitution.
		"resource \"terraform_data\" \"${value}\" {}\n": {"demo", "1"},
		"a = ${value}\n": {"1", "-1", "1.5", "1e5", "-1.5E-3", "true", "false"},
		"a = [${value}, \"${value}\", x - ${value}]\n": {"1", "-1", "true"},
		"a = { b = ${value} == 1 ? ${value} : 2 }\n":   {"1", "-1"},
	} {
		for _, value := range values {
			t.Run(module+" "+value, func(t *testing.T) {
				rendering{apply: variables("value", value), template: []builder.Option{builder.WithModule(module)}}.must(t)
			})
		}
	}
}

func TestAnErrorAboutTheStructureNamesTheVariablesThatCauseIt(t *testing.T) {
	for name, row := range map[string]struct {
		module, value, other string
		names                []string
	}{
		"one":                         {"a = \"${other}\"\nb = ${value}\n", "demo", "demo", []string{"value"}},
		"both":                        {"a = ${other}\nb = ${value}\n", "demo", "demo", []string{"other", "value"}},
		"two that only do it jointly": {"a = <<EOT\n${value}${other}\nb = <<EOT\nEOT\n", "EO", "T", []string{"other", "value"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := Workspace(rendering{apply: variables("value", row.value, "other", row.other), template: []builder.Option{builder.WithModule(row.module)}}.input())
			require.Len(t, errs, 1)
			for _, variable := range []string{"value", "other"} {
				assert.Equal(t, slices.Contains(row.names, variable), strings.Contains(errs[0].Detail, strconv.Quote(variable)), errs[0].Detail)
			}
		})
	}
}

// Characters that are safe in a module have no meaning in a JSON string.
func TestPlaceholdersAreAllowedInAnyTextOfAJSONModule(t *testing.T) {
	rendered := rendering{
		apply: variables("value", "demo"),
		template: params(func(p *terraform.WorkspaceParameters) {
			p.InlineFormat, p.Module = terraform.FormatJSON, `{"resource": {"terraform_data": {"${value}": {"input": "${value}"}}}}`
		}),
	}.must(t)
	assert.Equal(t, `{"resource": {"terraform_data": {"demo": {"input": "demo"}}}}`, at(t, rendered, "spec", "forProvider", "module"))
}

// rounds is the number of values with which each property is tested: with -short, as in make test, a part of them. The fuzz targets test more.
func rounds() int {
	if testing.Short() {
		return 1_000
	}
	return 10_000
}

// hostileModules are modules in which harmless values could have a meaning.
var hostileModules = []string{
	"output \"a\" { value = \"${value}-${other}-${unknown}-$${value}-${WORKSPACE_NAME}\" }\n",
	"resource \"terraform_data\" \"${value}\" {\n  input = { \"${other}\" = local.all[\"${value}\"], n = ${value} }\n}\n",
	"a = <<EOT\n${value}\nb = <<EOT\nEOT\n",
	"a = <<-EOT\n  ${value}${other}\n  EOT\n",
	"/* *${value}${other} a {} /* */\n",
	"a = \"$${value}{var.a}%${value}{ if true }x%${value}{ endif }\"\n",
	"# ${value}\na = \"%{ if var.a }${other}%{ endif }\"\n",
	"a = ${value}\nb = [${other}, x - ${value}]\nc = { d = ${other} }\n",
	"a = var.x${value}\nb = local.all.${other}\n",
	"a = 1${value}\n${other} = 2\n",
	"a = [for ${value} in [1] : ${other}]\nb = \"${upper(${value})}\"\n",
}

// literals are values that are a literal of Terraform, also in parts.
var literals = []string{"0", "7", "-1", ".5", "e3", "true", "false", "null", "var", "."}

// fragments are strings that can end a string or start an expression.
var fragments = []string{
	"EOT", "\nEOT\n", "\"", "\\", "\\\"", "'", "${", "%{", "$${", "}", "{", "/*", "*/", "//", "#", "\n", "\r", "\t", "\u2028", "\x00", "ö", "東", "\U0001F600",
	"${other}", "${value}", "${WORKSPACE_NAME}", "demo", "a", "0", " ", ".", "_", ":", "/", "@", "+", "=", ",", "-", "resource", "provider \"aws\" {}", "\\u0022",
}

// harmless are fragments of characters that are safe in a module.
var harmless = []string{"EOT", "/", "demo", "0", " ", ".", "_", ":", "@", "+", "=", ",", "-", "resource"}

// value returns a random value of literals, of harmless fragments, or of any fragments and other characters.
func value(random *rand.Rand) string {
	var text strings.Builder
	if random.IntN(4) == 0 {
		for range 1 + random.IntN(2) {
			text.WriteString(literals[random.IntN(len(literals))])
		}
		return text.String()
	}
	if random.IntN(2) == 0 {
		for range random.IntN(8) {
			text.WriteString(harmless[random.IntN(len(harmless))])
		}
		return text.String()
	}
	for range random.IntN(8) {
		if random.IntN(6) == 0 {
			text.WriteRune(rune(random.IntN(0x300)))
			continue
		}
		text.WriteString(fragments[random.IntN(len(fragments))])
	}
	return text.String()
}

func TestTenThousandValuesCannotChangeModules(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) // The same values each time.
	accepted := 0
	for range rounds() {
		if moduleUnchangedOrRefused(t, hostileModules[random.IntN(len(hostileModules))], "value", value(random), value(random)) {
			accepted++
		}
	}
	assert.Greater(t, accepted, rounds()/10, "too many values are refused")
	assert.Less(t, accepted, rounds()*9/10, "nor to accept it")
}

func TestTenThousandValuesReachVarsUnchanged(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) // The same values each time.
	for range rounds() {
		varsByteForByte(t, value(random), value(random))
	}
}
