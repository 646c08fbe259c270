// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
	"github.com/capt-provider/capt/api/render"
	"github.com/capt-provider/capt/controllers/managedfields"
)

// Differs reports whether applying the rendered Workspace would change the live one. It is checked before each write, because any write makes
// the provider run a plan.
func (l *Live) Differs(rendered *render.Rendered) bool {
	return rendered.Differs(l.object)
}

// LostManagedFields reports whether the managedFields of a Workspace that CAPT created for the WorkspaceTemplateApply were lost.
func (l *Live) LostManagedFields(apply *infrav1.WorkspaceTemplateApply) bool {
	return l.ClaimedBy(apply) && managedfields.Lost(l.object, naming.WorkspaceTemplateApplyFieldManager)
}
