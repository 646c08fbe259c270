// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspacetemplateapply

import (
	"fmt"

	"github.com/capt-provider/capt/api/desired"
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
)

// firstConflict returns why the Workspace is not written although it can be rendered; nil when it may be.
func firstConflict(f *Facts) *desired.Blocked {
	if f.Unadopted != "" {
		return &desired.Blocked{Reason: infrav1.AdoptionRequiredReason, Message: unadoptedMessage(f.apply, f)}
	}
	return f.desired().Conflict()
}

func conflict(f *Facts) engine.Condition {
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
		w.Live = f.Live.Object()
	}
	return w
}

func unadoptedMessage(_ *infrav1.WorkspaceTemplateApply, f *Facts) string {
	if f.AdoptedFor != "" {
		return fmt.Sprintf("Workspace %s belongs to %s, for which it was adopted: CAPT v0.3 created none for this object, and nothing is written or deleted. To create a Workspace with another name, and its cloud resources, run: %s", f.Unadopted, f.AdoptedFor, f.BuildCommand)
	}
	return fmt.Sprintf("Workspace %s was created by CAPT v0.3 for this object and has not been adopted: nothing is written or deleted. Adopt it with captctl migrate (see captctl migrate check); if it belongs to another object, set spec.workspaceName to another name", f.Unadopted)
}

const leftAloneMessage = "this object is a helper of CAPT v0.3, which recorded no Workspace for it, and spec.deletionPolicy is Retain: nothing is written or deleted. No action is needed"
