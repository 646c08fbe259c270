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

// The parsers of HCL call themselves for whatever is within something else, and a program whose stack overflows ends,
// without a chance to recover. Some of what they do takes time by the square of a length. Real modules stay far below
// all of these bounds.
const (
	// deepest is how many brackets, blocks, strings and templates may be open at once, and how many unary operators may
	// follow each other.
	deepest = 200
	// most is how many there may be in a module of each kind of thing that can hold the next one without a bracket:
	// conditionals, splats, template directives and namespaces of functions. Where a chain of them ends only the parser
	// knows, so all are counted. The stack holds this many.
	most = 10000
	// longestNumber is how many characters a number may have.
	longestNumber = 1000
)

const (
	tooDeep    = "line %d: nested more than %d levels deep"
	tooLong    = "line %d: a number of more than %d characters"
	tooMany    = "line %d: the module has more than %d %s up to here"
	noText     = "line %d: the text is not UTF-8"
	unreadable = "line %d: HCL combines the character %U with the next one; write it as a JSON escape sequence"
)

// excess returns why an inline module is too complex to be parsed, or an empty string. It only looks at the tokens, which needs
// little stack and time.
func excess(params terraform.WorkspaceParameters) string {
	if params.InlineFormat == terraform.FormatJSON {
		return (&jsonWords{text: params.Module, line: 1}).excess()
	}
	// The lexer is the one of the parser, for what is within a string or a comment must be the same to both: a closing
	// bracket there closes nothing.
	tokens, _ := hclsyntax.LexConfig([]byte(params.Module), "main.tf", hcl.InitialPos)
	words := words{seen: map[string]int{}}
	for i := range tokens {
		if found := words.add(&tokens[i]); found != "" {
			return found
		}
	}
	return ""
}

// closers are the words that end what others begin.
var closers = map[hclsyntax.TokenType]hclsyntax.TokenType{
	hclsyntax.TokenOBrace:          hclsyntax.TokenCBrace,
	hclsyntax.TokenOBrack:          hclsyntax.TokenCBrack,
	hclsyntax.TokenOParen:          hclsyntax.TokenCParen,
	hclsyntax.TokenOQuote:          hclsyntax.TokenCQuote,
	hclsyntax.TokenOHeredoc:        hclsyntax.TokenCHeredoc,
	hclsyntax.TokenTemplateInterp:  hclsyntax.TokenTemplateSeqEnd,
	hclsyntax.TokenTemplateControl: hclsyntax.TokenTemplateSeqEnd,
}

// words are those of native HCL.
type words struct {
	open     []hclsyntax.TokenType
	unary    int
	seen     map[string]int
	previous hclsyntax.TokenType
}

func (w *words) add(token *hclsyntax.Token) string {
	kind, line := token.Type, token.Range.Start.Line
	if kind == hclsyntax.TokenNewline || kind == hclsyntax.TokenComment {
		return "" // They may stand between any others.
	}
	if kind == hclsyntax.TokenBang || kind == hclsyntax.TokenMinus {
		w.unary++
	} else {
		w.unary = 0
	}
	w.nest(kind)
	chained := chainOf(kind, w.previous)
	w.previous = kind
	switch {
	case len(w.open) > deepest || w.unary > deepest:
		return fmt.Sprintf(tooDeep, line, deepest)
	case kind == hclsyntax.TokenNumberLit && len(token.Bytes) > longestNumber:
		return fmt.Sprintf(tooLong, line, longestNumber)
	case chained == "":
		return ""
	}
	if w.seen[chained]++; w.seen[chained] > most {
		return fmt.Sprintf(tooMany, line, most, chained)
	}
	return ""
}

// nest counts what is open. A closer that fits nothing is ignored: where a module is wrong, the parser may be deeper in
// it than the brackets say, but never deeper than this.
func (w *words) nest(kind hclsyntax.TokenType) {
	if _, opens := closers[kind]; opens {
		w.open = append(w.open, kind)
		return
	}
	if last := len(w.open) - 1; last >= 0 && closers[w.open[last]] == kind {
		w.open = w.open[:last]
	}
}

// chainOf names the kind of chain that a word lengthens.
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

// jsonWords are those of JSON, as HCL scans it.
type jsonWords struct {
	text string
	line int
	open []byte
}

func (w *jsonWords) excess() string {
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
			w.open, digits = append(w.open, c+2), 0 // "]" and "}" are two after "[" and "{".
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
		if len(w.open) > deepest {
			return fmt.Sprintf(tooDeep, w.line, deepest)
		}
		if digits > longestNumber { // Or a word, of which JSON has three.
			return fmt.Sprintf(tooLong, w.line, longestNumber)
		}
	}
	return ""
}

// skipString returns where a string ends, in the eyes of HCL: after a quote, or before a control character.
func (w *jsonWords) skipString(from int) (end int, found string) {
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
		case joins(c) && i < len(w.text) && (w.text[i] == '"' || w.text[i] == '\\'):
			return i, fmt.Sprintf(unreadable, w.line, c)
		}
		escaping = false
	}
	return len(w.text), ""
}

// joins reports whether a character may make one grapheme with any that follows, which Unicode calls Prepend. HCL looks
// for the end of a string between graphemes, so that a quote after such a character ends nothing. These are the blocks
// that have them.
func joins(c rune) bool {
	return c >= 0x0600 && c <= 0x0605 || c == 0x06DD || c == 0x070F || c >= 0x0890 && c <= 0x0891 || c == 0x08E2 || c == 0x0D4E ||
		c >= 0x11000 && c <= 0x11FFF
}
