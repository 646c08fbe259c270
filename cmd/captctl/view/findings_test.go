// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/capt-provider/capt/cmd/captctl/output"
	"github.com/capt-provider/capt/cmd/captctl/view"
	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/check"
	"github.com/capt-provider/capt/migrate/plan"
	"github.com/capt-provider/capt/migrate/status"
)

func TestOfManyWarningsTheFirstAreShown(t *testing.T) {
	var many []migrate.Finding
	for range 30 {
		many = append(many, findings()[0])
	}
	for format, lines := range map[output.Format]int{output.Table: 20, output.Wide: 30} {
		text := printed(t, format, func(to *output.Printer) { view.Findings(to, &plan.Plan{Findings: many}) })
		assert.Equal(t, lines, strings.Count(text, "CAPTControlPlane team-a/demo"))
		assert.Equal(t, format == output.Table, strings.Contains(text, fmt.Sprintf("and %d more, which -o wide shows", 10)))
	}
}

func TestFindingsWithTheSameDifferencesAreShownOnce(t *testing.T) {
	one, two := findings()[2], findings()[2]
	two.Object.Name, two.Message = "other", "Terraform would run for it, too"
	text := printed(t, output.Table, func(to *output.Printer) { view.Findings(to, &plan.Plan{Findings: []migrate.Finding{one, two}}) })
	assert.Contains(t, text, "Blocked: WorkspaceDiffers (2), with the same differences\n  CAPTControlPlane team-c/old: Terraform would run.")
	assert.Contains(t, text, "\n  CAPTControlPlane team-c/other: Terraform would run for it, too\n")
	assert.Equal(t, 1, strings.Count(text, "spec.deletionPolicy: Orphan"))
	two.Differences = two.Differences[:1]
	text = printed(t, output.Table, func(to *output.Printer) { view.Findings(to, &plan.Plan{Findings: []migrate.Finding{one, two}}) })
	assert.Equal(t, 2, strings.Count(text, "spec.deletionPolicy: Orphan"), "others are shown each")
}

func TestStatusSaysWhatComesNext(t *testing.T) {
	next := func(state plan.UnitState) string {
		s := &status.Status{Units: []status.UnitStatus{{Unit: "team-a/demo", State: state}}}
		return printed(t, output.Table, func(to *output.Printer) { view.Status(to, s, now) })
	}
	assert.Contains(t, next(plan.Adoptable), "1 unit left to do: captctl migrate check shows the findings and the next steps.\n")
	assert.Contains(t, next(plan.Adopted), "Nothing is left to adopt. Convert the manifests in Git next: captctl convert ")
}

// Of a unit that is adopted but for what a decision skips, the next plan would adopt the rest without that decision.
func TestDecisionsToPasteKeepWhatIsSkipped(t *testing.T) {
	of := &plan.Plan{
		Decisions: &migrate.Decisions{Owners: []migrate.OwnerDecision{{UID: skipped.UID, Skip: true}, {UID: demo.UID, Pin: true}}},
		Units: []plan.Unit{
			{State: plan.Adopted, Members: []plan.Member{{Object: skipped, State: migrate.OwnerSkipped}, {Object: demo, State: migrate.Adopted}}},
			{State: plan.Adoptable, Members: []plan.Member{{Object: unclear}}},
		},
	}
	assert.True(t, view.NeedsDecisionsAgain(of))
	found := view.NewCheck(&check.Report{}, &status.Fleet{Plan: of}, nil)
	text := printed(t, output.Table, func(to *output.Printer) { view.ShowCheck(to, found) })
	assert.Regexp(t, "- uid: "+string(skipped.UID)+" .*\\n  skip: true\\n", text)
	assert.NotContains(t, text, "pin: true")
}
