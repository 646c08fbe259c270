// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

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
		s := newSubstitution(&template.Spec, nil, path)
		s.visited = func(text string, path *field.Path) { found = append(found, placeholdersIn(text, path, in)...) }
		s.walk(tree, path)
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

func placeholdersIn(text string, path *field.Path, in Input) (found []Explained) {
	for i, line := range strings.Split(text, "\n") {
		where := path.String()
		if strings.Contains(text, "\n") {
			where += fmt.Sprintf(", line %d", i+1)
		}
		for _, name := range terraform.Placeholders(line, in.Template.Spec.Substitution.Escaping()) {
			switch variables := in.Apply.Spec.Variables; {
			case name == modules.WorkspaceNameVariable:
				found = append(found, Explained{where, "${" + name + "}", in.Name, "name of the Workspace"})
			case variables.Has(name):
				found = append(found, Explained{where, "${" + name + "}", variables.Text(name), "spec.variables"})
			}
		}
	}
	return found
}
