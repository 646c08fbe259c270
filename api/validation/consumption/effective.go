// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package consumption

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Unconsumed lists the fields that have no effect with a template: those that restrict access, and the others.
func Unconsumed(template *infrav1.WorkspaceTemplate, fields []TypedField) (restricting, others field.ErrorList) {
	if len(fields) == 0 {
		return nil, nil
	}
	anywhere, _ := modules.Placeholders(&template.Spec.Template.Spec)
	inEffect := effectivePlaceholders(&template.Spec.Template.Spec)
	for i := range fields {
		f, used := &fields[i], anywhere
		if f.Restricts {
			used = inEffect
		}
		switch {
		case used.Has(f.Placeholder), len(f.Alternatives) > 0 && used.HasAll(f.Alternatives...):
		case f.Restricts:
			restricting = append(restricting, field.Invalid(f.Path, f.Value, "the API server would be reachable from more networks than specified: the field "+f.noEffectMessage(template)+", or unset the field"))
		case f.Required:
			others = append(others, field.Invalid(f.Path, field.OmitValueType{}, f.noEffectMessage(template)))
		default:
			others = append(others, field.Invalid(f.Path, field.OmitValueType{}, f.noEffectMessage(template)+", or unset the field"))
		}
	}
	return restricting, others
}

// noEffectMessage returns the message that the field has no effect with a template.
func (f *TypedField) noEffectMessage(template *infrav1.WorkspaceTemplate) string {
	return fmt.Sprintf("has no effect: WorkspaceTemplate %s/%s does not pass ${%s} to its module. Add the placeholder to forProvider.vars",
		template.Namespace, template.Name, f.Placeholder)
}

// variableReferences matches references to Terraform variables in a module.
var variableReferences = regexp.MustCompile(`\bvar\s*\.\s*([A-Za-z_][A-Za-z0-9_-]*)`)

// effectivePlaceholders returns the placeholders that can have an effect on resources. For an inline module, placeholders in comments do
// not count, nor do those whose value is only passed to a Terraform variable that the module does not use.
func effectivePlaceholders(spec *terraform.WorkspaceSpec) sets.Set[string] {
	spec = spec.DeepCopy()
	params := &spec.ForProvider
	if params.Source == terraform.SourceInline {
		params.Module = withoutComments(*params)
		known := sets.New[string]()
		for _, match := range variableReferences.FindAllStringSubmatch(params.Module, -1) {
			known.Insert(match[1])
		}
		unused := func(key string) bool { return !known.Has(key) && !terraform.Placeholder.MatchString(key) }
		params.Vars = slices.DeleteFunc(params.Vars, func(v terraform.Var) bool { return unused(v.Key) })
		params.VarMap = deleteUnused(modules.VarMap(*params), unused)
	}
	used, _ := modules.Placeholders(spec)
	return used
}

// deleteUnused deletes the values whose keys are unused, and returns the others as JSON.
func deleteUnused(values map[string]json.RawMessage, unused func(string) bool) *apiextensionsv1.JSON {
	for key := range values {
		if unused(key) {
			delete(values, key)
		}
	}
	data, err := json.Marshal(values)
	if err != nil {
		return nil // Cannot happen: the values were decoded from JSON.
	}
	return &apiextensionsv1.JSON{Raw: data}
}

// withoutComments returns a module with spaces in place of comments. JSON has no comments.
func withoutComments(params terraform.WorkspaceParameters) string {
	if params.InlineFormat == terraform.FormatJSON {
		return params.Module
	}
	module := []byte(params.Module)
	tokens, _ := hclsyntax.LexConfig([]byte(params.Module), "main.tf", hcl.InitialPos)
	for i := range tokens {
		if tokens[i].Type == hclsyntax.TokenComment {
			for at := tokens[i].Range.Start.Byte; at < tokens[i].Range.End.Byte; at++ {
				module[at] = ' '
			}
		}
	}
	return string(module)
}
