// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/capt-provider/capt/api/changes"
	"github.com/capt-provider/capt/cmd/captctl/output"
)

// mostNames is how many Workspaces with the same changes are listed without -o wide.
const mostNames = 5

// show prints the Workspaces that would change or cannot, those with the same changes together.
func show(p *output.Printer, diff *Diff) {
	groups := map[string][]*changes.Workspace{}
	var order []string
	blocked := 0
	for i := range diff.Workspaces {
		w := &diff.Workspaces[i]
		if w.Action == changes.ActionBlocked {
			blocked++
		}
		if w.Action == changes.ActionNone {
			continue
		}
		fields, _ := json.Marshal(w.Changes) // They were read from JSON.
		key := fmt.Sprintf("%s\n%s\n%s", w.Action, w.Message, fields)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], w)
	}
	for _, key := range order {
		showGroup(p, groups[key])
		p.Blank()
	}
	text := diff.summary()
	if blocked > 0 {
		text += fmt.Sprintf(", %d %s not written", blocked, map[bool]string{true: "is", false: "are"}[blocked == 1])
	}
	if diff.Unreadable > 0 {
		text += fmt.Sprintf(", %d cannot be compared", diff.Unreadable)
	}
	if diff.Invalid > 0 {
		text += fmt.Sprintf(", %d cannot be rendered", diff.Invalid)
	}
	p.Linef("%s", text)
}

// showGroup prints Workspaces with the same changes.
func showGroup(p *output.Printer, group []*changes.Workspace) {
	const indent = "    "
	sign, style := map[changes.Action]string{changes.ActionCreate: "+", changes.ActionUpdate: "~", changes.ActionDestroy: "-"}[group[0].Action], output.Attention
	switch group[0].Action {
	case changes.ActionCreate:
		style = output.Good
	case changes.ActionDestroy, changes.ActionInvalid, changes.ActionUnreadable:
		style = output.Bad
	default:
	}
	if sign == "" {
		sign = "!"
	}
	for i, w := range group {
		if i == mostNames && !p.Wide() {
			p.Linef("%s", p.Paint(style, fmt.Sprintf("%s and %d more (-o wide lists all)", sign, len(group)-i)))
			break
		}
		of := ""
		if w.Cluster != "" {
			of = "of Cluster " + w.Cluster + " "
		}
		label := sign + " " + label(w)
		p.Item(label, p.Paint(style, label), indent, output.Plain, of+"(WorkspaceTemplate "+w.Template+")")
	}
	if w := group[0]; w.Message != "" {
		p.Text(indent, style, output.OneLine(w.Message))
	}
	for _, change := range group[0].Changes {
		if reflect.DeepEqual(change.Live, change.Rendered) {
			p.Linef("%s%s", indent, p.Paint(output.Attention, "~ "+change.Field+": changes; the value is not shown"))
			continue
		}
		p.Change(indent, change.Field, output.ValueOf(change.Live), output.ValueOf(change.Rendered))
	}
}

// label is the kind and the name of the Workspace. While its template does not exist, only that of the WorkspaceTemplateApply is known.
func label(w *changes.Workspace) string {
	switch {
	case w.Name == "":
		return "WorkspaceTemplateApply " + w.Apply
	case w.Namespace == "":
		return "Workspace " + w.Name
	}
	return "Workspace " + w.Namespace + "/" + w.Name
}
