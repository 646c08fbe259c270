// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
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

// SafeInModule reports whether a value may become part of the text of a module.
func SafeInModule(value string) bool { return safeInModule.MatchString(value) }

// MissingVariableError returns the error about a placeholder without a value: Terraform would receive its text. No other error of rendering is of
// type Required.
func MissingVariableError(path *field.Path, variable string) *field.Error {
	where := "Set the variable"
	if variable == naming.VPCIDVariable {
		where = "It is the ID of the VPC of the CAPTCluster: set spec.infrastructureRef of the Cluster, or set the variable"
	}
	return field.Required(path, "placeholder ${"+variable+"} has no value. "+where+", or write $${"+variable+"} for the text ${"+variable+"}")
}

// UnsafeInModuleError returns the error about an unsafe value. The value may be a secret, so only the name of the variable is reported.
func UnsafeInModuleError(path *field.Path, variable string) *field.Error {
	return invalid(path,
		"the value of variable %s has characters that could change the module. Declare a Terraform variable and pass the value in forProvider.vars or varmap",
		strconv.Quote(variable))
}

// StructureError returns the error about variables whose values would change the structure of a module. The values may be secrets.
func StructureError(path *field.Path, variables ...string) *field.Error {
	quoted := make([]string, len(variables))
	for i, name := range variables {
		quoted[i] = strconv.Quote(name)
	}
	return invalid(path,
		"the values of its variables (%s) would change the structure of the module: only a string in quotes, a number or a bool can be inserted. Declare Terraform variables, and set them in forProvider.vars or varmap",
		strings.Join(quoted, ", "))
}

// UnsafeInSource lists the variables whose values could change the address of a module to another module. The part after the question mark
// is not checked: it selects the version, and may have slashes.
func UnsafeInSource(source string, escaping terraform.Escaping, variables map[string]string) []string {
	address, _, _ := strings.Cut(source, "?")
	var unsafe []string
	for _, name := range sets.List(sets.New(terraform.Placeholders(address, escaping)...)) {
		value, ok := variables[name]
		if ok && (!safeInSource.MatchString(value) || strings.Contains(value, "..") || value == ".") {
			unsafe = append(unsafe, name)
		}
	}
	return unsafe
}

// ValidateSource checks the values that become part of the address of a Remote or Flux module.
func ValidateSource(params terraform.WorkspaceParameters, escaping terraform.Escaping, variables map[string]string, path *field.Path) (errs field.ErrorList) {
	for _, name := range sets.List(sets.New(terraform.Placeholders(params.Module, escaping)...)) {
		if value, ok := variables[name]; ok && !SafeInModule(value) {
			errs = append(errs, UnsafeInModuleError(path, name))
		}
	}
	if len(errs) > 0 || params.Source != terraform.SourceRemote {
		return errs
	}
	for _, name := range UnsafeInSource(params.Module, escaping, variables) {
		errs = append(errs, UnsafeSourceError(path, name))
	}
	return errs
}

// UnsafeSourceError returns the error about a variable in the address of a module.
func UnsafeSourceError(path *field.Path, variable string) *field.Error {
	return invalid(path,
		"the value of variable %s could change the source to another module. Before the question mark of a source, use only letters, digits and . _ + = -",
		strconv.Quote(variable))
}

// Placeholders returns the variables that a template uses anywhere, and those that must have a value. The latter do not include those in an
// inline module, where ${name} may be an expression of Terraform.
func Placeholders(template *infrav1.WorkspaceTemplateSpec) (used, needed sets.Set[string]) {
	spec, module := template.Template.Spec.DeepCopy(), sets.New[string]()
	if !template.HasLiteralModule() {
		module = PlaceholdersIn(spec.ForProvider.Module)
	}
	if spec.ForProvider.Source == terraform.SourceInline {
		spec.ForProvider.Module = ""
	}
	needed = sets.New[string]()
	data, err := json.Marshal(spec)
	if err != nil {
		return module, needed // Cannot happen: the spec was decoded from JSON.
	}
	var tree any
	if !bytes.Contains(data, []byte("${")) {
		return module, needed
	}
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
		names.Insert(sets.List(PlaceholdersIn(node))...)
	}
}

// PlaceholdersIn returns the names of the placeholders of a string.
func PlaceholdersIn(text string) sets.Set[string] {
	return sets.New(terraform.Placeholders(text, terraform.EscapeKept)...)
}

var (
	// reservedEnv matches environment variables that change how the provider runs Terraform, or which code it runs.
	reservedEnv = regexp.MustCompile(`^(TF_.*|LD_.*|PATH)$`)
	// stateArgs matches arguments that change the location of the state.
	stateArgs = regexp.MustCompile(`^--?(backend(-config)?|state(-out)?|backup|migrate-state|reconfigure|chdir)(=.*)?$`)
	// dangerousArgs matches arguments that run another module or other plugins, or that destroy instead of apply.
	dangerousArgs = regexp.MustCompile(`^--?(from-module|plugin-dir|destroy)(=.*)?$`)
)

// ValidateParameters checks forProvider except for the module: duplicate keys, environment variables, arguments and the entrypoint.
func ValidateParameters(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, validateUniqueKeys(params, path)...)
	for i, env := range params.Env {
		if reservedEnv.MatchString(env.Name) && !strings.HasPrefix(env.Name, "TF_VAR_") { // These only set a variable of the module.
			errs = append(errs, field.Forbidden(path.Child("env").Index(i).Child("name"),
				"TF_*, LD_* and PATH are reserved for provider-terraform. Pass values to Terraform in vars, varmap or TF_VAR_name"))
		}
	}
	// A list and not a map: the errors become a condition message, which must not change with the order of iteration.
	for _, phase := range []struct {
		name string
		args []string
	}{
		{"initArgs", params.InitArgs}, {"planArgs", params.PlanArgs},
		{"applyArgs", params.ApplyArgs}, {"destroyArgs", params.DestroyArgs},
	} {
		for i, arg := range phase.args {
			switch {
			case stateArgs.MatchString(arg):
				errs = append(errs, field.Forbidden(path.Child(phase.name).Index(i),
					"the Terraform backend is set in the ProviderConfig, not by an argument. Remove the argument"))
			case dangerousArgs.MatchString(arg):
				errs = append(errs, field.Forbidden(path.Child(phase.name).Index(i),
					"the argument would replace the module or its plugins, or destroy the resources. Remove the argument"))
			}
		}
	}
	for _, part := range strings.Split(params.Entrypoint, "/") {
		if part == ".." {
			errs = append(errs, invalid(path.Child("entrypoint"), `must be a directory within the module. Remove ".."`))
		}
	}
	return errs
}

// validateUniqueKeys rejects duplicate keys of vars and env: Terraform, or its process, would use one of the values and silently ignore the
// other.
func validateUniqueKeys(params terraform.WorkspaceParameters, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	vars, env := sets.New[string](), sets.New[string]()
	for i, v := range params.Vars {
		if vars.Has(v.Key) {
			errs = append(errs, field.Duplicate(path.Child("vars").Index(i).Child("key"), v.Key))
		}
		vars.Insert(v.Key)
	}
	for i := range params.Env {
		if name := params.Env[i].Name; env.Has(name) {
			errs = append(errs, field.Duplicate(path.Child("env").Index(i).Child("name"), name))
		}
		env.Insert(params.Env[i].Name)
	}
	return errs
}
