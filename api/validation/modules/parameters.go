// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capt-provider/capt/api/terraform"
)

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
		if reservedEnv.MatchString(env.Name) {
			errs = append(errs, field.Forbidden(path.Child("env").Index(i).Child("name"),
				"TF_*, LD_* and PATH are reserved for provider-terraform. Pass values to Terraform in vars or varmap"))
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
