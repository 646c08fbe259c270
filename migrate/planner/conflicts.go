// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capt-provider/capt/migrate"
)

// conflicts merges findings about one conflict: owners that may have the same WorkspaceTemplateApply, or whose WorkspaceTemplateApplies
// refer to the same Workspace. Others stay as they are.
func conflicts(findings []migrate.Finding) []migrate.Finding {
	group := make([]int, len(findings)) // For each finding the first one of its conflict.
	root := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	first := map[types.UID]int{}
	for i := range findings {
		group[i] = i
		for _, uid := range about(&findings[i]) {
			other, seen := first[uid]
			if !seen {
				first[uid] = i
				continue
			}
			a, b := root(i), root(other)
			group[max(a, b)] = min(a, b)
		}
	}
	at := map[int]int{}
	var merged []migrate.Finding
	for i := range findings {
		into, known := at[root(i)]
		if !known {
			at[root(i)] = len(merged)
			merged = append(merged, findings[i])
			continue
		}
		merge(&merged[into], &findings[i])
	}
	return merged
}

// about are the objects that a finding has in common with others of its conflict.
func about(finding *migrate.Finding) (uids []types.UID) {
	switch {
	case finding.Severity != migrate.Ambiguous:
	case finding.Reason == ReasonWorkspaceShared:
		return []types.UID{finding.Workspace.UID}
	case finding.Reason == ReasonSeveral:
		for _, candidate := range finding.Candidates {
			uids = append(uids, candidate.Object.UID)
		}
	}
	return uids
}

// merge adds a finding to another one of the same conflict. Evidence for a candidate is about one owner: it says about which.
func merge(into, from *migrate.Finding) {
	into.AlsoAbout = append(into.AlsoAbout, from.Object)
	if into.Reason == ReasonWorkspaceShared {
		return // Evidence is about the Workspace, and the same for all owners.
	}
	if len(into.AlsoAbout) == 1 {
		ofOwner(into, into.Object)
	}
	ofOwner(from, from.Object)
	into.Candidates = append(into.Candidates, from.Candidates...)
	into.Message = fmt.Sprintf("%d owners may have the same WorkspaceTemplateApplies. Decide for each of them which one is its own with take: UID in --decisions, or leave it as it is with skip: true",
		len(into.AlsoAbout)+1)
}

func ofOwner(finding *migrate.Finding, owner migrate.ObjectRef) {
	for i := range finding.Candidates {
		finding.Candidates[i].Owner = &owner
	}
}
