// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// Explained is a placeholder that is replaced, or a variable that is passed to the module.
type Explained struct {
	// Field of the WorkspaceTemplate that has the placeholder, or forProvider.varmap for a variable that is passed.
	Field    string `json:"field"`
	Variable string `json:"variable"`
	Value    string `json:"value"`
	// From is the field that has the value.
	From string `json:"from"`
}

// Explain lists what a WorkspaceTemplateApply replaces in a template and passes to its module, in the order of the fields.
func Explain(in Input) (found []Explained) {
	apply, template, path := in.Apply, in.Template, field.NewPath("spec", "template", "spec")
	var tree any
	if err := decode(template.Spec.Template.Spec, &tree); err == nil { // It was decoded from JSON.
		explain(tree, path, template, func(where, name string) {
			switch {
			case name == modules.WorkspaceNameVariable:
				found = append(found, Explained{where, "${" + name + "}", in.Name, "name of the Workspace"})
			case apply.Spec.Variables.Has(name):
				found = append(found, Explained{where, "${" + name + "}", apply.Spec.Variables.Text(name), "spec.variables"})
			}
		})
	}
	passed := modules.TemplateInterface(&template.Spec).Pass(apply.Spec.Variables)
	for _, name := range slices.Sorted(maps.Keys(passed.Values)) {
		from := "spec.variables"
		if !apply.Spec.Variables.Has(name) {
			from = "default in spec.inputs"
		}
		found = append(found, Explained{path.Child("forProvider", "varmap").Key(name).String(), name, string(passed.Values[name]), from})
	}
	return found
}

// explain calls a function for each placeholder of the strings in a tree that substitution can replace.
func explain(node any, path *field.Path, template *infrav1.WorkspaceTemplate, replaced func(where, name string)) {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			explain(node[key], path.Child(key), template, replaced)
		}
	case []any:
		for i, child := range node {
			explain(child, path.Index(i), template, replaced)
		}
	case string:
		if template.Spec.HasLiteralModule() && path.String() == "spec.template.spec.forProvider.module" {
			return
		}
		for i, line := range strings.Split(node, "\n") {
			where := path.String()
			if strings.Contains(node, "\n") {
				where += fmt.Sprintf(", line %d", i+1)
			}
			for _, name := range terraform.Placeholders(line, template.Spec.Substitution.Escaping()) {
				replaced(where, name)
			}
		}
	}
}
