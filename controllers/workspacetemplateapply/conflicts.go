// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// firstConflict returns why the Workspace is not written although it can be rendered; nil when it may be.
func firstConflict(f *Facts) *desired.Blocked {
	return f.desired().Conflict()
}

// mustNotBeWritten reports whether the gate or a rule forbids to write the Workspace.
func (f *Facts) mustNotBeWritten() bool { return f.Block != nil || firstConflict(f) != nil }

func conflict(f *Facts) engine.Condition {
	if f.Block != nil {
		return engine.True(infrav1.WorkspaceConflictCondition, f.Block.Reason, f.Block.Message)
	}
	if found := firstConflict(f); found != nil {
		return engine.True(infrav1.WorkspaceConflictCondition, found.Reason, found.Message)
	}
	return engine.False(infrav1.WorkspaceConflictCondition, infrav1.WorkspaceOwnedReason, "")
}

// desired returns the Workspace as package desired describes it.
func (f *Facts) desired() *desired.Workspace {
	w := &desired.Workspace{
		Apply: f.apply, Name: f.Name, Template: f.Template, Revision: f.Revision, RevisionMissing: f.RevisionMissing, Rendered: f.Rendered, RenderErrors: f.RenderErrors,
		Ownership: f.Ownership, OlderClaim: f.OlderClaim, OwnerMissing: f.OwnerMissing, Findings: f.Findings,
	}
	if f.Live != nil {
		w.Live = f.Live.Unstructured
	}
	return w
}
