// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation/modules"
)

// templates are the WorkspaceTemplates that an object in a namespace may refer to.
type templates struct {
	Reader
	namespace string
	// ofClass is true for ClusterClass templates, about which there are only warnings: Cluster API creates objects from them in the namespaces of Clusters,
	// where the same reference may be valid, patches may set another WorkspaceTemplate, and each object is checked again.
	ofClass bool
}

// lookUp looks up and checks the WorkspaceTemplate that a field refers to. The template is nil if it cannot be used.
func (t templates) lookUp(ctx context.Context, ref infrav1.WorkspaceTemplateReference, path *field.Path) (*infrav1.WorkspaceTemplate, Findings, error) {
	template, findings, err := TemplateReference(ctx, t.Reader, ref, t.namespace, path)
	return template, t.relaxed(findings), err
}

// relaxed returns findings about what a ClusterClass, or the namespace of a Cluster, can still change.
func (t templates) relaxed(findings Findings) Findings {
	if t.ofClass {
		findings.DowngradeToWarnings()
	}
	return findings
}

// derived is the value of a variable that CAPT sets from a field.
type derived struct {
	value string
	path  *field.Path
	// document is true for JSON, which can never be inserted into the text of a module, whatever the value is: the template is to be corrected, not
	// the field.
	document bool
}

// IsSetByCAPT reports whether CAPT sets a variable of templates for VPCs, control planes, Fargate profiles or node groups.
func IsSetByCAPT(name string) bool {
	return strings.HasPrefix(name, naming.TagPrefix) || slices.Contains(slices.Concat(VPCVariables(), ControlPlaneVariables(nil), FargateVariables(), MachinePoolVariables(), naming.NetworkVariables()), name)
}

type variablesOf struct {
	// given are those of the user, in the field at path.
	given infrav1.Variables
	path  *field.Path
	// setByCAPT are the names of those that CAPT sets, which override those of the user. derived are the values that come from other fields.
	setByCAPT []string
	derived   map[string]derived
	// mayBeSet are the names of those that CAPT may set if the user does not.
	mayBeSet []string
}

func (v variablesOf) pathOf(name string) *field.Path {
	if d, ok := v.derived[name]; ok {
		return d.path
	}
	return v.path.Key(name)
}

// validateUse checks the WorkspaceTemplate that an owner refers to, and the values of its variables.
func (t templates) validateUse(ctx context.Context, ref infrav1.WorkspaceTemplateReference, refPath *field.Path, variables variablesOf) (Findings, error) {
	template, findings, err := t.lookUp(ctx, ref, refPath)
	if err != nil {
		return findings, err
	}
	findings.Refuse(validateVariableNames(variables.given, variables.path)...)
	effective := make(map[string]string, len(variables.given))
	for _, name := range slices.Sorted(maps.Keys(variables.given)) {
		switch {
		case name == naming.ProfileVariable:
			findings.Refuse(Forbidden(variables.path.Key(name), "is reserved for Fargate profiles. Rename the variable"))
		case slices.Contains(variables.setByCAPT, name):
			findings.Warn(variables.path.Key(name), "has no effect: CAPT sets this variable. Remove it")
		case modules.VariableName.MatchString(name): // Other names are errors already, so no warning is added.
			effective[name] = variables.given.Text(name)
		}
	}
	if template != nil {
		findings.Add(t.relaxed(checkPlaceholders(template, effective, variables.path, append(variables.setByCAPT, variables.mayBeSet...)...)))
		findings.Add(t.relaxed(checkPassed(template, variables)))
		documents := map[string]string{}
		for name, d := range variables.derived {
			if d.document {
				documents[name] = "{}"
			} else {
				effective[name] = d.value
			}
		}
		findings.Add(validateVariableValues(template, effective, variables.pathOf))
		findings.AddWarnings(validateVariableValues(template, documents, variables.pathOf).Errors)
	}
	return findings, nil
}

// validateVariableNames checks the names of the variables that a user sets.
func validateVariableNames(variables infrav1.Variables, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !modules.VariableName.MatchString(name) {
			errs = append(errs, Invalid(path.Key(name),
				"is not a valid name of a placeholder. Use letters, digits and underscores, and do not begin with a digit"))
		}
		if variables[name].Raw == nil {
			errs = append(errs, Invalid(path.Key(name), "is null. Set a value, or remove the variable"))
		}
	}
	return errs
}

// validateAppliedVariableNames checks the names of the variables of a WorkspaceTemplateApply. It ignores the variables that CAPT adds for
// tags.
func validateAppliedVariableNames(variables infrav1.Variables, path *field.Path) field.ErrorList {
	given := maps.Clone(variables)
	maps.DeleteFunc(given, func(name string, _ apiextensionsv1.JSON) bool { return strings.HasPrefix(name, naming.TagPrefix) })
	return validateVariableNames(given, path)
}

// validateVariableValues checks that the values of variables are safe where the template uses them: in the module or in its address. pathOf
// returns the field of a variable. Variables that are not given yet are checked when the Workspace is rendered.
func validateVariableValues(template *infrav1.WorkspaceTemplate, variables map[string]string, pathOf func(name string) *field.Path) Findings {
	var findings Findings
	parameters := template.Spec.Template.Spec.ForProvider
	given, assumed := map[string]string{}, map[string]string{}
	if template.Spec.HasLiteralModule() {
		return findings
	}
	for _, name := range sets.List(sets.New(terraform.Placeholders(parameters.Module, template.Spec.Substitution.Escaping())...)) {
		value, ok := variables[name]
		switch {
		case !ok || name == modules.WorkspaceNameVariable:
			assumed[name] = "0"
		case modules.SafeInModule(value):
			given[name], assumed[name] = value, value
		default:
			assumed[name] = "0"
			findings.Refuse(modules.UnsafeInModuleError(pathOf(name), name))
		}
	}
	for _, name := range modules.ChangingStructure(parameters, template.Spec.Substitution.Escaping(), assumed) {
		if _, ok := given[name]; ok {
			findings.Refuse(modules.StructureError(pathOf(name), name))
		}
	}
	if parameters.Source == terraform.SourceRemote {
		for _, name := range modules.UnsafeInSource(parameters.Module, template.Spec.Substitution.Escaping(), given) {
			findings.Refuse(modules.UnsafeSourceError(pathOf(name), name))
		}
	}
	return findings
}

