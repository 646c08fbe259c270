/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

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
	"github.com/capt-provider/capt/migrate"
)

// fieldValue is the value of a field as YAML; empty if the field is not there. A block is put below the name of the field.
type fieldValue struct {
	text  string
	block bool
}

// several tells whether it has more lines than one.
func (v fieldValue) several() bool { return strings.Contains(v.text, "\n") }

// Diff shows every patch of a plan as what the fields hold before and after it.
func Diff(p *output.Printer, plan *migrate.Plan) {
	for _, step := range plan.Grants {
		p.Blank()
		showStep(p, "", step)
	}
	for _, unit := range plan.Units {
		p.Blank()
		p.Linef("%s", p.Paint(output.Strong, unit.Owner.String()))
		for _, step := range unit.Steps {
			showStep(p, "  ", step)
		}
	}
	if len(plan.Storage) == 0 {
		return
	}
	p.Blank()
	p.Linef("%s in %s without a change of spec or status:", count(len(plan.Storage), "object"), migrate.Version)
	for _, item := range plan.Storage {
		p.Linef("  %s", p.Paint(output.Plain, item.String()))
		for _, owner := range item.OwnerReferences {
			if migrate.IsOlder(owner.APIVersion) {
				group, _, _ := strings.Cut(owner.APIVersion, "/")
				change(p, "    ", "apiVersion of owner "+owner.Kind+" "+owner.Name,
					fieldValue{text: owner.APIVersion}, fieldValue{text: group + "/" + migrate.Version})
			}
		}
	}
}

func showStep(p *output.Printer, indent string, step migrate.Step) {
	target := step.Object.String()
	if step.Subresource != "" {
		target += " (" + step.Subresource + ")"
	}
	p.Linef("%s%s: %s", indent, p.Paint(output.Plain, target), p.Paint(output.Faint, step.Why))
	if step.Create != nil {
		side(p, indent+"  ", "+ ", output.Good, "the object", raw(step.Create))
	}
	for _, operation := range step.Patch {
		if operation.Op != "test" {
			change(p, indent+"  ", fieldPath(operation.Path), before(step, operation), after(operation))
		}
	}
}

func after(operation migrate.Operation) fieldValue {
	if operation.Op == "remove" {
		return fieldValue{}
	}
	return raw(operation.Value)
}

// before is what the field held when the plan was made: the inverse writes it, or the patch tests for it.
func before(step migrate.Step, operation migrate.Operation) fieldValue {
	for _, inverse := range step.Inverse {
		if inverse.Path == operation.Path && (inverse.Op == "add" || inverse.Op == "replace") {
			return raw(inverse.Value)
		}
	}
	for _, other := range step.Patch {
		if other.Path == operation.Path && other.Op == "test" && operation.Op != "add" {
			return raw(other.Value)
		}
	}
	return fieldValue{}
}

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

// fieldPath is a JSON pointer as people write paths: spec.list[0].name, and list[+] for what is appended.
func fieldPath(pointer string) string {
	var b strings.Builder
	for _, part := range parts(pointer) {
		_, err := strconv.Atoi(part)
		switch {
		case part == "-":
			b.WriteString("[+]")
		case err == nil:
			b.WriteString("[" + part + "]")
		case strings.ContainsAny(part, "./"):
			b.WriteString("[" + strconv.Quote(part) + "]")
		default:
			b.WriteString("." + part)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// shortPath is a fieldPath without spec, status or metadata before it, and without an index behind it.
func shortPath(pointer string) string {
	_, short, found := strings.Cut(pointer, "/")
	if _, below, ok := strings.Cut(short, "/"); found && ok {
		short = below
	}
	all := strings.Split(short, "/")
	for len(all) > 1 && (all[len(all)-1] == "-" || strings.Trim(all[len(all)-1], "0123456789") == "") {
		all = all[:len(all)-1]
	}
	return fieldPath("/" + strings.Join(all, "/"))
}

func parts(pointer string) []string {
	all := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := range all {
		all[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(all[i])
	}
	return all
}
