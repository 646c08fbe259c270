// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package terraform

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Limits for vpc_config. The HCL parser is recursive, and a Go program cannot recover from a stack overflow; some of its steps take
// quadratic time. Real values are far below these limits.
const (
	// maxVPCConfig is the maximum size in bytes.
	maxVPCConfig = 32 << 10
	// maxOpened is the maximum number of lists and objects.
	maxOpened = 1000
)

const (
	vpcIDVariable   = "vpc_id"
	subnetsVariable = "private_subnets"
)

const exampleVPCConfig = `vpc_id = "vpc-..." and private_subnets = ["subnet-..."]`

// CheckVPCConfig checks the value of key vpc_config in the connection Secret of a VPC. It must be a file of Terraform variables, in HCL or
// JSON, whose values are literals. The variables vpc_id and private_subnets are optional, because templates decide which variables they
// read; if set, they must be a non-empty string and a list of such strings. Errors have the line and the remedy, and never quote the
// text, which comes from a Secret.
func CheckVPCConfig(text string) error {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return fmt.Errorf("it is empty; write a file of Terraform variables, such as %s", exampleVPCConfig)
	case len(text) > maxVPCConfig:
		return fmt.Errorf("it has more than %d bytes; keep to the variables that templates of Fargate profiles read", maxVPCConfig)
	case !utf8.ValidString(text):
		return fmt.Errorf("line %d: the text is not UTF-8; write it as UTF-8", 1+slices.IndexFunc(strings.Split(text, "\n"), func(line string) bool { return !utf8.ValidString(line) }))
	}
	read := parseHCLVariables
	if trimmed[0] == '{' { // An HCL file of variables cannot begin with a brace.
		read = parseJSONVariables
	}
	variables, err := read(text)
	if err != nil {
		return err
	}
	if len(variables) == 0 {
		return fmt.Errorf("it has no variables; write %s", exampleVPCConfig)
	}
	return checkVPCVariables(variables)
}

// variable is the value of a variable, and its line in the file, counted from 1.
type variable struct {
	value cty.Value
	line  int
}

// checkVPCVariables checks vpc_id and private_subnets, if they are set.
func checkVPCVariables(variables map[string]variable) error {
	if id, ok := variables[vpcIDVariable]; ok && !isNonBlankString(id.value) {
		return fmt.Errorf(`line %d: vpc_id must be a non-empty string: write the ID of the VPC, as in vpc_id = "vpc-..."`, id.line)
	}
	subnets, ok := variables[subnetsVariable]
	if !ok {
		return nil
	}
	const advice = `write the IDs of the private subnets, as in private_subnets = ["subnet-...", "subnet-..."]`
	if subnets.value.IsNull() || !subnets.value.Type().IsTupleType() {
		return fmt.Errorf("line %d: private_subnets must be a list; %s", subnets.line, advice)
	}
	if subnets.value.LengthInt() == 0 {
		return fmt.Errorf("line %d: private_subnets is empty; %s", subnets.line, advice)
	}
	if !slices.ContainsFunc(subnets.value.AsValueSlice(), func(v cty.Value) bool { return !isNonBlankString(v) }) {
		return nil
	}
	return fmt.Errorf("line %d: private_subnets must be a list of non-empty strings; %s", subnets.line, advice)
}

func isNonBlankString(value cty.Value) bool {
	return value.Type() == cty.String && !value.IsNull() && strings.TrimSpace(value.AsString()) != ""
}

// expressionTokens are the HCL tokens that never occur in a literal. They include every token that begins a nested expression, except for
// the brackets of lists and objects, which checkComplexity counts.
var expressionTokens = map[hclsyntax.TokenType]bool{
	hclsyntax.TokenTemplateInterp: true, hclsyntax.TokenTemplateControl: true, hclsyntax.TokenOParen: true, hclsyntax.TokenBang: true,
	hclsyntax.TokenQuestion: true, hclsyntax.TokenStar: true, hclsyntax.TokenDoubleColon: true,
}

// noLiteral is the message for an expression that is not a literal, with its line.
const noLiteral = "line %d: not a literal; write the value itself: a file of Terraform variables cannot contain references or function calls"

