// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"slices"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// workspaceNameVariable is the placeholder for the name of the Workspace, the same as in CAPT v0.3.
const workspaceNameVariable = modules.WorkspaceNameVariable

// substituteSpec replaces ${name} in the strings of a template. It does not replace in serialized text, so a value cannot add or change
// fields. Placeholders without a variable are kept: they are interpolations of Terraform.
func substituteSpec(template *terraform.WorkspaceSpec, variables map[string]string, path *field.Path) (*terraform.WorkspaceSpec, field.ErrorList) {
	data, err := json.Marshal(template)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	var tree any
	if err := utiljson.Unmarshal(data, &tree); err != nil { // Decodes whole numbers as int64, not float64.
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	module := path.Child("forProvider", "module")
	s := substitution{variables: variables, module: module.String()}
	tree = s.walk(tree, path)
	if len(s.errs) > 0 {
		return nil, s.errs
	}
	if data, err = json.Marshal(tree); err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	spec := &terraform.WorkspaceSpec{}
	if err := json.Unmarshal(data, spec); err != nil {
		return nil, field.ErrorList{field.InternalError(path, err)}
	}
	if spec.ForProvider.Source == terraform.SourceRemote {
		for _, name := range modules.UnsafeInSource(template.ForProvider.Module, variables) {
			s.errs = append(s.errs, modules.UnsafeSourceError(module, name))
		}
	}
	inModule := spec.ForProvider
	inModule.Module = template.ForProvider.Module
	if changing := modules.ChangingStructure(inModule, variables); len(changing) > 0 {
		s.errs = append(s.errs, modules.StructureError(module, changing...))
	}
	return spec, s.errs
}

// substitution replaces the placeholders in all strings of a spec, and collects the errors.
type substitution struct {
	variables map[string]string
	// module is the path of the field forProvider.module.
	module string
	errs   field.ErrorList
}

func (s *substitution) walk(node any, path *field.Path) any {
	switch node := node.(type) {
	case map[string]any:
		for key, child := range node {
			node[key] = s.walk(child, path.Child(key))
		}
	case []any:
		for i, child := range node {
			node[i] = s.walk(child, path.Index(i))
		}
	case string:
		return s.replace(node, path)
	}
	return node
}

func (s *substitution) replace(text string, path *field.Path) string {
	inModule := path.String() == s.module
	var refused []string
	out := terraform.Placeholder.ReplaceAllStringFunc(text, func(match string) string {
		name := match[2 : len(match)-1]
		value, ok := s.variables[name]
		if !ok {
			return match
		}
		if inModule && !modules.SafeInModule(value) {
			if !slices.Contains(refused, name) {
				refused = append(refused, name)
			}
			return match
		}
		return value
	})
	for _, name := range refused {
		s.errs = append(s.errs, modules.UnsafeInModuleError(path, name))
	}
	return out
}
