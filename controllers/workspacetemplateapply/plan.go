// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/terraform"
	"github.com/capt-provider/capt/controllers/workspacetemplateapply/previews"
)

// Action is what a reconcile does.
type Action string

const (
	// Observe: nothing to write.
	Observe Action = "Observe"
	// Create the Workspace.
	Create Action = "Create"
	// Protect the owned Workspace: add the finalizer, and the annotation that blocks clusterctl move.
	Protect Action = "Protect"
	// AllowMove: remove the annotation that blocks clusterctl move.
	AllowMove Action = "AllowMove"
	// Update the Workspace to the rendered spec.
	Update Action = "Update"
	// Restore the managedFields of the Workspace, which were lost. Nothing else changes.
	Restore Action = "Restore"
	// Recover: carry out a recovery action that the owner requested.
	Recover Action = "Recover"
	// WaitForKind: the CRD of the Workspace is not installed, or not served.
	WaitForKind Action = "WaitForKind"
	// Destroy: delete the Workspace, so that Terraform destroys its resources.
	Destroy Action = "Destroy"
	// WaitForDestroy: the Workspace is being destroyed.
	WaitForDestroy Action = "WaitForDestroy"
	// Release: remove the finalizers. The Workspace is gone, or is retained.
	Release Action = "Release"
)

// changesResources reports whether an action makes Terraform start.
func (a Action) changesResources() bool {
	return a == Create || a == Update || a == Recover || a == Destroy
}

// Plan is the decision of a reconcile.
type Plan struct {
	Action Action
	// Paused is why the object is paused, and what blocks clusterctl move; empty when it is not paused.
	Paused string
	// Preview is what happens with the preview of another revision, or of a change of spec.
	Preview previews.Decision
	// HeldBy is the reason why a change of spec is not written to the Workspace; empty if it is, or if there is none.
	HeldBy string
}

// plan is pure.
func plan(apply *infrav1.WorkspaceTemplateApply, f *Facts) (Plan, error) {
	p := Plan{Preview: previews.Decide(&f.Preview)}
	p.HeldBy = f.Change.HeldBy(ptr.Deref(p.Preview.Result, infrav1.RevisionPreview{}).Result)
	switch {
	case f.Paused != "":
		p.Action, p.Paused = planPaused(apply, f)
	case !apply.DeletionTimestamp.IsZero():
		p.Action = deletionAction(apply, f)
	default:
		p.Action = normalAction(apply, f, p.HeldBy != "")
	}
	return p, nil
}

// planPaused only allows the object to be moved. It returns why the object is paused.
func planPaused(apply *infrav1.WorkspaceTemplateApply, f *Facts) (Action, string) {
	if !f.moveRequested(apply) {
		return Observe, f.Paused
	}
	if blocked := f.moveBlockedBy(apply); blocked != "" {
		return Observe, f.Paused + "; clusterctl move would wait: " + blocked
	}
	return AllowMove, f.Paused
}

// normalAction is the action for an object that is neither paused nor deleted.
func normalAction(apply *infrav1.WorkspaceTemplateApply, f *Facts, held bool) Action {
	switch {
	case f.Block != nil:
		return Observe
	case f.KindMissing:
		return WaitForKind
	case f.owned() && !f.isProtected(apply):
		return Protect
	case firstConflict(f) != nil:
		return Observe
	case f.Rendered == nil, len(f.Missing) > 0, f.LookupError != nil, f.NotRecreated, f.Rejected != "", f.desired().NotRendered() != nil:
		return Observe
	case f.Live == nil && !held:
		return Create
	case f.outdated():
		return f.updateAction(apply, held)
	case f.recoveryRequested(apply):
		return Recover
	case f.lostManagedFields(apply):
		return Restore
	}
	return Observe
}

// updateAction is the action for a Workspace that must be updated. While a change of spec is held, recovery continues for the content that it has.
func (f *Facts) updateAction(apply *infrav1.WorkspaceTemplateApply, held bool) Action {
	switch {
	case !held:
		return Update
	case f.recoveryRequested(apply):
		return Recover
	}
	return Observe
}

// deletionAction is the action for an object that is being deleted.
func deletionAction(apply *infrav1.WorkspaceTemplateApply, f *Facts) Action {
	switch {
	case f.DeletionHeld != nil, f.RetainConflict != "":
		return Observe
	case retained(apply), f.Restored:
		return Release
	case f.Block != nil:
		return Observe
	case f.KindMissing:
		return WaitForKind
	case !f.owned():
		return Release
	case f.Dependents != nil && !f.Live.Deleting():
		return Observe
	case f.Live.Deleting():
		return WaitForDestroy
	}
	return Destroy
}

// setAssignment records since when the object has the revision that a rollout assigned to it. It must not change while the revision is the same: the rollout
// waits for the object until a deadline.
func setAssignment(apply *infrav1.WorkspaceTemplateApply, f *Facts) {
	switch recorded, assigned := &apply.Status.Assignment, apply.Spec.TemplateRevision; {
	case assigned == "":
		*recorded = infrav1.RevisionAssignment{}
	case terraform.IsRecordedAs(recorded.TemplateRevision, assigned): // Spec may have its first digits only.
	case !terraform.IsRecordedAs(assigned, recorded.TemplateRevision):
		*recorded = infrav1.RevisionAssignment{TemplateRevision: assigned, Time: ptr.To(metav1.NewTime(f.Now))}
	default:
		recorded.TemplateRevision = assigned
	}
}
