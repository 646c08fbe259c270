// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"encoding/json"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
)

// Declarations are the variables and outputs that an inline module declares.
type Declarations struct {
	// Variables has the names of the variables; the value is true if the variable has a default.
	Variables map[string]bool
	// Outputs has the names of the outputs; the value is true if the output has the literal sensitive = true.
	Outputs map[string]bool
	// Incomplete is true when a placeholder is part of a name, so that not every name is known.
	Incomplete bool
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
)

// Declarations returns the declarations of a module; nil when the module could not be parsed.
func (r *Parsed) Declarations() *Declarations {
	if !r.IsValid() {
		return nil
	}
	content, _, _ := r.file.Body.PartialContent(blocks) // Terraform reports invalid blocks.
	d := &Declarations{Variables: map[string]bool{}, Outputs: map[string]bool{}}
	for _, block := range content.Blocks {
		inner, _, _ := block.Body.PartialContent(attributes)
		name := block.Labels[0]
		d.Incomplete = d.Incomplete || strings.Contains(name, placeholderMark)
		if block.Type == "output" {
			d.Outputs[name] = isLiteralTrue(inner.Attributes["sensitive"])
			continue
		}
		_, d.Variables[name] = inner.Attributes["default"]
	}
	return d
}

// OutputsOf returns the outputs that the inline module of a template declares; nil if not all are known.
func OutputsOf(template *infrav1.WorkspaceTemplate) map[string]bool {
	params := template.Spec.Template.Spec.ForProvider
	if params.Source != terraform.SourceInline {
		return nil
	}
	module := ParseTemplate(&template.Spec).Declarations()
	if module == nil || module.Incomplete {
		return nil
	}
	return module.Outputs
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

// VarMap returns the Terraform variables of forProvider.varmap, as JSON.
func VarMap(params terraform.WorkspaceParameters) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	if params.VarMap == nil || json.Unmarshal(params.VarMap.Raw, &values) != nil {
		return nil // The schema of the CRD accepts only JSON objects.
	}
	return values
}
