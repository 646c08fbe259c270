// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
)

// Action is what to do about a WorkspaceTemplateApply.
type Action string

const (
	// Observe: nothing to write, status says what is waited for.
	Observe Action = "Observe"
	// Create the Workspace.
	Create Action = "Create"
	// Hold: put the finalizer on, and what keeps clusterctl from moving the object, since a Workspace of ours is there and
	// must not be left behind.
	Hold Action = "Hold"
	// LetMove: take away what keeps clusterctl from moving the object.
	LetMove Action = "LetMove"
	// Update the Workspace to what was rendered.
	Update Action = "Update"
	// Restore the managedFields of the Workspace, which were lost. Nothing in it changes.
	Restore Action = "Restore"
	// AwaitKind: the Workspace CRD is not installed, or not served yet.
	AwaitKind Action = "AwaitKind"
	// AwaitTurn: another WorkspaceTemplateApply of the same series comes first. Nothing is written.
	AwaitTurn Action = "AwaitTurn"
	// Destroy: delete the Workspace, so that Terraform destroys what it made.
	Destroy Action = "Destroy"
	// AwaitDestroyed: the Workspace is being destroyed.
	AwaitDestroyed Action = "AwaitDestroyed"
	// Release: the WorkspaceTemplateApply may go, nothing of it is left or it is left on purpose.
	Release Action = "Release"
)

// decide is pure.
func decide(apply *infrav1.WorkspaceTemplateApply, f *Facts) Action {
	switch {
	case f.Paused != "":
		return decidePaused(apply, f)
	case !apply.DeletionTimestamp.IsZero():
		return decideDeletion(apply, f)
	case f.Unadopted != "":
		return Observe
	case f.KindMissing:
		return AwaitKind
	case f.owned() && !f.held(apply):
		return Hold
	case conflicting(f) != nil:
		return Observe
	case f.Rendered == nil, len(f.Missing) > 0, f.Unreadable != nil, f.GoneForGood, f.Rejected != "", f.TemplateLeaves:
		return Observe
	case f.Live == nil:
		return Create
	case f.outdated():
		return Update
	case f.disowned(apply):
		return Restore
	}
	return Observe
}

func decideDeletion(apply *infrav1.WorkspaceTemplateApply, f *Facts) Action {
	switch {
	case f.RetainConflict != "":
		return Observe
	case retained(apply), f.Restored:
		return Release
	case f.Unadopted != "":
		return Observe
	case f.KindMissing:
		return AwaitKind
	case !f.owned():
		return Release
	case len(f.Dependents) > 0 && !f.Live.Deleting():
		return Observe
	case f.Live.Deleting():
		return AwaitDestroyed
	}
	return Destroy
}