// checkPlaceholders compares the placeholders of the template with the variables of the user: without a value, a placeholder is an error, and a
// warning if the template replaces only those with a value. further are the names of variables that CAPT sets; a template need not use them.
func checkPlaceholders(template *infrav1.WorkspaceTemplate, variables map[string]string, path *field.Path, further ...string) Findings {
	var findings Findings
	if _, given := variables[modules.WorkspaceNameVariable]; given {
		findings.Warn(path.Key(modules.WorkspaceNameVariable), "has no effect: CAPT always sets ${%s} to the name of the Workspace. Remove the variable", modules.WorkspaceNameVariable)
	}
	_, needed := modules.Placeholders(&template.Spec)
	for _, name := range sets.List(needed.Difference(sets.KeySet(variables)).Delete(append(further, modules.WorkspaceNameVariable)...)) {
		if template.Spec.Substitution == infrav1.SubstitutionFields {
			findings.Refuse(field.Required(path.Key(name), fmt.Sprintf("WorkspaceTemplate %s/%s has the placeholder ${%s}. Set the variable", template.Namespace, template.Name, name)))
			continue
		}
		findings.Warn(path, "placeholder ${%[3]s} of WorkspaceTemplate %[1]s/%[2]s has no value and is not replaced. Set the variable", template.Namespace, template.Name, name)
	}
	return findings
}

// checkPassed checks the variables of a user against those that the template passes to its module.
func checkPassed(template *infrav1.WorkspaceTemplate, variables variablesOf) Findings {
	var findings Findings
	values := maps.Clone(variables.given)
	maps.DeleteFunc(values, func(name string, _ apiextensionsv1.JSON) bool { return slices.Contains(variables.setByCAPT, name) })
	passes := modules.TemplateInterface(&template.Spec)
	passed := passes.Pass(values)
	passed.Missing = slices.DeleteFunc(passed.Missing, func(name string) bool {
		return slices.Contains(append(variables.setByCAPT, variables.mayBeSet...), name)
	})
	findings.Refuse(passes.Errors(passed, fmt.Sprintf("the module of WorkspaceTemplate %s/%s", template.Namespace, template.Name), variables.path)...)
	return findings
}

// checkDeclaredVariables compares the variables that an inline module declares with those that the template passes to it.
func checkDeclaredVariables(spec *infrav1.WorkspaceTemplateSpec, module *modules.Declarations, path *field.Path) Findings {
	var findings Findings
	params := spec.Template.Spec.ForProvider
	if module == nil || module.Incomplete {
		return findings
	}
	const undeclared = "the module declares no variable %q. Declare the variable, or correct the spelling"
	for i, v := range params.Vars {
		if _, ok := module.Variables[v.Key]; !ok && !terraform.HasPlaceholder(v.Key) {
			findings.Warn(path.Child("vars").Index(i).Child("key"), undeclared, v.Key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(modules.VarMap(params))) {
		if _, ok := module.Variables[name]; !ok {
			findings.Warn(path.Child("varmap").Key(name), undeclared, name)
		}
	}
	if modules.AllValuesKnown(params) {
		findings.Add(warnOfVariablesWithoutValue(spec, module, path))
	}
	return findings
}

func warnOfVariablesWithoutValue(spec *infrav1.WorkspaceTemplateSpec, module *modules.Declarations, path *field.Path) Findings {
	var findings Findings
	set := modules.SetIn(spec.Template.Spec.ForProvider)
	for _, name := range slices.Sorted(maps.Keys(module.Variables)) {
		switch {
		case module.Variables[name].HasDefault, set.Has(name):
		case spec.PassVariables != infrav1.PassDeclared:
			findings.Warn(path.Child("module"), "variable %q has neither a value nor a default. Add it to forProvider.vars, declare a default, or set spec.passVariables to Declared", name)
		case !modules.VariableName.MatchString(name):
			findings.Warn(path.Child("module"), "variable %q cannot get a value: names in spec.variables have only letters, digits and underscores. Add it to forProvider.vars, with a placeholder, or declare a default", name)
		}
	}
	return findings
}

// validatePublishedOutputs checks spec.publishOutputs, the outputs that may appear in status, against the outputs that the module declares.
func validatePublishedOutputs(spec *infrav1.WorkspaceTemplateSpec, module *modules.Declarations) Findings {
	var findings Findings
	if module == nil {
		return findings
	}
	for i, name := range spec.PublishOutputs {
		path := field.NewPath("spec", "publishOutputs").Index(i)
		sensitive, ok := module.Outputs[name]
		switch {
		case sensitive:
			findings.Refuse(Forbidden(path, "output %q is sensitive and cannot be published in status. Remove it from the list and read it from the connection Secret", name))
		case !ok && !module.Incomplete:
			findings.Warn(path, "the module declares no output %q. Declare the output, or correct the spelling", name)
		}
	}
	return findings
}
