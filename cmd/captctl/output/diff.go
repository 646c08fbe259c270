// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"
)

// Value is the value of a field as YAML; empty if the field is not there. A block is put below the name of the field.
type Value struct {
	text  string
	block bool
}

// several reports whether it has more than one line.
func (v Value) several() bool { return strings.Contains(v.text, "\n") }

// JSONValue is a JSON value as YAML.
func JSONValue(document json.RawMessage) Value {
	text, err := yaml.JSONToYAML(document)
	switch {
	case len(document) == 0:
		return Value{}
	case err != nil:
		return Value{text: string(document)}
	}
	first := bytes.TrimSpace(document)[0]
	return Value{text: strings.TrimSuffix(string(text), "\n"), block: len(document) > 2 && (first == '{' || first == '[')}
}

// ValueOf is a value as YAML; text of several lines is left as it is.
func ValueOf(of any) Value {
	if of == nil {
		return Value{}
	}
	if text, ok := of.(string); ok && strings.Contains(text, "\n") {
		return Value{text: strings.TrimSuffix(text, "\n"), block: true}
	}
	document, err := json.Marshal(of)
	if err != nil {
		return Value{text: fmt.Sprint(of)}
	}
	return JSONValue(document)
}

// Change shows a field before and after. Of two long texts only the lines that differ are shown, with some around them.
func (p *Printer) Change(indent, field string, before, after Value) {
	if before.several() && after.several() {
		p.Linef("%s  %s:", indent, p.Paint(Plain, field))
		p.lines(indent, before.text, after.text)
		return
	}
	p.side(indent, "- ", Bad, field, before)
	p.side(indent, "+ ", Good, field, after)
}

func (p *Printer) side(indent, sign string, style Style, field string, v Value) {
	switch {
	case v.text == "":
	case v.block:
		p.Linef("%s%s", indent, p.Paint(style, sign+field+":"))
		for _, line := range strings.Split(v.text, "\n") {
			p.Linef("%s%s", indent, p.Paint(style, sign+"  "+line))
		}
	default:
		p.Linef("%s%s", indent, p.Paint(style, sign+field+": "+v.text))
	}
}

func (p *Printer) lines(indent, before, after string) {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(after), Context: 2})
	if err != nil {
		text = "-" + before + "\n+" + after
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		style := Plain
		switch {
		case strings.HasPrefix(line, "-"):
			style = Bad
		case strings.HasPrefix(line, "+"):
			style = Good
		case strings.HasPrefix(line, "@@"):
			style = Faint
		}
		p.Linef("%s%s", indent, p.Paint(style, line))
	}
}

// FieldPath is a JSON pointer as YAML users write paths, for example metadata.annotations["a/b"].
func FieldPath(pointer string) string {
	var b strings.Builder
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		if strings.ContainsAny(part, "./") {
			b.WriteString("[" + strconv.Quote(part) + "]")
		} else {
			b.WriteString("." + part)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}
