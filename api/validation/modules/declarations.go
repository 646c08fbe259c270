// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"crypto/sha256"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"k8s.io/utils/lru"

	"github.com/capt-provider/capt/api/terraform"
)

// Declarations are the variables and outputs that an inline module declares. They are cached: do not change them.
type Declarations struct {
	Variables map[string]*Variable
	// Outputs has the names of the outputs; the value is true if the output has the literal sensitive = true.
	Outputs map[string]bool
	// Incomplete is true when a placeholder is part of a name, so that not every name is known.
	Incomplete bool
}

// Variable is a variable that a module declares.
type Variable struct {
	Name, Description string
	// TypeText is the type as the module has it, for example list(string); empty if it declares none, or if the type has a placeholder.
	TypeText string
	// HasDefault is true if the module sets a value if nobody does. Default is its source text, shortened; empty for a sensitive variable, or if
	// the text has a placeholder.
	HasDefault bool
	Default    string

	Nullable, Sensitive bool

	// constraint is the type; any value is valid if it is not known. optional are the default values of its attributes.
	constraint cty.Type
	optional   *typeexpr.Defaults
	// conditions are the validations that can be evaluated here.
	conditions []condition
}

var (
	blocks = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
	}}
	ofOutput   = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "sensitive"}}}
	ofVariable = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{{Name: "description"}, {Name: "type"}, {Name: "default"}, {Name: "nullable"}, {Name: "sensitive"}},
		Blocks:     []hcl.BlockHeaderSchema{{Type: "validation"}},
	}
	ofValidation = &hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "condition"}, {Name: "error_message"}}}
)

// declarations is the cache of declarations, by the hash of the module; nil for a module that is not valid. A fleet has few modules, and each is
// checked for every Workspace; without the cache, this takes a fifth of the time of captctl migrate plan.
var declarations = lru.New(cacheSize)

// Declarations returns the declarations of a module; nil when the module could not be parsed.
func (r *Parsed) Declarations() *Declarations {
	key := sha256.Sum256([]byte(string(r.format) + "\x00" + r.text))
	if cached, known := declarations.Get(key); known {
		return cached.(*Declarations)
	}
	var found *Declarations
	if r.IsValid() {
		found = declarationsOf(r.parse().file)
	}
	declarations.Add(key, found)
	return found
}

func declarationsOf(file *hcl.File) *Declarations {
	content, _, _ := file.Body.PartialContent(blocks) // Terraform reports invalid blocks.
	d := &Declarations{Variables: map[string]*Variable{}, Outputs: map[string]bool{}}
	for _, block := range content.Blocks {
		name := block.Labels[0]
		d.Incomplete = d.Incomplete || hasPlaceholder(name)
		if block.Type == "output" {
			inner, _, _ := block.Body.PartialContent(ofOutput)
			d.Outputs[name] = literal(inner.Attributes["sensitive"]) == "true"
		} else if d.Variables[name] == nil { // Terraform reports the second declaration.
			d.Variables[name] = variableOf(block, file.Bytes)
		}
	}
	return d
}

// maxDefaultLength is the maximum length of a default value that is shown, in characters.
const maxDefaultLength = 60

func variableOf(block *hcl.Block, source []byte) *Variable {
	inner, _, _ := block.Body.PartialContent(ofVariable)
	v := &Variable{
		Name:        block.Labels[0],
		Description: literal(inner.Attributes["description"]),
		Nullable:    literal(inner.Attributes["nullable"]) != "false",
		Sensitive:   inner.Attributes["sensitive"] != nil && literal(inner.Attributes["sensitive"]) != "false",
		constraint:  cty.DynamicPseudoType,
	}
	evaluable := true
	if declared := inner.Attributes["type"]; declared != nil {
		evaluable = v.readType(declared, source)
	}
	if value := inner.Attributes["default"]; value != nil {
		v.HasDefault = true
		if text := strings.Join(strings.Fields(string(value.Expr.Range().SliceBytes(source))), " "); !v.Sensitive && !hasPlaceholder(text) {
			v.Default = shortened(text, maxDefaultLength)
		}
	}
	for _, validation := range inner.Blocks {
		if c := conditionOf(validation, v.Name, source); c != nil && evaluable {
			v.conditions = append(v.conditions, *c)
		}
	}
	return v
}

