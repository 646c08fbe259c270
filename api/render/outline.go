// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// validateStructure rejects values of variables that change the structure of a module. Even with characters that are safe in a module, a
// value can change it together with the text around it in the template: the value can end a heredoc, a slash after an asterisk ends a
// comment, and an empty value between "$" and "{" starts an expression.
//
// A template that is not valid HCL before the substitution uses placeholders as part of its structure, for example as labels of blocks.
// That is allowed.
func validateStructure(template, rendered *terraform.WorkspaceParameters, used []string, path *field.Path) field.ErrorList {
	if rendered.Source != terraform.SourceInline || rendered.Module == template.Module {
		return nil
	}
	if rendered.InlineFormat == terraform.FormatJSON {
		return validateExpressions(template.Module, rendered.Module, used, path)
	}
	if len(modules.ValidateComplexity(*template, path)) > 0 || len(modules.ValidateComplexity(*rendered, path)) > 0 {
		return nil // Reported by the validation of the module.
	}
	before, ok := outlineOf(template.Module, used)
	if !ok {
		return nil
	}
	if after, ok := outlineOf(rendered.Module, used); ok && slices.Equal(before, after) {
		return nil
	}
	return structureError(used, path)
}

// validateExpressions rejects values that change the number of expressions of a module in JSON, for example an empty value between "$" and
// "{". Quotes and backslashes are not allowed in values, so strings stay strings.
func validateExpressions(template, rendered string, used []string, path *field.Path) field.ErrorList {
	expected := terraform.Placeholder.ReplaceAllStringFunc(template, func(match string) string {
		if slices.Contains(used, match[2:len(match)-1]) {
			return "x"
		}
		return match
	})
	for _, start := range []string{"${", "%{"} {
		if strings.Count(expected, start) != strings.Count(rendered, start) {
			return structureError(used, path)
		}
	}
	return nil
}

// structureError returns the error for variables whose values change the structure of a module.
func structureError(used []string, path *field.Path) field.ErrorList {
	names := make([]string, len(used))
	for i, name := range used {
		names[i] = strconv.Quote(name)
	}
	return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf(
		"the values of its variables (%s) would change the structure of the module. Declare Terraform variables, and set them in forProvider.vars or varmap",
		strings.Join(names, ", ")))}
}

// outline lists the structure of a module: blocks, arguments, and the calls and references in expressions.
type outline struct {
	found []string
	// ignored are names of references that may be placeholders.
	ignored []string
}

// outlineOf returns the outline of a module; ok is false when the module is not valid HCL.
func outlineOf(module string, ignored []string) (_ []string, ok bool) {
	file, diags := hclsyntax.ParseConfig([]byte(module), "main.tf", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, false
	}
	o := outline{ignored: ignored}
	o.body(file.Body.(*hclsyntax.Body))
	return o.found, true
}

func (o *outline) body(body *hclsyntax.Body) {
	for _, name := range slices.Sorted(maps.Keys(body.Attributes)) {
		o.add("argument", name)
		_ = hclsyntax.VisitAll(body.Attributes[name].Expr, o.expression)
	}
	for _, block := range body.Blocks {
		o.add("block", block.Type, strings.Join(block.Labels, " "))
		o.body(block.Body)
		o.add("end")
	}
}

func (o *outline) expression(node hclsyntax.Node) hcl.Diagnostics {
	switch node := node.(type) {
	case *hclsyntax.FunctionCallExpr:
		o.add("call", node.Name)
	case *hclsyntax.ScopeTraversalExpr:
		if name := node.Traversal.RootName(); !slices.Contains(o.ignored, name) {
			o.add("reference", name)
		}
	case *hclsyntax.ConditionalExpr:
		o.add("condition")
	case *hclsyntax.ForExpr:
		o.add("loop")
	}
	return nil
}

func (o *outline) add(words ...string) { o.found = append(o.found, strings.Join(words, " ")) }
