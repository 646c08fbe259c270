// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// decided shows the decisions that a plan was made with, and what became of the owners.
func decided(p *output.Printer, of *plan.Plan) {
	if of.Decisions == nil || len(of.Decisions.Owners)+len(of.Decisions.Workspaces) == 0 {
		return
	}
	known, states := named(of), map[types.UID]string{}
	for _, unit := range of.Units {
		for _, member := range unit.Members {
			states[member.Object.UID] = string(member.State)
			if member.WorkspaceTemplateApply != nil {
				states[member.WorkspaceTemplateApply.UID] = string(member.State)
			}
		}
	}
	rows := output.Rows{}
	for _, decision := range of.Decisions.Owners {
		if chosen(decision, known) == "" { // It is decided later.
			continue
		}
		rows = append(rows, []string{known(decision.UID), chosen(decision, known), states[decision.UID], decision.Reason})
	}
	for _, decision := range of.Decisions.Workspaces {
		if decision.BelongsTo == "" {
			continue
		}
		rows = append(rows, []string{known(decision.UID), "belongsTo " + known(decision.BelongsTo), states[decision.BelongsTo], decision.Reason})
	}
	p.Blank()
	p.Linef("%s: %s", p.Paint(output.Strong, "Planned with"), Count(len(rows), "decision"))
	p.Table([]output.Column{{Name: "Object"}, {Name: "Decision"}, {Name: "State"}, {Name: "Reason"}}, rows)
}

// chosen is a decision about an owner in words.
func chosen(decision migrate.OwnerDecision, known func(types.UID) string) string {
	var parts []string
	if decision.Take != "" {
		parts = append(parts, "take "+known(decision.Take))
	}
	if decision.Pin {
		parts = append(parts, "pin")
	}
	if decision.Skip {
		parts = append(parts, "skip")
	}
	return strings.Join(parts, ", ")
}

// named returns a function that names the objects of a plan by their UIDs.
func named(of *plan.Plan) func(types.UID) string {
	names := map[types.UID]string{}
	for i := range of.Units {
		for _, object := range of.Units[i].Objects() {
			names[object.UID] = object.String()
		}
	}
	for _, finding := range of.Findings {
		for _, object := range finding.Objects() {
			names[object.UID] = object.String()
		}
	}
	return func(uid types.UID) string { return cmp.Or(names[uid], string(uid)) }
}
