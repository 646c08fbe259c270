// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
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
	p.Item("  "+target+":", "  "+p.Paint(output.Plain, target+":"), indent, output.Faint, step.Why+condition)
	if step.Create != nil {
		p.Change(indent, "new object", output.Value{}, output.ValueOf(step.Create))
	}
	for i := range step.Fields {
		field := &step.Fields[i]
		path := output.FieldPath(field.Path)
		if field.Element {
			path += "[]"
		}
		p.Change(indent, path, output.JSONValue(field.Before), output.JSONValue(field.After))
	}
}
