// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"sigs.k8s.io/yaml"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate/plan"
)

// Diff shows every step of a plan: each field before and after.
func Diff(p *output.Printer, of *plan.Plan) {
	first := true
	for i := range of.Units {
		unit := &of.Units[i]
		steps := unit.Steps
		if len(steps) == 0 && unit.Endpoint == nil {
			continue
		}
		if !first {
			p.Blank()
		}
		first = false
		p.Linef("%s", p.Paint(output.Strong, unit.Name()))
		for j := range steps {
			showStep(p, &steps[j], "")
		}
		if unit.Endpoint != nil {
			showStep(p, unit.Endpoint, ", only with --fix-cluster-endpoints")
		}
	}
	if first {
		p.Linef("Plan %s writes nothing.", p.Paint(output.Strong, of.ID))
	}
}

func showStep(p *output.Printer, step *plan.Step, condition string) {
	const indent = "    "
	target := step.Object.String()
	if step.Subresource != "" {
		target += " (" + step.Subresource + ")"
	}
	p.Linef("  %s: %s", p.Paint(output.Plain, target), p.Paint(output.Faint, step.Why+condition))
	if step.Create != nil {
		side(p, indent, "+ ", output.Good, "new object", value(step.Create))
	}
	for i := range step.Fields {
		field := &step.Fields[i]
		path := fieldPath(field.Path)
		if field.Element {
			path += "[]"
		}
		change(p, indent, path, raw(field.Before), raw(field.After))
	}
}

// fieldValue is the value of a field as YAML; empty if the field is not there. A block is put below the name of the field.
type fieldValue struct {
	text  string
	block bool
}

// several reports whether it has more than one line.
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

// fieldPath is a JSON pointer as YAML users write paths, for example metadata.annotations["a/b"].
func fieldPath(pointer string) string {
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
