// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"k8s.io/apimachinery/pkg/util/sets"
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

	code func() (string, sets.Set[string])
}

// Variable is a variable that a module declares.
type Variable struct {
	Name, Description string
	// Line of the module with the declaration, counted from 1.
	Line int
	// TypeText is the type as the module has it, for example list(string); empty if it declares none, or if the type has a placeholder.
	TypeText string
	// HasDefault is true if the module has a value for it. Default is its source text, shortened; empty for a sensitive variable, or if
	// the text has a placeholder.
	HasDefault bool
	Default    string

	Nullable, Sensitive bool

	// constraint is the type; any value is valid if it is not known.
	constraint cty.Type
	// conditions are the validations that can be evaluated here.
	conditions []condition
}

var (
	blocks = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "variable", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
	}}
	// parts are those of variables, outputs and validations.
	parts = &hcl.BodySchema{
		Attributes: []hcl.AttributeSchema{
			{Name: "description"}, {Name: "type"}, {Name: "default"}, {Name: "nullable"}, {Name: "sensitive"}, {Name: "condition"}, {Name: "error_message"},
		},
		Blocks: []hcl.BlockHeaderSchema{{Type: "validation"}},
	}
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
		found.code = sync.OnceValues(r.codeOf)
	}
	declarations.Add(key, found)
	return found
}

// variableReferences matches references to Terraform variables in a module.
var variableReferences = regexp.MustCompile(`\bvar\s*\.\s*([A-Za-z_][A-Za-z0-9_-]*)`)

// Code returns a module with spaces in place of comments, and the names of the variables to which it refers.
func (r *Parsed) Code() (text string, variables sets.Set[string]) {
	if d := r.Declarations(); d != nil {
		return d.code()
	}
	return r.codeOf()
}

func (r *Parsed) codeOf() (text string, variables sets.Set[string]) {
	text, variables = r.withoutComments(), sets.New[string]()
	for _, match := range variableReferences.FindAllStringSubmatch(text, -1) {
		variables.Insert(match[1])
	}
	return text, variables
}

// withoutComments returns the text with spaces in place of comments. JSON has no comments.
func (r *Parsed) withoutComments() string {
	if r.format == terraform.FormatJSON {
		return r.text
	}
	module := []byte(r.text)
	tokens, _ := hclsyntax.LexConfig([]byte(r.text), "main.tf", hcl.InitialPos)
	for i := range tokens {
		if tokens[i].Type == hclsyntax.TokenComment {
			for at := tokens[i].Range.Start.Byte; at < tokens[i].Range.End.Byte; at++ {
				module[at] = ' '
			}
		}
	}
	return string(module)
}

func declarationsOf(file *hcl.File) *Declarations {
	content, _, _ := file.Body.PartialContent(blocks) // Terraform reports invalid blocks.
	d := &Declarations{Variables: map[string]*Variable{}, Outputs: map[string]bool{}}
	for _, block := range content.Blocks {
		name := block.Labels[0]
		d.Incomplete = d.Incomplete || hasPlaceholder(name)
		if block.Type == "output" {
			inner, _, _ := block.Body.PartialContent(parts)
			d.Outputs[name] = literal(inner.Attributes["sensitive"]) == "true"
		} else if d.Variables[name] == nil { // Terraform reports the second declaration.
			d.Variables[name] = variableOf(block, file.Bytes)
		}
	}
	return d
}

const (
	// maxDefaultLength and maxMessageLength are the maximum lengths of a default and of the error_message of a validation, in characters.
	maxDefaultLength = 60
	maxMessageLength = 500
	// maxTypeSize is the maximum size of a type, in bytes. Longer ones are not read.
	maxTypeSize = 32 << 10
)

func variableOf(block *hcl.Block, source []byte) *Variable {
	inner, _, _ := block.Body.PartialContent(parts)
	v := &Variable{
		Name:        block.Labels[0],
		Line:        block.DefRange.Start.Line,
		Description: literal(inner.Attributes["description"]),
		Nullable:    literal(inner.Attributes["nullable"]) != "false",
		Sensitive:   inner.Attributes["sensitive"] != nil && literal(inner.Attributes["sensitive"]) != "false",
		constraint:  cty.DynamicPseudoType,
	}
	evaluable := true
	if declared := inner.Attributes["type"]; declared != nil {
		text := textOf(declared, source)
		if _, native := declared.Expr.(hclsyntax.Expression); !native {
			text = literal(declared)
		}
		evaluable = v.readType(text)
	}
	if value := inner.Attributes["default"]; value != nil {
		v.HasDefault = true
		if text := textOf(value, source); !v.Sensitive && !hasPlaceholder(text) {
			v.Default = shortened(strings.Join(strings.Fields(text), " "), maxDefaultLength)
		}
	}
	for _, validation := range inner.Blocks {
		if c := conditionOf(validation, v.Name, source); c != nil && evaluable {
			v.conditions = append(v.conditions, *c)
		}
	}
	return v
}

// readType reads the type of a variable. It reports whether validations can be evaluated for its values: the defaults of attributes, which could
// multiply each other, are not applied.
func (v *Variable) readType(text string) bool {
	if hasPlaceholder(text) {
		return false
	}
	v.TypeText = text
	if text == "list" || text == "map" { // As before Terraform 0.12.
		text += "(any)"
	}
	if len(text) > maxTypeSize || exceededLimit(terraform.WorkspaceParameters{Module: text}) != "" { // In JSON, it is not checked yet.
		return false
	}
	expr, diags := hclsyntax.ParseExpression([]byte(text), "main.tf", hcl.InitialPos)
	if diags.HasErrors() || !isConstant(expr) {
		return false
	}
	constraint, defaults, diags := typeexpr.TypeConstraintWithDefaults(expr)
	if diags.HasErrors() {
		return false
	}
	v.constraint = constraint
	return defaults == nil
}

// literal returns a string or bool as text; empty for an attribute that is another expression, or that is missing.
func literal(attribute *hcl.Attribute) string {
	if attribute == nil {
		return ""
	}
	if expr, native := attribute.Expr.(hclsyntax.Expression); native && !isConstant(expr) {
		return ""
	}
	value, diags := attribute.Expr.Value(nil) // In JSON, nothing is evaluated without a context.
	if ty := value.Type(); diags.HasErrors() || ty != cty.String && ty != cty.Bool {
		return ""
	}
	if value, _ = convert.Convert(value, cty.String); value.IsNull() {
		return ""
	}
	return value.AsString()
}

func textOf(attribute *hcl.Attribute, source []byte) string {
	return string(attribute.Expr.Range().SliceBytes(source))
}

func hasPlaceholder(text string) bool { return strings.Contains(text, placeholderMark) }

// shortened returns at most a number of characters of a text.
func shortened(text string, length int) string {
	if runes := []rune(text); len(runes) > length {
		return string(runes[:length-1]) + "…"
	}
	return text
}
