// SPDX-FileCopyrightText: The CAPT Authors
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/api/naming"
)

// Restored reports whether a WorkspaceTemplateApply was restored from a backup or moved, and does not own its Workspace again yet: the
// annotations were written for an object with another UID, of which this one is a copy.
func Restored(apply *infrav1.WorkspaceTemplateApply) bool {
	return apply.Status.WorkspaceRef == nil && apply.Annotations[naming.ExternalNameAnnotation] != "" &&
		apply.Annotations[naming.NotedByAnnotation] != string(apply.UID)
}
