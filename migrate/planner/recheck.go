// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
	"github.com/capt-provider/capt/migrate/plan"
)

// Recheck plans one unit again from a fresh snapshot of its objects, right before it is written. The error says what changed since the plan was
// made: the manager would now change a Workspace, or something else would be written than planned.
func Recheck(s *migrate.Snapshot, decisions *migrate.Decisions, unit *plan.Unit) error {
	now, err := Units(s, Options{Decisions: decisionsAbout(s, decisions), Now: s.Taken})
	if err != nil {
		return err
	}
	members := map[types.UID]bool{}
	for _, member := range unit.Members {
		members[member.Object.UID] = true
	}
	for _, finding := range now.Findings {
		if members[finding.Object.UID] && (finding.Severity == migrate.Ambiguous || finding.Severity == migrate.Blocked) {
			return fmt.Errorf("%s changed since the plan was made (%s): %s", finding.Object, finding.Reason, finding.Message)
		}
	}
	for i := range now.Units {
		for _, step := range now.Units[i].Steps {
			if !slices.ContainsFunc(unit.Steps, func(planned plan.Step) bool { return contains(planned, step) }) {
				return fmt.Errorf("%s changed since the plan was made: its adoption would now write %s. Create a new plan", step.Object, step.Fields[0].Path)
			}
		}
	}
	return nil
}

// contains reports whether a planned step writes everything that another one does.
func contains(planned, step plan.Step) bool {
	return planned.Object == step.Object && planned.Subresource == step.Subresource && !slices.ContainsFunc(step.Fields, func(field plan.Field) bool {
		return !slices.ContainsFunc(planned.Fields, func(known plan.Field) bool {
			return known.Path == field.Path && string(known.After) == string(field.After)
		})
	})
}

// decisionsAbout returns the decisions about objects of a snapshot.
func decisionsAbout(s *migrate.Snapshot, decisions *migrate.Decisions) *migrate.Decisions {
	if decisions == nil {
		return nil
	}
	known := map[types.UID]bool{}
	for uid := range s.Raw {
		known[uid] = true
	}
	for i := range s.ClusterWideWorkspaces {
		known[s.ClusterWideWorkspaces[i].GetUID()] = true
	}
	for i := range s.NamespacedWorkspaces {
		known[s.NamespacedWorkspaces[i].GetUID()] = true
	}
	some := *decisions
	some.Owners = slices.DeleteFunc(slices.Clone(decisions.Owners), func(d migrate.OwnerDecision) bool {
		return !known[d.UID] || d.Take != "" && !known[d.Take]
	})
	some.Workspaces = slices.DeleteFunc(slices.Clone(decisions.Workspaces), func(d migrate.WorkspaceDecision) bool { return !known[d.UID] || !known[d.BelongsTo] })
	return &some
}
