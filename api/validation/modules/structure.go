// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capt-provider/capt/api/terraform"
)

// The text of a module is not a place for values: a value must not be more than one literal, which is a string, a number or a bool. So the
// structure of a module must be the same with all other literals. Characters that are safe in a module do not ensure this: outside of
// quotes, a value can be a name or several arguments, and inside of quotes it can end a heredoc or a comment, or start an expression.

// literals replace placeholders to find out the structure of a module. With two, a placeholder that is a part of a name is recognized.
var literals = []string{"0", "1"}

// ReplacePlaceholders replaces the placeholders of a module that have a value.
func ReplacePlaceholders(text string, escaping terraform.Escaping, values map[string]string) string {
	return terraform.ReplacePlaceholders(text, escaping, func(name string) string {
		if value, ok := values[name]; ok {
			return value
		}
		return "${" + name + "}"
	})
}

// ChangingStructure returns the variables whose values would change the structure of an inline module, sorted. It returns none for a module
// that is not valid, whatever the values are, or that is too complex to be parsed.
func ChangingStructure(params terraform.WorkspaceParameters, escaping terraform.Escaping, variables map[string]string) []string {
	names := sets.List(sets.New(terraform.Placeholders(params.Module, escaping)...).Intersection(sets.KeySet(variables)))
	if params.Source != terraform.SourceInline || len(names) == 0 {
		return nil
	}
	values := make(map[string]string, len(names))
	for _, name := range names {
		values[name] = variables[name]
	}
	want, valid := structureOf(params, escaping, values, nil, "")
	same, anyValid := true, valid
	for _, literal := range literals {
		got, ok := structureOf(params, escaping, values, names, literal)
		same, anyValid = same && ok == valid && slices.Equal(got, want), anyValid || ok
	}
	if same || !anyValid {
		return nil
	}
	changing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !slices.ContainsFunc(literals, func(literal string) bool {
			got, ok := structureOf(params, escaping, values, []string{name}, literal)
			return ok != valid || !slices.Equal(got, want)
		})
	})
	if len(changing) == 0 { // None of them alone.
		return names
	}
	return changing
}

// IsUnsafe reports whether a module cannot be rendered with the values of variables.
func IsUnsafe(params terraform.WorkspaceParameters, variables map[string]string) bool {
	for name := range PlaceholdersIn(params.Module) {
		if value, ok := variables[name]; ok && !SafeInModule(value) {
			return true
		}
	}
	return len(ChangingStructure(params, terraform.EscapeKept, variables)) > 0
}

// structureOf returns the structure of a module with the values of variables, and with a literal as the value of some; false if it is not
// valid.
func structureOf(params terraform.WorkspaceParameters, escaping terraform.Escaping, values map[string]string, some []string, literal string) ([]string, bool) {
	replaced := make(map[string]string, len(values))
	for name, value := range values {
		if replaced[name] = value; slices.Contains(some, name) {
			replaced[name] = literal
		}
	}
	params.Module = ReplacePlaceholders(params.Module, escaping, replaced)
	switch {
	case exceededLimit(params) != "":
		return nil, false
	case params.InlineFormat == terraform.FormatJSON:
		return structureOfJSON(params.Module)
	}
	if _, diags := hclsyntax.ParseConfig([]byte(params.Module), "main.tf", hcl.InitialPos); diags.HasErrors() {
		return nil, false
	}
	tokens, _ := hclsyntax.LexConfig([]byte(params.Module), "main.tf", hcl.InitialPos)
	return structureOfTokens(tokens), true
}

const literalToken = "literal"

// structureOfTokens returns all tokens but the texts in quotes, in heredocs and in comments, and the values of numbers and bools.
func structureOfTokens(tokens hclsyntax.Tokens) (found []string) {
	last := func(i int) hclsyntax.TokenType {
		if i == 0 {
			return hclsyntax.TokenNil
		}
		return tokens[i-1].Type
	}
	for i, token := range tokens {
		switch text := string(token.Bytes); {
		case token.Type == hclsyntax.TokenQuotedLit, token.Type == hclsyntax.TokenStringLit:
		case token.Type == hclsyntax.TokenComment:
			found = append(found, "comment")
		case last(i) != hclsyntax.TokenDot && isLiteral(token): // After a dot, it is a name or an index.
			if n := len(found); last(i) == hclsyntax.TokenMinus && (i < 2 || !endsOperand(tokens[i-2].Type)) {
				found = found[:n-1] // A negative number.
			}
			found = append(found, literalToken)
		default:
			found = append(found, text)
		}
	}
	return found
}

func isLiteral(token hclsyntax.Token) bool {
	text := string(token.Bytes)
	return token.Type == hclsyntax.TokenNumberLit || token.Type == hclsyntax.TokenIdent && (text == "true" || text == "false")
}

// endsOperand reports whether a minus after a token subtracts.
func endsOperand(t hclsyntax.TokenType) bool {
	switch t {
	case hclsyntax.TokenIdent, hclsyntax.TokenNumberLit, hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
		return true
	default:
		return false
	}
}

// labels are the blocks that have labels, which are keys in JSON, with their number.
var labels = map[string]int{"resource": 2, "data": 2, "ephemeral": 2, "variable": 1, "output": 1, "module": 1, "provider": 1, "check": 1}

// structureOfJSON returns the structure of a module in JSON; false if it is not valid. Its strings are templates. A key is a part of the
// structure, because it may be the name of an argument, unless it is the label of a block.
func structureOfJSON(text string) ([]string, bool) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var s jsonStructure
	for {
		token, err := decoder.Token()
		if err != nil {
			return s.found, errors.Is(err, io.EOF)
		}
		s.add(token)
	}
}

// jsonStructure collects the structure of a module in JSON, token by token.
type jsonStructure struct {
	found []string
	// path has the keys of the objects around a token, lists whether what is around it is a list.
	path  []string
	lists []bool
	// hasKey is true between a key and its value.
	hasKey bool
}

func (s *jsonStructure) add(token json.Token) {
	text, isString := token.(string)
	if isString && !s.hasKey && len(s.lists) > 0 && !s.lists[len(s.lists)-1] {
		s.key(text)
		return
	}
	s.hasKey = false
	switch token := token.(type) {
	case json.Delim:
		s.delimiter(token)
	case string:
		s.found = append(s.found, structureOfTemplate(text)...)
	case nil:
		s.found = append(s.found, "null")
	default:
		s.found = append(s.found, literalToken)
	}
}

func (s *jsonStructure) key(name string) {
	s.hasKey, s.path[len(s.path)-1] = true, name
	if depth := len(s.path) - 1; depth == 0 || depth > labels[s.path[0]] {
		s.found = append(s.found, name)
	}
}

func (s *jsonStructure) delimiter(delimiter json.Delim) {
	s.found = append(s.found, delimiter.String())
	last := len(s.lists) - 1
	switch delimiter {
	case '{':
		s.path, s.lists = append(s.path, ""), append(s.lists, false)
	case '[':
		s.lists = append(s.lists, true)
	case '}':
		s.path, s.lists = s.path[:len(s.path)-1], s.lists[:last]
	default:
		s.lists = s.lists[:last]
	}
}

func structureOfTemplate(text string) []string {
	found := []string{"string"}
	if _, diags := hclsyntax.ParseTemplate([]byte(text), "main.tf.json", hcl.InitialPos); diags.HasErrors() {
		found = []string{"text"} // Not every string is a template.
	}
	tokens, _ := hclsyntax.LexTemplate([]byte(text), "main.tf.json", hcl.InitialPos)
	return append(found, structureOfTokens(tokens)...)
}
