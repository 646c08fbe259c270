// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"errors"
	"maps"
	"slices"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Pin returns the template of a live Workspace, and where it substitutes variables, for each of the given WorkspaceTemplateApplies. Strings that
// the old template, which may be nil, renders to the live value keep their placeholders, so that changes of variables still reach Terraform.
// All others become literal.
func Pin(live map[string]any, name string, old *infrav1.WorkspaceTemplate, applies ...*infrav1.WorkspaceTemplateApply) (*terraform.WorkspaceSpec, infrav1.Substitution, error) {
	p := pinning{}
	for _, apply := range applies {
		variables := apply.Spec.Variables.Texts()
		variables[modules.WorkspaceNameVariable] = name
		p.variables = append(p.variables, variables)
	}
	var template any
	if old != nil {
		if err := decode(old.Spec.Template.Spec, &template); err != nil {
			return nil, "", err
		}
	}
	spec, was := &terraform.WorkspaceSpec{}, &terraform.WorkspaceSpec{}
	if err := errors.Join(decode(p.value(live, template), spec), decode(live, was)); err != nil {
		return nil, "", err
	}
	if spec.ForProvider.Source != terraform.SourceInline {
		return spec, infrav1.SubstitutionFields, nil
	}
	module := was.ForProvider.Module
	if old != nil && p.moduleRendersTo(old.Spec.Template.Spec.ForProvider, module) {
		spec.ForProvider.Module = old.Spec.Template.Spec.ForProvider.Module
		return spec, infrav1.SubstitutionAll, nil
	}
	spec.ForProvider.Module = module
	return spec, infrav1.SubstitutionFields, nil
}

// moduleRendersTo reports whether the module of the old template has placeholders and becomes the live one. CAPT v0.3 inserted any value.
func (p *pinning) moduleRendersTo(old terraform.WorkspaceParameters, live string) bool {
	return old.Source == terraform.SourceInline && old.Module != live && !slices.ContainsFunc(p.variables, func(variables map[string]string) bool {
		return modules.ReplacePlaceholders(old.Module, terraform.EscapeKept, variables) != live || modules.IsUnsafe(old, variables)
	})
}

// pinning converts the spec of a Workspace to the spec of a template, value by value.
type pinning struct {
	variables []map[string]string
}

// value returns the value of the template for a live value and the corresponding value of the old template, which may be nil.
func (p *pinning) value(live, template any) any {
	switch live := live.(type) {
	case map[string]any:
		before, _ := template.(map[string]any)
		out := make(map[string]any, len(live))
		for _, key := range slices.Sorted(maps.Keys(live)) {
			out[key] = p.value(live[key], before[key])
		}
		return out
	case []any:
		before, _ := template.([]any)
		out := make([]any, len(live))
		for i := range live {
			out[i] = p.value(live[i], counterpart(live[i], i, before))
		}
		return out
	case string:
		return p.text(live, template)
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
func (p *pinning) text(live string, template any) string {
	if before, ok := template.(string); ok && p.rendersTo(before, live) {
		return before
	}
	return terraform.EscapePlaceholders(live)
}

// rendersTo reports whether a string of a template becomes the live one with the variables of each WorkspaceTemplateApply.
func (p *pinning) rendersTo(template, live string) bool {
	return !slices.ContainsFunc(p.variables, func(variables map[string]string) bool {
		rendered, missing := replaceInField(template, variables)
		return rendered != live || len(missing) > 0
	})
}
