// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/terraform"
)

// Interface is the variables that a template passes to its module: those that the module declares, or that spec.inputs has, and that the template does
// not set itself.
type Interface struct {
	template  *infrav1.WorkspaceTemplateSpec
	variables map[string]*Variable
	names     sets.Set[string]
	// known is false if a file or an argument of the template may set further variables.
	known bool
}

// InterfaceOf returns the interface of a template; empty if it passes no variables. declared are the declarations of its module; nil if they are not known.
func InterfaceOf(template *infrav1.WorkspaceTemplateSpec, params terraform.WorkspaceParameters, declared *Declarations) *Interface {
	i := &Interface{template: template, names: sets.New[string](), known: AllValuesKnown(params)}
	switch {
	case template.PassVariables != infrav1.PassDeclared:
	case params.Source != terraform.SourceInline:
		i.names = inputNames(template)
	case declared != nil:
		i.variables, i.names = declared.Variables, sets.KeySet(declared.Variables)
	}
	i.names = i.names.Difference(SetIn(params))
	return i
}

func inputNames(template *infrav1.WorkspaceTemplateSpec) sets.Set[string] {
	names := sets.New[string]()
	for i := range template.Inputs {
		names.Insert(template.Inputs[i].Name)
	}
	return names
}

// TemplateInterface is InterfaceOf for a template whose placeholders are not replaced yet.
func TemplateInterface(template *infrav1.WorkspaceTemplateSpec) *Interface {
	var declared *Declarations
	if template.Template.Spec.ForProvider.Source == terraform.SourceInline && template.PassVariables == infrav1.PassDeclared {
		declared = ParseTemplate(template).Declarations()
	}
	return InterfaceOf(template, template.Template.Spec.ForProvider, declared)
}

// TemplateVariable is a variable of a template, for users.
type TemplateVariable struct {
	Name string `json:"name"`
	// Type is as the module has it; empty if it is not known.
	Type string `json:"type,omitempty"`
	// Required is true if the variable must have a value. Default is what the module or the template gives it.
	Required    bool   `json:"required,omitempty"`
	Default     string `json:"default,omitempty"`
	SetBy       string `json:"setBy"` // SetBy is CAPT, User, Template, or None if the template does not pass it.
	Sensitive   bool   `json:"sensitive,omitempty"`
	Description string `json:"description,omitempty"`
}

// VariablesOf returns the variables of a template: those that its module declares, those in spec.inputs, and the placeholders, sorted by name.
func VariablesOf(template *infrav1.WorkspaceTemplateSpec, isSetByCAPT func(name string) bool) []TemplateVariable {
	used, needed := Placeholders(template)
	names := used.Delete(WorkspaceNameVariable).Union(inputNames(template))
	var declared map[string]*Variable
	if template.Template.Spec.ForProvider.Source == terraform.SourceInline {
		if found := ParseTemplate(template).Declarations(); found != nil {
			declared = found.Variables
			names = names.Union(sets.KeySet(declared))
		}
	}
	set, passed := SetIn(template.Template.Spec.ForProvider), TemplateInterface(template)
	list := make([]TemplateVariable, 0, len(names))
	for _, name := range sets.List(names) {
		v := TemplateVariable{Name: name, Required: needed.Has(name), SetBy: "User"}
		if isSetByCAPT(name) {
			v.SetBy = "CAPT"
		}
		if variable := declared[name]; variable != nil {
			v.declare(variable)
			if set.Has(name) && !used.Has(name) {
				v.SetBy, v.Required = "Template", false
			} else if !set.Has(name) && !passed.names.Has(name) {
				v.SetBy = "None"
			}
		}
		if input := template.Input(name); input != nil {
			v.narrow(input)
		}
		list = append(list, v)
	}
	return list
}

func (v *TemplateVariable) declare(variable *Variable) {
	v.Type, v.Default, v.Sensitive, v.Description = variable.TypeText, variable.Default, variable.Sensitive, variable.Description
	v.Required = v.Required || !variable.HasDefault
}

func (v *TemplateVariable) narrow(input *infrav1.TemplateInput) {
	v.Description, v.Required = cmp.Or(input.Description, v.Description), v.Required || input.Required
	if input.Default != nil {
		v.Default, v.Required = string(input.Default.Raw), false
	}
	if input.Schema != nil {
		v.Type = cmp.Or(v.Type, string(input.Schema.Raw))
	}
}

// Where says where the module declares a variable, for the end of a sentence; empty if that is not known.
func (i *Interface) Where(name string) string {
	if i.variables[name] == nil {
		return ""
	}
	return fmt.Sprintf(" (line %d of the module)", i.variables[name].Line)
}

// Names returns the variables that the template passes.
func (i *Interface) Names() sets.Set[string] { return i.names }

