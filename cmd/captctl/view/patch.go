// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

// Package view shows findings to people. It decides nothing.
package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/cmd/captctl/output"
)

// fieldValue is the value of a field as YAML; empty if the field is not there. A block is put below the name of the field.
type fieldValue struct {
	text  string
	block bool
}

// several tells whether it has more lines than one.
func (v fieldValue) several() bool { return strings.Contains(v.text, "\n") }

// raw is a JSON value as YAML.
func raw(document json.RawMessage) fieldValue {
	text, err := yaml.JSONToYAML(document)
	switch {
	case len(document) == 0:
		return fieldValue{}
	case err != nil:
		return fieldValue{text: string(document)}
	}
	first := bytes.TrimSpace(document)[0]
	return fieldValue{text: strings.TrimSuffix(string(text), "\n"), block: len(document) > 2 && (first == '{' || first == '[')}
}

// value is a value as YAML; text of several lines is left as it is.
func value(of any) fieldValue {
	if of == nil {
		return fieldValue{}
	}
	if text, ok := of.(string); ok && strings.Contains(text, "\n") {
		return fieldValue{text: strings.TrimSuffix(text, "\n"), block: true}
	}
	document, err := json.Marshal(of)
	if err != nil {
		return fieldValue{text: fmt.Sprint(of)}
	}
	return raw(document)
}

// change shows a field before and after. Of two long texts only the lines that differ are shown, with some around them.
func change(p *output.Printer, indent, field string, before, after fieldValue) {
	if before.several() && after.several() {
		p.Linef("%s  %s:", indent, p.Paint(output.Plain, field))
		lines(p, indent, before.text, after.text)
		return
	}
	side(p, indent, "- ", output.Bad, field, before)
	side(p, indent, "+ ", output.Good, field, after)
}

func side(p *output.Printer, indent, sign string, style output.Style, field string, v fieldValue) {
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

func lines(p *output.Printer, indent, before, after string) {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: difflib.SplitLines(before), B: difflib.SplitLines(after), Context: 2})
	if err != nil {
		text = "-" + before + "\n+" + after
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		style := output.Plain
		switch {
		case strings.HasPrefix(line, "-"):
			style = output.Bad
		case strings.HasPrefix(line, "+"):
			style = output.Good
		case strings.HasPrefix(line, "@@"):
			style = output.Faint
		}
		p.Linef("%s%s", indent, p.Paint(style, line))
	}
}

// count is "1 object" or "2 objects".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
