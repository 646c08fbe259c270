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

// Package view is what captctl shows to people: plans, findings, patches, fleets and reports, as tables and as text. It decides nothing.
package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/migrate"
)

// Plan shows what a plan would write, object by object.
func Plan(p *output.Printer, plan *migrate.Plan) {
	PlanSummary(p, plan)
	if len(plan.Grants) > 0 {
		p.Blank()
		p.Linef("%s", p.Paint(output.Strong, "Permissions, granted first:"))
		p.Table([]output.Column{{Name: "Namespace"}, {Name: "WorkspaceTemplate"}, {Name: "Writes"}, {Name: "Why"}}, grantRows(plan))
	}
	if len(plan.Units) > 0 {
		p.Blank()
		p.Linef("%s", p.Paint(output.Strong, "Owners, adopted one by one:"))
		p.Table(unitColumns, unitRows(plan))
	}
	if len(plan.Storage) > 0 {
		p.Blank()
		p.Linef("%s", p.Paint(output.Strong, "Objects, rewritten in "+migrate.Version+" without a change:"))
		p.Table([]output.Column{{Name: "Kind"}, {Name: "Objects"}, {Name: "Old-Owner-References"}}, storageRows(plan))
	}
	Findings(p, plan.Findings)
}

// PlanSummary shows what a plan is, and how much it would write.
func PlanSummary(p *output.Printer, plan *migrate.Plan) {
	p.Linef("Plan %s for the management cluster %s", p.Paint(output.Strong, plan.ID), p.Paint(output.Plain, string(plan.ClusterUID)))
	p.Linef("  Scope:      %s, %s", plan.Scope, namespaces(plan.Namespace))
	p.Linef("  Made:       %s, may be carried out until %s", moment(plan.Created.Time), moment(plan.Expires.Time))
	p.Linef("  Writes:     %s", writes(plan))
	p.Linef("  Must stay:  %s and %s", count(len(plan.Baseline.Workspaces), "Workspace"),
		count(len(plan.Baseline.WorkspaceTemplateApplies), "WorkspaceTemplateApply"))
	p.Linef("  Findings:   %s", severities(p, plan.Findings))
}

var unitColumns = []output.Column{
	{Name: "Namespace"}, {Name: "Owner"}, {Name: "Cluster"}, {Name: "WorkspaceTemplateApply"}, {Name: "Workspace"}, {Name: "Writes"},
	{Name: "Evidence"}, {Name: "More-Evidence", Wide: true},
}

func unitRows(plan *migrate.Plan) (rows output.Rows) {
	for _, unit := range plan.Units {
		first, more := "", ""
		if len(unit.Evidence) > 0 {
			first, more = unit.Evidence[0], strings.Join(unit.Evidence[1:], "; ")
		}
		rows = append(rows, []string{
			unit.Owner.Namespace, unit.Owner.Kind + "/" + unit.Owner.Name, unit.Cluster, name(unit.WorkspaceTemplateApply), name(unit.Workspace),
			fields(unit.Steps), first, more,
		})
	}
	return rows
}

func grantRows(plan *migrate.Plan) (rows output.Rows) {
	for _, step := range plan.Grants {
		rows = append(rows, []string{step.Object.Namespace, step.Object.Name, fields([]migrate.Step{step}), step.Why})
	}
	return rows
}

// storageRows count by kind, in the order of writing.
func storageRows(plan *migrate.Plan) (rows output.Rows) {
	var kinds []string
	objects, owners := map[string]int{}, map[string]int{}
	for _, item := range plan.Storage {
		if objects[item.Kind] == 0 {
			kinds = append(kinds, item.Kind)
		}
		objects[item.Kind]++
		if len(item.OwnerReferences) > 0 {
			owners[item.Kind]++
		}
	}
	for _, kind := range kinds {
		rows = append(rows, []string{kind, fmt.Sprint(objects[kind]), fmt.Sprint(owners[kind])})
	}
	return rows
}

// fields that steps write, each once.
func fields(steps []migrate.Step) string {
	var names []string
	for _, step := range steps {
		if step.Create != nil {
			names = append(names, step.Object.Kind+" "+step.Object.Name)
		}
		for _, operation := range step.Patch {
			field := shortPath(operation.Path)
			if operation.Op != "test" && !slices.Contains(names, field) {
				names = append(names, field)
			}
		}
	}
	return strings.Join(names, ", ")
}

func writes(plan *migrate.Plan) string {
	if plan.Empty() {
		return "none: there is nothing to do"
	}
	steps := 0
	for _, unit := range plan.Units {
		steps += len(unit.Steps)
	}
	return fmt.Sprintf("%s, %s (%s), %s in %s", count(len(plan.Grants), "permission"), count(len(plan.Units), "owner"), count(steps, "patch"),
		count(len(plan.Storage), "object"), migrate.Version)
}

func namespaces(only string) string {
	if only == "" {
		return "all namespaces"
	}
	return "namespace " + only + " only"
}

// moment is in UTC: those who look at a plan may be elsewhere than those who made it.
func moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// count is "1 object" or "2 objects".
func count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	case strings.HasSuffix(noun, "y"):
		noun = strings.TrimSuffix(noun, "y") + "ies"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func name(ref *migrate.ObjectRef) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
