// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"fmt"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/capt-provider/capt/api/terraform"
)

// Limits for inline modules. The HCL parsers are recursive, and a Go program cannot recover from a stack overflow; some of their steps take
// quadratic time. Real modules are far below these limits.
const (
	// maxDepth is the maximum depth of nested brackets, blocks, strings and templates, and the maximum length of a sequence of unary
	// operators.
	maxDepth = 200
	// maxChained is the maximum number of each construct that can nest without a bracket: conditionals, splats, template directives and
	// namespaces of functions. Only the parser knows where a chain of them ends, so all in the module are counted. The stack is large
	// enough for this number.
	maxChained      = 10000
	maxNumberLength = 1000
)

const (
	tooDeep    = "line %d: nested more than %d levels deep"
	tooLong    = "line %d: a number of more than %d characters"
	tooMany    = "line %d: the module has more than %d %s up to here"
	noText     = "line %d: the text is not UTF-8"
	unreadable = "line %d: HCL combines the character %U with the next one; write it as a JSON escape sequence"
)

// exceededLimit returns why an inline module is too complex to be parsed; empty if it is not. It reads only the tokens, which takes little
// stack and linear time.
func exceededLimit(params terraform.WorkspaceParameters) string {
	if params.InlineFormat == terraform.FormatJSON {
		return (&jsonScanner{text: params.Module, line: 1}).exceededLimit()
	}
	// The parser uses the same lexer, so both agree on where strings and comments end, and brackets within them do not count.
	tokens, _ := hclsyntax.LexConfig([]byte(params.Module), "main.tf", hcl.InitialPos)
	counter := tokenCounter{chained: map[string]int{}}
	for i := range tokens {
		if found := counter.add(&tokens[i]); found != "" {
			return found
		}
	}
	return ""
}

// closers maps opening tokens to their closing tokens.
var closers = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
	hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
	hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
	hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
	hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
	hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

// tokenCounter counts the tokens of a module in HCL native syntax.
type tokenCounter struct {
	// open are the opening tokens that are not closed yet.
	open []hclsyntax.TokenType
	// unary is the length of the current sequence of unary operators.
	unary int
	// chained counts the constructs that can nest without a bracket, by their names.
	chained  map[string]int
	previous hclsyntax.TokenType
}

// add counts a token. It returns which limit the module exceeds with it; empty if none.
func (w *tokenCounter) add(token *hclsyntax.Token) string {
	kind, line := token.Type, token.Range.Start.Line
	if kind == hclsyntax.TokenNewline || kind == hclsyntax.TokenComment {
		return "" // They may occur between any other tokens.
	}
	if kind == hclsyntax.TokenBang || kind == hclsyntax.TokenMinus {
		w.unary++
	} else {
		w.unary = 0
	}
	w.nest(kind)
	construct := chainOf(kind, w.previous)
	w.previous = kind
	switch {
	case len(w.open) > maxDepth || w.unary > maxDepth:
		return fmt.Sprintf(tooDeep, line, maxDepth)
	case kind == hclsyntax.TokenNumberLit && len(token.Bytes) > maxNumberLength:
		return fmt.Sprintf(tooLong, line, maxNumberLength)
	case construct == "":
		return ""
	}
	if w.chained[construct]++; w.chained[construct] > maxChained {
		return fmt.Sprintf(tooMany, line, maxChained, construct)
	}
	return ""
}

// nest updates the open tokens. A closing token that does not match the last opening token is ignored, so that for an invalid module the
// count is never lower than the depth of the parser.
func (w *tokenCounter) nest(kind hclsyntax.TokenType) {
	if _, opens := closers[kind]; opens {
		w.open = append(w.open, kind)
		return
	}
	if last := len(w.open) - 1; last >= 0 && closers[w.open[last]] == kind {
		w.open = w.open[:last]
	}
}

// chainOf returns the name of the construct that a token belongs to, if the construct can nest without a bracket; empty for other tokens.
func chainOf(kind, previous hclsyntax.TokenType) string {
	switch {
	case kind == hclsyntax.TokenQuestion:
		return "conditionals"
	case kind == hclsyntax.TokenStar && previous == hclsyntax.TokenOBrack:
		return "splats"
	case kind == hclsyntax.TokenTemplateControl:
		return "template directives"
	case kind == hclsyntax.TokenDoubleColon:
		return "namespaces of functions"
	}
	return ""
}

// jsonScanner reads a module in JSON in the same way as the scanner of HCL.
type jsonScanner struct {
	text string
	// line is the current line, counted from 1.
	line int
	// open are the closing brackets that are still expected.
	open []byte
}

func (w *jsonScanner) exceededLimit() string {
	digits := 0
	for i := 0; i < len(w.text); i++ {
		digits++
		switch c := w.text[i]; c {
		case '"':
			end, found := w.skipString(i + 1)
			if found != "" {
				return found
			}
			i, digits = end-1, 0
		case '[', '{':
			w.open, digits = append(w.open, c+2), 0 // In ASCII, "]" and "}" are two after "[" and "{".
		case ']', '}':
			if last := len(w.open) - 1; last >= 0 && w.open[last] == c {
				w.open = w.open[:last]
			}
			digits = 0
		case '\n':
			w.line++
			digits = 0
		case ' ', '\t', '\r', ',', ':':
			digits = 0
		}
		if len(w.open) > maxDepth {
			return fmt.Sprintf(tooDeep, w.line, maxDepth)
		}
		if digits > maxNumberLength { // A keyword is counted as well: true, false and null are short.
			return fmt.Sprintf(tooLong, w.line, maxNumberLength)
		}
	}
	return ""
}

// skipString returns the offset where a string ends according to HCL: after a quote, or before a control character. found is the reason
// why the text cannot be read; empty if it can.
func (w *jsonScanner) skipString(from int) (end int, found string) {
	escaping := false
	for i := from; i < len(w.text); {
		c, size := utf8.DecodeRuneInString(w.text[i:])
		i += size
		switch {
		case c == '\\':
			escaping = !escaping
			continue
		case c == '"' && !escaping:
			return i, ""
		case c < ' ':
			return i - size, ""
		case c == utf8.RuneError && size == 1:
			return i, fmt.Sprintf(noText, w.line)
		case isPrepended(c) && i < len(w.text) && (w.text[i] == '"' || w.text[i] == '\\'):
			return i, fmt.Sprintf(unreadable, w.line, c)
		}
		escaping = false
	}
	return len(w.text), ""
}

// isPrepended reports whether a character may form one grapheme with the next character (the Unicode property Prepend). HCL searches the
// end of a string between graphemes, so a quote after such a character does not end the string. The ranges are the Unicode blocks with such
// characters.
func isPrepended(c rune) bool {
	return c >= 0x0600 && c <= 0x0605 || c == 0x06DD || c == 0x070F || c >= 0x0890 && c <= 0x0891 || c == 0x08E2 || c == 0x0D4E ||
		c >= 0x11000 && c <= 0x11FFF
}
