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
	now, err := Units(s, Options{Decisions: decisionsAbout(s, decisions, unit), Now: s.Taken})
	if err != nil {
		return err
	}
	members := map[types.UID]bool{}
	for _, member := range unit.Members {
		members[member.Object.UID] = true
	}
	for i := range now.Findings {
		finding := &now.Findings[i]
		ours := slices.ContainsFunc(finding.Objects(), func(object migrate.ObjectRef) bool { return members[object.UID] })
		if ours && (finding.Severity == migrate.Ambiguous || finding.Severity == migrate.Blocked) {
			return fmt.Errorf("%s changed since the plan was made (%s): %s", finding.Object, finding.Reason, finding.Message)
		}
	}
	for i := range now.Units {
		for _, step := range now.Units[i].Steps {
			if !slices.ContainsFunc(unit.Steps, func(planned plan.Step) bool { return contains(planned, step) }) {
				return fmt.Errorf("%s changed since the plan was made: its adoption would now write something else (%s). Create a new plan", step.Object, step.Why)
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

// decisionsAbout returns the decisions about objects of a snapshot. What a unit was planned with is decided: an owner that is written in part
// may no longer match by evidence.
func decisionsAbout(s *migrate.Snapshot, decisions *migrate.Decisions, unit *plan.Unit) *migrate.Decisions {
	some := &migrate.Decisions{}
	for _, member := range unit.Members {
		if apply := member.WorkspaceTemplateApply; apply != nil && apply.UID != member.Object.UID {
			some.Owners = append(some.Owners, migrate.OwnerDecision{UID: member.Object.UID, Take: apply.UID})
		}
	}
	if decisions == nil {
		return some
	}
	known := map[types.UID]bool{}
	for uid := range s.Raw {
		known[uid] = true
	}
	for i := range s.ClusterWideWorkspaces {
		known[s.ClusterWideWorkspaces[i].GetUID()] = true
	}
	for _, decision := range decisions.Owners {
		i := slices.IndexFunc(some.Owners, func(d migrate.OwnerDecision) bool { return d.UID == decision.UID })
		switch {
		case i >= 0:
			some.Owners[i].Pin = decision.Pin
		case known[decision.UID] && (decision.Take == "" || known[decision.Take]):
			some.Owners = append(some.Owners, decision)
		}
	}
	for _, decision := range decisions.Workspaces {
		if known[decision.UID] && known[decision.BelongsTo] {
			some.Workspaces = append(some.Workspaces, decision)
		}
	}
	return some
}
