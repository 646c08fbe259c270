// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
	"github.com/capt-provider/capt/test/builder"
)

// The author of the template writes the module, its user sets the values. No value may change the module.
func FuzzModulesUnchangedOrRejected(f *testing.F) {
	for _, module := range append(slices.Clone(hostileModules),
		"${${value}}}$", "\u2028 ${value", "}",
	) {
		for _, value := range []string{"", "demo", "EOT", "/", `x" } a {`, "x\ny", "${other}", "größe", "{"} {
			f.Add(module, "value", value, "x")
		}
		f.Add(module, "WORKSPACE_NAME", "EOT", `\`)
		f.Add(module, "value", "EO", "T")
	}
	f.Fuzz(func(t *testing.T, module, name, value, other string) {
		moduleUnchangedOrRefused(t, module, name, value, other)
	})
}

func moduleUnchangedOrRefused(t *testing.T, module, name, value, other string) (accepted bool) {
	t.Helper()
	skipUnlessText(t, module, name, value, other)
	input := rendering{
		apply: variables("other", other, name, value), template: []builder.Option{builder.WithModule(module)},
	}.input()
	values := map[string]string{"other": other, name: value, modules.WorkspaceNameVariable: input.Name}
	want, unsafe := substituted(module, values)
	before, isModule := structure(module)

	rendered, errs := Workspace(input)
	for _, variable := range unsafe {
		assert.Condition(t, func() bool { return names(errs, variable) }, "%s: %v", variable, errs)
	}
	if len(errs) > 0 {
		assert.Nil(t, rendered)
		assert.Condition(t, func() bool {
			return !isModule || slices.ContainsFunc(slices.Collect(maps.Keys(values)), func(name string) bool { return names(errs, name) })
		}, "the module is good, so that a value is not: %v", errs)
		return false
	}
	require.Empty(t, unsafe)
	require.Equal(t, want, at(t, rendered, "spec", "forProvider", "module"))
	if isModule {
		after, _ := structure(want)
		require.Equal(t, before, after)
	}
	if want != module { // A value is a literal: with another one, the module has the same structure.
		for _, literal := range []string{"0", "1"} {
			other, _ := substituted(module, map[string]string{"other": literal, name: literal, modules.WorkspaceNameVariable: literal})
			require.Equal(t, syntaxTree(t, other), syntaxTree(t, want), "%s\n%s", other, want)
		}
	}
	return true
}

// No value may change a module in JSON, where every string may be a template, and names are in quotes.
func FuzzModulesInJSONUnchangedOrRejected(f *testing.F) {
	for _, module := range []string{
		`{"output": {"${value}": {"value": "x$${value}{abspath(path.root)}${var.a}%{ if true }${other}%{ endif }"}}}`,
		`{"locals": {"a": [${value}, {"b": ${other}}], "c": "${var.${value}} ${${other}}"}, "${value}": 1}`,
		`{"resource": [{"a": {"b": {"${value}": [${other}]}}}]}`,
	} {
		for _, value := range []string{"", "demo", "-1", "true", "null", "1, 2", "var.b", "0"} {
			f.Add(module, value, "x")
			f.Add(module, "1", value)
		}
	}
	f.Fuzz(func(t *testing.T, module, value, other string) {
		skipUnlessText(t, module, value, other)
		rendered, errs := Workspace(rendering{apply: variables("value", value, "other", other), template: params(func(p *terraform.WorkspaceParameters) {
			p.InlineFormat, p.Module = terraform.FormatJSON, module
		})}.input())
		if len(errs) > 0 {
			assert.Nil(t, rendered)
			return
		}
		want, unsafe := substituted(module, map[string]string{"value": value, "other": other, modules.WorkspaceNameVariable: "demo-vpc"})
		require.Empty(t, unsafe)
		for _, literal := range []string{"0", "1"} {
			other, _ := substituted(module, map[string]string{"value": literal, "other": literal, modules.WorkspaceNameVariable: literal})
			require.Equal(t, jsonTree(t, other), jsonTree(t, want), "%s\n%s", other, want)
		}
	})
}

// syntaxTree lists the nodes of a module and all names in it, without literals and the labels of blocks. It is a second implementation of what
// the structure of a module is.
func syntaxTree(t *testing.T, module string) []string {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(module), "", hcl.InitialPos)
	require.False(t, diags.HasErrors(), "%s\n%v", module, diags)
	var found []string
	var visit func(body *hclsyntax.Body)
	visit = func(body *hclsyntax.Body) {
		for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
			found = append(found, "argument "+name)
			found = append(found, nodes(body.Attributes[name].Expr)...)
		}
		for _, block := range body.Blocks {
			found = append(found, "block "+block.Type+" "+strconv.Itoa(len(block.Labels)))
			visit(block.Body)
			found = append(found, "end")
		}
	}
	visit(file.Body.(*hclsyntax.Body))
	return found
}

// nodes lists the nodes of an expression.
func nodes(expression hclsyntax.Expression) (found []string) {
	_ = hclsyntax.VisitAll(expression, func(node hclsyntax.Node) hcl.Diagnostics {
		text := fmt.Sprintf("%T", node)
		switch node := node.(type) {
		case *hclsyntax.LiteralValueExpr:
			if node.Val.IsNull() {
				found = append(found, "null")
			}
			return nil
		case *hclsyntax.UnaryOpExpr:
			if _, isNumber := node.Val.(*hclsyntax.LiteralValueExpr); isNumber && node.Op == hclsyntax.OpNegate {
				return nil
			}
		case *hclsyntax.TemplateWrapExpr: // A template, and nothing around it.
			text = fmt.Sprintf("%T", &hclsyntax.TemplateExpr{})
		case *hclsyntax.FunctionCallExpr:
			text += node.Name
		case *hclsyntax.BinaryOpExpr:
			text += fmt.Sprintf("%p", node.Op)
		case *hclsyntax.ForExpr:
			text += node.KeyVar + " " + node.ValVar
		case *hclsyntax.ScopeTraversalExpr:
			text += path(node.Traversal)
		case *hclsyntax.RelativeTraversalExpr:
			text += path(node.Traversal)
		}
		found = append(found, text)
		return nil
	})
	return found
}

// path lists the names of a reference, and its numbers that are not in brackets.
func path(traversal hcl.Traversal) (text string) {
	for _, step := range traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			text += step.Name
		case hcl.TraverseAttr:
			text += "." + step.Name
		default:
			text += fmt.Sprintf("%T", step)
		}
	}
	return text
}

// jsonTree lists the tokens of a module in JSON, without literals; strings are templates.
func jsonTree(t *testing.T, module string) []string {
	t.Helper()
	var tree any
	require.NoError(t, json.Unmarshal([]byte(module), &tree), module)
	var found []string
	var visit func(node any)
	visit = func(node any) {
		switch node := node.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(node)) {
				found = append(found, "key")
				visit(node[key])
			}
		case []any:
			found = append(found, strconv.Itoa(len(node)))
			for i := range node {
				visit(node[i])
			}
		case string:
			if template, diags := hclsyntax.ParseTemplate([]byte(node), "", hcl.InitialPos); !diags.HasErrors() {
				found = append(found, nodes(template)...)
			}
			found = append(found, "string")
		case nil:
			found = append(found, "null")
		default:
			found = append(found, "literal")
		}
	}
	visit(tree)
	slices.Sort(found) // Labels are keys, and sorted by their text.
	return found
}

func FuzzVarsReachTerraformUnchanged(f *testing.F) {
	for _, value := range hostile {
		f.Add(value, "x")
		f.Add("${other}", value)
	}
	f.Fuzz(varsByteForByte)
}

func varsByteForByte(t *testing.T, value, other string) {
	t.Helper()
	skipUnlessText(t, value, other)
	for _, scope := range terraform.Scopes() {
		rendered := rendering{
			apply: variables("value", value, "other", other, "cluster_name", "demo"),
			template: append(params(func(p *terraform.WorkspaceParameters) {
				p.Vars = []terraform.Var{{Key: "a", Value: "${value}"}, {Key: "b", Value: "<${value}${other}>"}}
				p.VarMap = varmap(`{"a": "${value}", "b": [{"c": "<${value}${other}>"}]}`)
			}), builder.WithScope(scope)),
		}.must(t)
		// The JSON that is sent to the API server, and from there to provider-terraform.
		parameters := asLive(t, rendered).Object["spec"].(map[string]any)["forProvider"].(map[string]any)
		assert.Equal(t, []any{
			map[string]any{"key": "a", "value": value}, map[string]any{"key": "b", "value": "<" + value + other + ">"},
		}, parameters["vars"])
		assert.Equal(t, map[string]any{
			"a": value, "b": []any{map[string]any{"c": "<" + value + other + ">"}},
		}, parameters["varmap"])
	}
}

// CAPT v0.3 replaced placeholders in serialized text, so that values could add or remove fields (defect 12).
func FuzzValuesNeverAddFields(f *testing.F) {
	for _, value := range hostile {
		f.Add(value, "demo", "default", `{"a": ["${value}", {"b": "x${value}${name}"}], "${value}": 1, "c": null}`)
	}
	f.Fuzz(func(t *testing.T, value, name, namespace, varmap string) {
		skipUnlessText(t, value, name, namespace, varmap)
		var object map[string]any
		if json.Unmarshal([]byte(varmap), &object) != nil || value == "" || name == "" {
			t.Skip("the varmap is an object, and a field without a value is left out")
		}
		for _, scope := range terraform.Scopes() {
			template := []builder.Option{builder.WithScope(scope), placeholdersEverywhere(varmap)}
			harmless := rendering{apply: variables("value", "x", "name", "x", "namespace", "default"), template: template}.must(t)
			rendered, errs := Workspace(rendering{
				apply: variables("value", value, "name", name, "namespace", namespace), template: template,
			}.input())
			if len(errs) == 0 {
				assert.Equal(t, withoutTexts(harmless.Object.Object), withoutTexts(rendered.Object.Object))
			}
		}
	})
}

// skipUnlessText skips bytes that are not valid in JSON, so that an API server never has them.
func skipUnlessText(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !utf8.ValidString(text) {
			t.Skip("not UTF-8")
		}
	}
}

// placeholdersEverywhere is a template with a placeholder in each field that can have one: the other fields are enums in the CRD.
func placeholdersEverywhere(varmap string) builder.Option {
	key := &terraform.KeyReference{Name: "${value}", Namespace: "${namespace}", Key: "${value}"}
	kind := terraform.ProviderConfigReference{Name: "${value}", Kind: "${value}"}
	return builder.WithWorkspaceSpec(func(spec *terraform.WorkspaceSpec) {
		spec.ProviderConfigRef = &kind
		spec.WriteConnectionSecretToRef = &terraform.SecretReference{Name: "${value}", Namespace: "${namespace}"}
		spec.PublishConnectionDetailsTo = &terraform.PublishConnectionDetailsTo{
			Name: "${value}", ConfigRef: kind.DeepCopy(),
			Metadata: &terraform.ConnectionSecretMetadata{Labels: map[string]string{"a": "${value}"}, Annotations: map[string]string{"a": "${value}"}},
		}
		spec.Unknown = terraform.UnknownFields{"future": runtime.RawExtension{Raw: []byte(`{"a": ["${value}"]}`)}}
		spec.ForProvider = terraform.WorkspaceParameters{
			Source: terraform.SourceInline, Module: `output "a" { value = "${name}" }`, Entrypoint: "${value}",
			Vars:     []terraform.Var{{Key: "${value}", Value: "${value}"}},
			VarMap:   &apiextensionsv1.JSON{Raw: []byte(varmap)},
			VarFiles: []terraform.VarFile{{Source: "SecretKey", SecretKeyRef: key.DeepCopy()}, {Source: "ConfigMapKey", ConfigMapKeyRef: key.DeepCopy()}},
			Env:      []terraform.EnvVar{{Name: "${value}", Value: "${value}"}, {Name: "A", SecretKeyRef: key.DeepCopy()}},
			InitArgs: []string{"${value}"}, PlanArgs: []string{"${value}"}, ApplyArgs: []string{"${value}"}, DestroyArgs: []string{"${value}"},
			Unknown: terraform.UnknownFields{"futureToo": runtime.RawExtension{Raw: []byte(`{"a": "${value}"}`)}},
		}
	})
}

// withoutTexts returns a tree with the same word in place of every string.
func withoutTexts(node any) any {
	switch node := node.(type) {
	case string:
		return "text"
	case map[string]any:
		out := map[string]any{}
		for name, child := range node {
			out[name] = withoutTexts(child)
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i, child := range node {
			out[i] = withoutTexts(child)
		}
		return out
	default:
		return node
	}
}

// substituted is a second implementation of the substitution: it returns the expected module, and the variables that must be rejected.
func substituted(module string, values map[string]string) (out string, unsafe []string) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for {
		before, rest, found := strings.Cut(module, "${")
		out += before
		if !found {
			return out, unsafe
		}
		end := len(rest) - len(strings.TrimLeft(rest, letters+"_0123456789"))
		name := rest[:end]
		value, known := values[name]
		switch {
		case !known, name == "", strings.ContainsAny(name[:1], "0123456789"), !strings.HasPrefix(rest[end:], "}"):
			out, module = out+"${", rest
		case strings.Trim(value, letters+"0123456789 ._:/@+=,-") != "":
			unsafe, module = append(unsafe, name), rest[end+1:]
		default:
			out, module = out+value, rest[end+1:]
		}
	}
}

// names reports whether an error about the module names a variable.
func names(errs field.ErrorList, variable string) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		return err.Field == "spec.template.spec.forProvider.module" && strings.Contains(err.Detail, strconv.Quote(variable))
	})
}

// structure returns the structure of a module: its blocks, with type and labels, and the names of the arguments in them. It returns false for
// text that is not a module.
func structure(module string) ([]string, bool) {
	file, diags := hclsyntax.ParseConfig([]byte(module), "", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, false
	}
	return structureOf(file.Body.(*hclsyntax.Body), ""), true
}

func structureOf(body *hclsyntax.Body, in string) []string {
	var found []string
	for name := range body.Attributes {
		found = append(found, in+name)
	}
	slices.Sort(found)
	for i, block := range body.Blocks {
		path := in + strconv.Itoa(i) + block.Type + strings.Join(block.Labels, " ") + "/"
		found = append(append(found, path), structureOf(block.Body, path)...)
	}
	return found
}
