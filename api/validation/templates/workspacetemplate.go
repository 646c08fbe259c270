// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package templates has the rules for WorkspaceTemplates.
package templates

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
	"github.com/capt-provider/capt/api/validation/modules"
)

// ValidateWorkspaceTemplate checks a template on its own, without variables. All references of an inline module are checked if the Terraform code of
// the ProviderConfig, which can declare what they refer to, is given; only those to variables if not.
func ValidateWorkspaceTemplate(template *infrav1.WorkspaceTemplate, configuration ...*modules.Parsed) validation.Findings {
	path := field.NewPath("spec", "template", "spec")
	forProvider := path.Child("forProvider")
	spec := &template.Spec
	params := spec.Template.Spec.ForProvider

	var findings validation.Findings
	var declared *modules.Declarations
	if params.Source == terraform.SourceInline {
		// Parse once: for a large module, this takes longer than all other checks.
		module := modules.ParseTemplate(params)
		findings.Add(module.Findings(forProvider.Child("module")))
		findings.Add(module.Language(forProvider.Child("module")))
		if len(configuration) > 0 {
			findings.Add(module.References(forProvider.Child("module"), configuration...))
		} else {
			findings.Add(module.Variables(forProvider.Child("module")))
		}
		declared = module.Declarations()
	}
	findings.Refuse(ValidateParameters(params, forProvider)...)
	findings.Refuse(validateSource(params, forProvider)...)
	findings.Refuse(validateVarFiles(params, forProvider)...)
	findings.Refuse(validateProviderConfigKind(spec, path)...)
	findings.Refuse(validateAllowedNamespaces(spec.AllowedNamespaces)...)
	findings.Add(validateRollout(template))
	findings.Add(modules.ValidatePublishedOutputs(spec, declared))
	findings.Add(validateReferences(template, path))
	findings.Add(modules.CheckDeclaredVariables(params, declared, forProvider))
	findings.Add(warnOfVariablesSetTwice(params, forProvider))
	findings.Add(warnOfFieldsWithoutEffect(spec, path))
	findings.Add(warnOfUnknownFields(&spec.Template.Spec, path))
	return findings
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
			errs = append(errs, validation.Invalid(path.Child("entrypoint"), `must be a directory within the module. Remove ".."`))
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

// warnOfVariablesSetTwice warns of variables that are in both vars and varmap. Terraform uses only one of the two values.
func warnOfVariablesSetTwice(params terraform.WorkspaceParameters, path *field.Path) validation.Findings {
	var findings validation.Findings
	values := modules.VarMap(params)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if slices.ContainsFunc(params.Vars, func(v terraform.Var) bool { return v.Key == name }) {
			findings.Warn(path.Child("varmap").Key(name), "is also in vars, and Terraform uses one of the two values. Remove one")
		}
	}
	return findings
}
