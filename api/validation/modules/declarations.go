// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/api/validation"
)

// Declarations are the variables and outputs that an inline module declares.
type Declarations struct {
	// variables has the names of the variables; the value is true if the variable has a default.
	variables map[string]bool
	// outputs has the names of the outputs; the value is true if the output has the literal sensitive = true.
	outputs map[string]bool
	// incomplete is true when a placeholder is part of a name, so that not every name is known.
	incomplete bool
}

// literalSize is the maximum size, in bytes, of an expression that is evaluated. A literal true is shorter; the evaluation of a large
// expression can take very long.
const literalSize = 1000

var (
	blocks = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
	}}
	attributes = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "default"}, {Name: "sensitive"}}}
	// varArgs matches arguments that pass variables to Terraform.
	varArgs = regexp.MustCompile(`^--?var(-file)?(=.*)?$`)
)

// Declarations returns the declarations of a module; nil when the module could not be parsed.
func (r *Parsed) Declarations() *Declarations {
	if !r.IsValid() {
		return nil
	}
	content, _, _ := r.file.Body.PartialContent(blocks) // Terraform reports invalid blocks.
	d := &Declarations{variables: map[string]bool{}, outputs: map[string]bool{}}
	for _, block := range content.Blocks {
		inner, _, _ := block.Body.PartialContent(attributes)
		name := block.Labels[0]
		d.incomplete = d.incomplete || strings.Contains(name, placeholderMark)
		if block.Type == "output" {
			d.outputs[name] = isLiteralTrue(inner.Attributes["sensitive"])
			continue
		}
		_, d.variables[name] = inner.Attributes["default"]
	}
	return d
}

// Variables returns the names of the variables; the value is true if the variable has a default.
func (d *Declarations) Variables() map[string]bool { return d.variables }

// Outputs returns the names of the outputs; the value is true if the output is literally sensitive.
func (d *Declarations) Outputs() map[string]bool { return d.outputs }

// OutputsOf returns the outputs that the inline module of a template declares; nil if not all are known.
func OutputsOf(template *infrav1.WorkspaceTemplate) map[string]bool {
	params := template.Spec.Template.Spec.ForProvider
	if params.Source != terraform.SourceInline {
		return nil
	}
	module := ParseTemplate(params).Declarations()
	if module == nil || module.incomplete {
		return nil
	}
	return module.outputs
}

// isLiteralTrue reports whether an attribute, which may be nil, has the literal value true.
func isLiteralTrue(attribute *hcl.Attribute) bool {
	if attribute == nil {
		return false
	}
	where := attribute.Expr.Range()
	var value bool
	return where.End.Byte-where.Start.Byte <= literalSize && !gohcl.DecodeExpression(attribute.Expr, nil, &value).HasErrors() && value
}

// CheckDeclaredVariables compares the variables that an inline module declares with those that the template passes to it.
func CheckDeclaredVariables(params terraform.WorkspaceParameters, module *Declarations, path *field.Path) validation.Findings {
	var findings validation.Findings
	if module == nil || module.incomplete {
		return findings
	}
	const undeclared = "the module declares no variable %q. Declare the variable, or correct the spelling"
	given := sets.New[string]()
	for i, v := range params.Vars {
		given.Insert(v.Key)
		if _, ok := module.variables[v.Key]; !ok && !terraform.Placeholder.MatchString(v.Key) {
			findings.Warn(path.Child("vars").Index(i).Child("key"), undeclared, v.Key)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(VarMap(params))) {
		given.Insert(name)
		if _, ok := module.variables[name]; !ok {
			findings.Warn(path.Child("varmap").Key(name), undeclared, name)
		}
	}
	if allValuesKnown(params) {
		findings.Add(variablesWithoutValue(module, params, given, path))
	}
	return findings
}

// variablesWithoutValue warns of variables that have neither a value nor a default.
func variablesWithoutValue(module *Declarations, params terraform.WorkspaceParameters, given sets.Set[string], path *field.Path) validation.Findings {
	var findings validation.Findings
	for _, name := range slices.Sorted(maps.Keys(module.variables)) {
		if !module.variables[name] && !given.Has(name) && !isSetInEnv(params, name) {
			findings.Warn(path.Child("module"), "variable %q has neither a value nor a default. Add it to forProvider.vars, or declare a default", name)
		}
	}
	return findings
}

// VarMap returns the Terraform variables of forProvider.varmap, as JSON.
func VarMap(params terraform.WorkspaceParameters) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	if params.VarMap == nil || json.Unmarshal(params.VarMap.Raw, &values) != nil {
		return nil // The schema of the CRD accepts only JSON objects.
	}
	return values
}

// allValuesKnown reports whether all variables are known: they come only from vars, varmap and env, without placeholders in their names.
func allValuesKnown(params terraform.WorkspaceParameters) bool {
	return len(params.VarFiles) == 0 &&
		!slices.ContainsFunc(params.Vars, func(v terraform.Var) bool { return terraform.Placeholder.MatchString(v.Key) }) &&
		!slices.ContainsFunc(slices.Concat(params.PlanArgs, params.ApplyArgs), func(arg string) bool {
			return varArgs.MatchString(arg) || terraform.Placeholder.MatchString(arg)
		})
}

func isSetInEnv(params terraform.WorkspaceParameters, variable string) bool {
	return slices.ContainsFunc(params.Env, func(env terraform.EnvVar) bool { return env.Name == "TF_VAR_"+variable })
}

// ValidatePublishedOutputs checks spec.publishOutputs, the outputs that may appear in status, against the outputs that the module declares.
func ValidatePublishedOutputs(spec *infrav1.WorkspaceTemplateSpec, module *Declarations) validation.Findings {
	var findings validation.Findings
	if module == nil {
		return findings
	}
	for i, name := range spec.PublishOutputs {
		path := field.NewPath("spec", "publishOutputs").Index(i)
		sensitive, ok := module.outputs[name]
		switch {
		case sensitive:
			findings.Refuse(validation.Forbidden(path, "output %q is sensitive and cannot be published in status. Remove it from the list and read it from the connection Secret", name))
		case !ok && !module.incomplete:
			findings.Warn(path, "the module declares no output %q. Declare the output, or correct the spelling", name)
		}
	}
	return findings
}