// maxTypeSize is the maximum size of a type, in bytes. Longer ones are not read.
const maxTypeSize = 32 << 10

// readType reads the type of a variable. It reports whether validations can be evaluated for values of the type.
func (v *Variable) readType(declared *hcl.Attribute, source []byte) bool {
	text := string(declared.Expr.Range().SliceBytes(source))
	expr, native := declared.Expr.(hclsyntax.Expression)
	if !native { // In JSON, the type is a string with an expression, of which the limits are not checked yet.
		text = literal(declared)
	}
	if hasPlaceholder(text) {
		return false
	}
	if v.TypeText = text; len(text) > maxTypeSize {
		return false
	}
	if !native {
		if exceededLimit(terraform.WorkspaceParameters{Module: text}) != "" {
			return false
		}
		var diags hcl.Diagnostics
		if expr, diags = hclsyntax.ParseExpression([]byte(text), "main.tf.json", hcl.InitialPos); diags.HasErrors() {
			return false
		}
	}
	switch hcl.ExprAsKeyword(expr) {
	case "list": // As before Terraform 0.12.
		v.constraint = cty.List(cty.DynamicPseudoType)
		return true
	case "map":
		v.constraint = cty.Map(cty.DynamicPseudoType)
		return true
	}
	if s := shapeOf(expr); s.unlimited || s.operations > 0 {
		return false
	}
	constraint, optional, diags := typeexpr.TypeConstraintWithDefaults(expr)
	if diags.HasErrors() {
		return false
	}
	v.constraint, v.optional = constraint, optional
	return !grows(optional)
}

// grows reports whether defaults of a type could multiply each other: a default has a list of what has defaults itself.
func grows(defaults *typeexpr.Defaults) bool {
	if defaults == nil {
		return false
	}
	for _, value := range defaults.DefaultValues {
		if err := cty.Walk(value, func(_ cty.Path, inner cty.Value) (bool, error) {
			if ty := inner.Type(); inner.IsNull() || ty.IsObjectType() || ty.IsPrimitiveType() || inner.LengthInt() == 0 ||
				ty.IsCollectionType() && ty.ElementType().IsPrimitiveType() {
				return true, nil
			}
			return false, errTooLarge
		}); err != nil {
			return true
		}
	}
	for _, child := range defaults.Children {
		if grows(child) {
			return true
		}
	}
	return false
}

// literal returns the text of an attribute that is a literal; empty for others, and for one that is missing. Other expressions are not
// evaluated: that can take very long.
func literal(attribute *hcl.Attribute) string {
	if attribute == nil {
		return ""
	}
	switch expr := attribute.Expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return textOf(expr.Val)
	case *hclsyntax.TemplateExpr:
		var text strings.Builder
		for _, part := range expr.Parts { // A heredoc has a part for each line.
			literal, ok := part.(*hclsyntax.LiteralValueExpr)
			if !ok {
				return ""
			}
			text.WriteString(textOf(literal.Val))
		}
		return text.String()
	case hclsyntax.Expression:
		return ""
	default: // In JSON, nothing is evaluated without a context.
		value, _ := expr.Value(nil)
		return textOf(value)
	}
}

// textOf returns the text of a string or bool.
func textOf(value cty.Value) string {
	switch {
	case value.IsNull() || !value.IsKnown():
		return ""
	case value.Type() == cty.Bool && value.True():
		return "true"
	case value.Type() == cty.Bool:
		return "false"
	case value.Type() == cty.String:
		return value.AsString()
	}
	return ""
}

func hasPlaceholder(text string) bool { return strings.Contains(text, placeholderMark) }

// shortened returns at most the given number of characters of a text.
func shortened(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}