// Passed is what a template passes to its module.
type Passed struct {
	// Values are by variable.
	Values map[string]json.RawMessage
	// Missing are the variables without a value that must have one, sorted. Invalid says what is wrong with a value, by variable.
	Missing []string
	Invalid map[string]string
}

// Pass returns what is passed for the values that CAPT and users set.
func (i *Interface) Pass(values infrav1.Variables) Passed {
	passed := Passed{Values: map[string]json.RawMessage{}, Invalid: map[string]string{}}
	for _, name := range sets.List(i.names) {
		variable, input := i.variables[name], i.template.Input(name)
		value := json.RawMessage(values[name].Raw)
		if value == nil && input != nil && input.Default != nil {
			value = input.Default.Raw
		}
		if value == nil {
			if i.known && (variable != nil && !variable.HasDefault || input != nil && input.Required) {
				passed.Missing = append(passed.Missing, name)
			}
			continue
		}
		value = asDeclared(name, value, variable, input)
		if problem := check(variable, input, value); problem != "" {
			passed.Invalid[name] = strings.TrimSuffix(problem, ".")
		}
		passed.Values[name] = value
	}
	return passed
}

// Errors are about the variables that are missing or not valid. module names the module. They have no values, which may be secrets.
func (i *Interface) Errors(passed Passed, module string, path *field.Path) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(passed.Invalid)) {
		errs = append(errs, field.TypeInvalid(path.Key(name), field.OmitValueType{}, fmt.Sprintf("is not valid for %s: %s%s. Correct the value", module, passed.Invalid[name], i.Where(name))))
	}
	for _, name := range passed.Missing {
		errs = append(errs, field.Required(path.Key(name), fmt.Sprintf("%s requires this variable%s. Set it", module, i.Where(name))))
	}
	return errs
}

const (
	maxSchemaSize = 32 << 10
	// maxSchemaWork is the maximum product of the sizes of schema and value, which takes about a second if a list has many elements and the schema
	// many alternatives. Admission webhooks check values of all users.
	maxSchemaWork = 8 << 20
)

// check returns what is wrong with a value; empty if nothing is, or if it cannot be known.
func check(variable *Variable, input *infrav1.TemplateInput, value json.RawMessage) string {
	if variable != nil {
		if problem := variable.Check(value); problem != "" {
			return problem
		}
	}
	if input == nil || input.Schema == nil || len(input.Schema.Raw)*len(value) > maxSchemaWork {
		return ""
	}
	schema, err := schemaOf(input)
	var content any
	if err != nil || json.Unmarshal(value, &content) != nil {
		return "" // The template is invalid, and reported as such.
	}
	errs := schemavalidation.ValidateCustomResource(nil, map[string]any{"value": content}, schema)
	if len(errs) == 0 {
		return ""
	}
	where := strings.TrimPrefix(strings.TrimPrefix(errs[0].Field, "value"), ".")
	if where == "<nil>" || variable != nil && variable.Sensitive { // It has the keys of maps.
		where = ""
	}
	return strings.TrimPrefix(where+": ", ": ") + withoutValue(cmp.Or(errs[0].Detail, errs[0].Type.String()))
}

// withoutValue returns the detail of an error about a schema without path and value, which may be a secret: "value.a in body must be of type ipv4: "x"".
func withoutValue(detail string) string {
	if _, rule, found := strings.Cut(detail, " in body "); found {
		detail = rule
	}
	if rule, _, _ := strings.Cut(detail, ":"); strings.HasPrefix(rule, "must be of type ") {
		return rule
	}
	return detail
}

// CheckInputSchema returns what is wrong with the schema of an input; empty if nothing is.
func CheckInputSchema(input *infrav1.TemplateInput) string {
	if input.Schema == nil {
		return ""
	}
	if _, err := schemaOf(input); err != nil {
		return fmt.Sprintf("is not a schema as in a CustomResourceDefinition: %v. Correct the schema", err)
	}
	return ""
}

// CheckInputDefault returns what is wrong with the default of an input; empty if nothing is. declared are the declarations of the module, or nil.
func CheckInputDefault(input *infrav1.TemplateInput, declared *Declarations) string {
	if input.Default == nil {
		return ""
	}
	var variable *Variable
	if declared != nil {
		variable = declared.Variables[input.Name]
	}
	return strings.TrimSuffix(check(variable, input, asDeclared(input.Name, input.Default.Raw, variable, input)), ".")
}

