// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Pin returns the spec of a template that reproduces the spec of a live Workspace for each of the given WorkspaceTemplateApplies.
// Strings that the old template, which may be nil, renders to the live value keep their placeholders, so that changes of variables still
// reach Terraform. All others become literal. The template language cannot escape a placeholder: a literal ${name} of an existing variable
// is an error. The caller renders and compares the result.
func Pin(live map[string]any, name string, old *infrav1.WorkspaceTemplate, applies ...*infrav1.WorkspaceTemplateApply) (*terraform.WorkspaceSpec, field.ErrorList) {
	path := field.NewPath("spec")
	p := pinning{}
	for _, apply := range applies {
		variables := maps.Clone(apply.Spec.Variables)
		if variables == nil {
			variables = map[string]string{}
		}
		variables[modules.WorkspaceNameVariable] = name
		p.variables = append(p.variables, variables)
	}
	var template any
	if old != nil {
		if err := convert(old.Spec.Template.Spec, &template); err != nil {
			return nil, field.ErrorList{field.InternalError(path, err)}
		}
	}
	spec := &terraform.WorkspaceSpec{}
	if err := convert(p.value(live, template, path), spec); err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	if len(p.errs) == 0 && old != nil && slices.ContainsFunc(p.variables, func(variables map[string]string) bool {
		return modules.IsUnsafe(spec.ForProvider, variables)
	}) { // CAPT v0.3 inserted any value into the text of a module.
		old = old.DeepCopy()
		old.Spec.Template.Spec.ForProvider.Module = ""
		return Pin(live, name, old, applies...)
	}
	return spec, p.errs
}

// pinning converts the spec of a Workspace to the spec of a template, value by value.
type pinning struct {
	variables []map[string]string
	errs      field.ErrorList
}

// value returns the value of the template for a live value and the corresponding value of the old template, which may be nil.
func (p *pinning) value(live, template any, path *field.Path) any {
	switch live := live.(type) {
	case map[string]any:
		before, _ := template.(map[string]any)
		out := make(map[string]any, len(live))
		for _, key := range slices.Sorted(maps.Keys(live)) {
			out[key] = p.value(live[key], before[key], path.Child(key))
		}
		return out
	case []any:
		before, _ := template.([]any)
		out := make([]any, len(live))
		for i := range live {
			out[i] = p.value(live[i], counterpart(live[i], i, before), path.Index(i))
		}
		return out
	case string:
		return p.text(live, template, path)
	}
	return live
}

// counterpart returns the element of the template's list that corresponds to an element of the live list. It has the same key or name
// or, if elements have neither, the same index. It is nil if there is none.
func counterpart(live any, index int, template []any) any {
	for _, id := range []string{"key", "name"} {
		fields, _ := live.(map[string]any)
		value, identified := fields[id].(string)
		if !identified {
			continue
		}
		for _, element := range template {
			if before, ok := element.(map[string]any); ok && before[id] == value {
				return element
			}
		}
		return nil
	}
	if index < len(template) {
		return template[index]
	}
	return nil
}

// text returns the string of the template for a live string: the placeholders of the old template if they render to it, else the live
// string.
func (p *pinning) text(live string, template any, path *field.Path) string {
	if before, ok := template.(string); ok && p.rendersTo(before, live) {
		return before
	}
	if p.rendersTo(live, live) {
		return live
	}
	for _, match := range terraform.Placeholder.FindAllStringSubmatch(live, -1) {
		name := match[1]
		if slices.ContainsFunc(p.variables, func(variables map[string]string) bool { _, is := variables[name]; return is }) {
			p.errs = append(p.errs, field.Invalid(path, field.OmitValueType{},
				fmt.Sprintf("contains ${%s}, which a template would replace with the value of variable %s. Remove the variable if it is not used elsewhere", name, name)))
			break
		}
	}
	return live
}

// rendersTo reports whether a string of a template becomes the live one with the variables of each WorkspaceTemplateApply.
func (p *pinning) rendersTo(template, live string) bool {
	return !slices.ContainsFunc(p.variables, func(variables map[string]string) bool {
		return modules.ReplacePlaceholders(template, variables) != live
	})
}
