// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// WorkspaceNameVariable is the placeholder for the name of the Workspace. CAPT overrides a variable of the user with this name.
const WorkspaceNameVariable = "WORKSPACE_NAME"

var (
	// VariableName matches names of variables that a placeholder can refer to.
	VariableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// safeInModule matches values that may become part of the text of a module: they cannot end a string or begin an expression.
	safeInModule = regexp.MustCompile(`^[A-Za-z0-9 ._:/@+=,-]*$`)
	// safeInSource matches values that cannot change the host, user or directory of the address of a module.
	safeInSource = regexp.MustCompile(`^[A-Za-z0-9._+=-]*$`)
)

// ValidateVariableNames checks the names of the variables that a user sets.
func ValidateVariableNames(variables map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !VariableName.MatchString(name) {
			errs = append(errs, validation.Invalid(path.Key(name),
				"is not a valid name of a placeholder. Use letters, digits and underscores, and do not begin with a digit"))
		}
	}
	return errs
}

// ValidateAppliedVariableNames checks the names of the variables of a WorkspaceTemplateApply. It ignores the variables that CAPT adds for
// tags.
func ValidateAppliedVariableNames(variables map[string]string, path *field.Path) field.ErrorList {
	given := maps.Clone(variables)
	maps.DeleteFunc(given, func(name, _ string) bool { return strings.HasPrefix(name, naming.TagPrefix) })
	return ValidateVariableNames(given, path)
}

// SafeInModule reports whether a value may become part of the text of a module.
func SafeInModule(value string) bool { return safeInModule.MatchString(value) }

// UnsafeInModuleError returns the error about an unsafe value. The value may be a secret, so only the name of the variable is reported.
func UnsafeInModuleError(path *field.Path, variable string) *field.Error {
	return validation.Invalid(path,
		"the value of variable %s has characters that could change the module. Declare a Terraform variable and pass the value in forProvider.vars or varmap",
		strconv.Quote(variable))
}

// StructureError returns the error about variables whose values would change the structure of a module. The values may be secrets.
func StructureError(path *field.Path, variables ...string) *field.Error {
	quoted := make([]string, len(variables))
	for i, name := range variables {
		quoted[i] = strconv.Quote(name)
	}
	return validation.Invalid(path,
		"the values of its variables (%s) would change the structure of the module: only a string in quotes, a number or a bool can be inserted. Declare Terraform variables, and set them in forProvider.vars or varmap",
		strings.Join(quoted, ", "))
}

// UnsafeInSource lists the variables whose values could change the address of a module to another module. The part after the question mark
// is not checked: it selects the version, and may have slashes.
func UnsafeInSource(source string, variables map[string]string) []string {
	address, _, _ := strings.Cut(source, "?")
	var unsafe []string
	for _, name := range sets.List(placeholdersIn(address)) {
		value, ok := variables[name]
		if ok && (!safeInSource.MatchString(value) || strings.Contains(value, "..") || value == ".") {
			unsafe = append(unsafe, name)
		}
	}
	return unsafe
}

// UnsafeSourceError returns the error about a variable in the address of a module.
func UnsafeSourceError(path *field.Path, variable string) *field.Error {
	return validation.Invalid(path,
		"the value of variable %s could change the source to another module. Before the question mark of a source, use only letters, digits and . _ + = -",
		strconv.Quote(variable))
}

// ValidateVariableValues checks that the values of variables are safe where the template uses them: in the module or in its address. pathOf
// returns the field of a variable. Variables that are not given yet are checked when the Workspace is rendered.
func ValidateVariableValues(template *infrav1.WorkspaceTemplate, variables map[string]string, pathOf func(name string) *field.Path) validation.Findings {
	var findings validation.Findings
	parameters := template.Spec.Template.Spec.ForProvider
	given, assumed := map[string]string{}, map[string]string{}
	for _, name := range sets.List(placeholdersIn(parameters.Module)) {
		value, ok := variables[name]
		switch {
		case !ok || name == WorkspaceNameVariable:
			assumed[name] = literals[0]
		case SafeInModule(value):
			given[name], assumed[name] = value, value
		default:
			assumed[name] = literals[0]
			findings.Refuse(UnsafeInModuleError(pathOf(name), name))
		}
	}
	for _, name := range ChangingStructure(parameters, assumed) {
		if _, ok := given[name]; ok {
			findings.Refuse(StructureError(pathOf(name), name))
		}
	}
	if parameters.Source == terraform.SourceRemote {
		for _, name := range UnsafeInSource(parameters.Module, given) {
			findings.Refuse(UnsafeSourceError(pathOf(name), name))
		}
	}
	return findings
}

// UnusedVariableWarnings warns of probable spelling mistakes: variables of the user without a placeholder in the template, and placeholders
// of the template without a variable. further are the names of variables that CAPT sets; a template need not use them.
func UnusedVariableWarnings(template *infrav1.WorkspaceTemplate, variables map[string]string, path *field.Path, further ...string) []string {
	var findings validation.Findings
	used, needed := Placeholders(&template.Spec.Template.Spec)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		switch {
		case name == WorkspaceNameVariable:
			findings.Warn(path.Key(name), "has no effect: CAPT always sets ${%s} to the name of the Workspace. Remove the variable", name)
		case !used.Has(name):
			findings.Warn(path.Key(name), "has no effect: WorkspaceTemplate %s/%s has no placeholder ${%s}. Correct the spelling, or remove the variable", template.Namespace, template.Name, name)
		}
	}
	for _, name := range sets.List(needed.Difference(sets.KeySet(variables)).Delete(append(further, WorkspaceNameVariable)...)) {
		findings.Warn(path, "placeholder ${%[3]s} of WorkspaceTemplate %[1]s/%[2]s has no value and is not replaced. Set the variable", template.Namespace, template.Name, name)
	}
	return findings.Warnings
}

// Placeholders returns the variables that a template uses anywhere, and those that must have a value. The latter do not include those in an
// inline module, where ${name} may be an expression of Terraform.
func Placeholders(spec *terraform.WorkspaceSpec) (used, needed sets.Set[string]) {
	spec = spec.DeepCopy()
	module := placeholdersIn(spec.ForProvider.Module)
	if spec.ForProvider.Source == terraform.SourceInline {
		spec.ForProvider.Module = ""
	}
	needed = sets.New[string]()
	data, err := json.Marshal(spec)
	if err != nil {
		return module, needed // Cannot happen: the spec was decoded from JSON.
	}
	var tree any
	if err := json.Unmarshal(data, &tree); err == nil {
		collectPlaceholders(tree, needed)
	}
	return module.Union(needed), needed
}

// collectPlaceholders adds the placeholders of all strings of a tree. Keys of maps cannot have placeholders.
func collectPlaceholders(node any, names sets.Set[string]) {
	switch node := node.(type) {
	case map[string]any:
		for _, child := range node {
			collectPlaceholders(child, names)
		}
	case []any:
		for _, child := range node {
			collectPlaceholders(child, names)
		}
	case string:
		names.Insert(sets.List(placeholdersIn(node))...)
	}
}

// placeholdersIn returns the names of the placeholders of a string.
func placeholdersIn(text string) sets.Set[string] {
	names := sets.New[string]()
	for _, match := range terraform.Placeholder.FindAllStringSubmatch(text, -1) {
		names.Insert(match[1])
	}
	return names
}