// parseHCLVariables reads the variables of a file in HCL. Errors have the line and never quote the text.
func parseHCLVariables(text string) (map[string]variable, error) {
	if err := checkComplexity(text); err != nil {
		return nil, err
	}
	file, diags := hclsyntax.ParseConfig([]byte(text), "vpc_config", hcl.InitialPos)
	for _, diag := range diags {
		if diag.Severity == hcl.DiagError && diag.Subject != nil { // Without diag.Detail, which may quote the text.
			return nil, fmt.Errorf("line %d: %s; write each variable on a line of its own, as in %s", diag.Subject.Start.Line, diag.Summary, exampleVPCConfig)
		}
	}
	if diags.HasErrors() {
		return nil, fmt.Errorf("it is not HCL; write %s", exampleVPCConfig)
	}
	body := file.Body.(*hclsyntax.Body)
	if len(body.Blocks) > 0 {
		return nil, fmt.Errorf("line %d: a block; write variables only, as in %s", body.Blocks[0].TypeRange.Start.Line, exampleVPCConfig)
	}
	variables := map[string]variable{}
	attributes := slices.SortedFunc(maps.Values(body.Attributes), func(a, b *hclsyntax.Attribute) int { return a.SrcRange.Start.Byte - b.SrcRange.Start.Byte })
	for _, attribute := range attributes {
		value, err := literal(attribute.Expr)
		if err != nil {
			return nil, err
		}
		variables[attribute.Name] = variable{value, attribute.NameRange.Start.Line}
	}
	return variables, nil
}

// checkComplexity rejects text for which the HCL parser could overflow the stack. It checks the tokens of the parser's own lexer, so that
// brackets in strings and comments do not count.
func checkComplexity(text string) error {
	tokens, _ := hclsyntax.LexConfig([]byte(text), "vpc_config", hcl.InitialPos)
	opened, previous := 0, hclsyntax.TokenNil
	for _, token := range tokens {
		line := token.Range.Start.Line
		if token.Type == hclsyntax.TokenOBrack || token.Type == hclsyntax.TokenOBrace {
			opened++
		}
		if opened > maxOpened {
			return fmt.Errorf("line %d: more than %d lists and objects; keep to the variables that templates of Fargate profiles read", line, maxOpened)
		}
		if expressionTokens[token.Type] || previous == hclsyntax.TokenMinus && token.Type != hclsyntax.TokenNumberLit {
			return fmt.Errorf(noLiteral, line)
		}
		previous = token.Type
	}
	return nil
}

// literal returns the value of an expression without references and function calls; any other expression is an error.
func literal(expression hclsyntax.Expression) (cty.Value, error) {
	diags := hclsyntax.VisitAll(expression, func(node hclsyntax.Node) hcl.Diagnostics {
		switch node.(type) {
		case *hclsyntax.LiteralValueExpr, *hclsyntax.TemplateExpr, *hclsyntax.TupleConsExpr,
			*hclsyntax.ObjectConsExpr, *hclsyntax.ObjectConsKeyExpr, *hclsyntax.UnaryOpExpr:
			return nil
		}
		return hcl.Diagnostics{{Severity: hcl.DiagError, Subject: node.Range().Ptr()}}
	})
	if diags.HasErrors() {
		return cty.NilVal, fmt.Errorf(noLiteral, diags[0].Subject.Start.Line)
	}
	value, diags := expression.Value(nil)
	if diags.HasErrors() {
		return cty.NilVal, fmt.Errorf(noLiteral, expression.StartRange().Start.Line)
	}
	return value, nil
}

// parseJSONVariables reads the variables of a file in JSON. Errors have the line and never quote the text.
func parseJSONVariables(text string) (map[string]variable, error) {
	const advice = "correct the JSON, or write HCL, as in " + exampleVPCConfig
	var syntax *json.SyntaxError
	if err := json.Unmarshal([]byte(text), &map[string]json.RawMessage{}); errors.As(err, &syntax) {
		return nil, fmt.Errorf("line %d: not JSON; %s", lineOf(text, int(syntax.Offset)-1), advice)
	}
	variables := map[string]variable{}
	decoder := json.NewDecoder(strings.NewReader(text))
	_, err := decoder.Token() // The opening brace.
	for err == nil && decoder.More() {
		var name json.Token
		var raw json.RawMessage
		name, err = decoder.Token()
		line := lineOf(text, int(decoder.InputOffset())-1)
		if err == nil {
			err = decoder.Decode(&raw)
		}
		key, _ := name.(string)
		if _, again := variables[key]; again {
			return nil, fmt.Errorf("line %d: the variable is set twice; remove one", line)
		}
		variables[key] = variable{jsonValue(raw), line}
	}
	if err != nil {
		return nil, errors.New("it is not valid JSON; " + advice)
	}
	return variables, nil
}

// jsonValue returns a string or a list, and null for any other value: checkVPCVariables accepts only strings and lists.
func jsonValue(raw json.RawMessage) cty.Value {
	var text *string
	if json.Unmarshal(raw, &text) == nil && text != nil {
		return cty.StringVal(*text)
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	elements := make([]cty.Value, len(list))
	for i, element := range list {
		elements[i] = cty.NullVal(cty.String)
		if json.Unmarshal(element, &text) == nil && text != nil {
			elements[i] = cty.StringVal(*text)
		}
	}
	return cty.TupleVal(elements)
}

// lineOf returns the line, counted from 1, of a byte offset.
func lineOf(text string, offset int) int {
	return 1 + strings.Count(text[:max(0, min(offset, len(text)))], "\n")
}