// schemaOf returns the validator of an input. A schema that is not structural, or has what a CustomResourceDefinition does not allow or CAPT does not
// evaluate, is an error.
func schemaOf(input *infrav1.TemplateInput) (schemavalidation.SchemaValidator, error) {
	if len(input.Schema.Raw) > maxSchemaSize {
		return nil, fmt.Errorf("it has more than %d KiB", maxSchemaSize>>10)
	}
	var props apiextensionsv1.JSONSchemaProps
	var internal apiextensions.JSONSchemaProps
	decoder := json.NewDecoder(bytes.NewReader(input.Schema.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&props); err != nil {
		return nil, err
	}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil); err != nil {
		return nil, err
	}
	internal = apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{"value": internal}} // A root must be an object.
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil, err
	}
	if errs := structuralschema.ValidateStructural(nil, structural); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	for _, unsupported := range []struct{ field, why string }{
		{"x-kubernetes-validations", "rules in CEL (x-kubernetes-validations) are not evaluated"}, {"uniqueItems", "uniqueItems is not supported, as its time is quadratic"},
	} {
		if strings.Contains(string(input.Schema.Raw), `"`+unsupported.field+`"`) {
			return nil, errors.New(unsupported.why)
		}
	}
	validator, _, err := schemavalidation.NewSchemaValidator(&internal)
	return validator, err
}

// asDeclared returns a value in the form in which the variable needs it: a list or map that is given as JSON text is a list or map, unless the variable
// is a string, and a text is a boolean or number if the schema of the input requires one. What CAPT sets is such a text.
func asDeclared(name string, value json.RawMessage, variable *Variable, input *infrav1.TemplateInput) json.RawMessage {
	kind := kindOf(variable, input)
	var text string
	isString := json.Unmarshal(value, &text) == nil
	trimmed := strings.TrimSpace(text)
	isDocument := kind == documentKind || kind == "" && slices.Contains(naming.DocumentVariables(), name)
	switch {
	case kind == "string" && !isString:
		return infrav1.TextValue(string(value)).Raw
	case isString && isTextOf(kind, trimmed), isString && isDocument && (strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{")):
		// Numbers as the API server stores them: a Workspace with 1.0 would always differ from the live one, which has 1.
		var content any
		if utiljson.Unmarshal([]byte(trimmed), &content) == nil {
			value, _ = json.Marshal(content) // It was decoded from JSON.
		}
	}
	return value
}

// documentKind is the kind of lists and maps.
const documentKind = "document"

// kindOf returns the type of a variable as in a schema, and documentKind for lists and maps; empty if it is not known.
func kindOf(variable *Variable, input *infrav1.TemplateInput) string {
	var schema struct{ Type string }
	switch {
	case variable != nil && variable.IsText():
		return "string"
	case variable != nil && variable.IsDocument():
		return documentKind
	case variable != nil || input == nil || input.Schema == nil:
		return ""
	case json.Unmarshal(input.Schema.Raw, &schema) == nil && (schema.Type == "array" || schema.Type == "object"):
		return documentKind
	}
	return schema.Type
}

// isTextOf reports whether a text is a boolean or number, as the type of a schema requires. Terraform would convert the text.
func isTextOf(kind, text string) bool {
	switch kind {
	case "boolean":
		return text == "true" || text == "false"
	case "number", "integer":
		return text != "null" && json.Unmarshal([]byte(text), new(float64)) == nil
	}
	return false
}

// varArgs matches arguments that pass variables to Terraform.
var varArgs = regexp.MustCompile(`^--?var(-file)?(=.*)?$`)

// AllValuesKnown reports whether all variables that a template sets are known: they come only from vars, varmap and env, without placeholders in their
// names.
func AllValuesKnown(params terraform.WorkspaceParameters) bool {
	return len(params.VarFiles) == 0 &&
		!slices.ContainsFunc(params.Vars, func(v terraform.Var) bool { return terraform.HasPlaceholder(v.Key) }) &&
		!slices.ContainsFunc(slices.Concat(params.PlanArgs, params.ApplyArgs), func(arg string) bool {
			return varArgs.MatchString(arg) || terraform.HasPlaceholder(arg)
		})
}

// SetIn returns the variables that a template sets in vars, varmap and env.
func SetIn(params terraform.WorkspaceParameters) sets.Set[string] {
	set := sets.KeySet(VarMap(params))
	for _, v := range params.Vars {
		set.Insert(v.Key)
	}
	for i := range params.Env {
		if name, found := strings.CutPrefix(params.Env[i].Name, "TF_VAR_"); found {
			set.Insert(name)
		}
	}
	return set
}

// AddTo adds the values to varmap, which has no argument on a command line, whose length is limited, and in which Terraform evaluates nothing.
func (p Passed) AddTo(params *terraform.WorkspaceParameters) error {
	if len(p.Values) == 0 {
		return nil
	}
	values := VarMap(*params)
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	maps.Copy(values, p.Values)
	raw, err := json.Marshal(values)
	params.VarMap = &apiextensionsv1.JSON{Raw: raw}
	return err
}
